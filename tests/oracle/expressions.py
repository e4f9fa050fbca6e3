"""Scalar expressions with Spark's meaning (ANSI on): three-valued logic, lazy branches.

``build`` turns a tree into a type and a function of a row. A scope says what a name means; with
``null_on_error`` an operator that fails gives NULL instead of RowError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from .arithmetic import arithmetic, interval_us
from .built import Built, Scope, choose, coerced, compare, constant, strict
from .calls import call
from .parse import Refused
from .values import RowError, as_text, cast, fit, order_key, type_name, widest


@dataclass(frozen=True)
class LambdaScope:
    """The body of ``t -> ..``: its variables, and all that is known outside."""

    outer: Scope
    types: dict[str, str]

    @property
    def null_on_error(self) -> bool:
        return self.outer.null_on_error

    def resolve(self, node: exp.Expression) -> Built | None:
        if isinstance(node, exp.Identifier | exp.Column) and node.name in self.types:
            name = node.name
            return Built(self.types[name], lambda env: env[1][name])
        if (found := self.outer.resolve(node)) is not None:
            return Built(found.type, lambda env: found.run(env[0]))
        return None


def build(node: exp.Expression, scope: Scope) -> Built:
    """The type and the function of an expression."""
    found = scope.resolve(node)
    if found is None:
        found = _build_parts(node, scope)
    if not scope.null_on_error:
        return found
    inner = found.run

    def guarded(env: object) -> object:
        try:
            return inner(env)
        except RowError:
            return None

    return Built(found.type, guarded)


def _build_parts(node: exp.Expression, scope: Scope) -> Built:
    for kind, builder in _BUILDERS.items():
        if isinstance(node, kind):
            return builder(node, scope)
    raise Refused(f"{node.sql(dialect='spark')!r} is not understood here")


def _literal(node: exp.Literal, scope: Scope) -> Built:
    if node.is_string:
        return constant(node.this, "STRING")
    if re.fullmatch(r"\d+", node.this):
        return constant(int(node.this), "INT" if int(node.this) < 1 << 31 else "BIGINT")
    if "e" in node.this.lower():
        return constant(float(node.this), "DOUBLE")
    value = Decimal(node.this)
    scale = max(0, -int(value.as_tuple().exponent))
    return constant(value, f"DECIMAL({max(len(value.as_tuple().digits), scale)},{scale})")


def _negative(node: exp.Neg, scope: Scope) -> Built:
    part = build(node.this, scope)
    return strict(part.type, lambda x: fit(-x, part.type), part)


def _not(node: exp.Not, scope: Scope) -> Built:
    return strict("BOOLEAN", lambda x: not x, build(node.this, scope))


def _junction(decides: bool) -> Callable[[exp.Connector, Scope], Built]:
    """AND (False decides) and OR (True decides); the right side is evaluated only if needed."""

    def builder(node: exp.Connector, scope: Scope) -> Built:
        left, right = build(node.left, scope), build(node.right, scope)

        def run(env: object) -> object:
            a = left.run(env)
            if a is decides:
                return decides
            b = right.run(env)
            if b is decides:
                return decides
            return None if a is None or b is None else not decides

        return Built("BOOLEAN", run)

    return builder


def _comparison(test: Callable[[object, object], bool]) -> Callable[[exp.Binary, Scope], Built]:
    def builder(node: exp.Binary, scope: Scope) -> Built:
        return compare(build(node.left, scope), build(node.right, scope), test)

    return builder


def _null_safe(node: exp.NullSafeEQ, scope: Scope) -> Built:
    left, right = build(node.left, scope), build(node.right, scope)
    kind = widest(left.type, right.type)
    a, b = coerced(left, kind), coerced(right, kind)
    return Built("BOOLEAN", lambda env: order_key(a.run(env)) == order_key(b.run(env)))


def _is(node: exp.Is, scope: Scope) -> Built:
    part = build(node.this, scope)
    wanted = node.expression.this if isinstance(node.expression, exp.Boolean) else None
    return Built("BOOLEAN", lambda env: part.run(env) is wanted)


def _in(node: exp.In, scope: Scope) -> Built:
    parts = [build(item, scope) for item in (node.this, *node.expressions)]
    kind = widest(*(part.type for part in parts))
    value, *items = (coerced(part, kind) for part in parts)

    def run(env: object) -> object:
        found = value.run(env)
        if found is None:
            return None
        others = [item.run(env) for item in items]
        if order_key(found) in [order_key(other) for other in others if other is not None]:
            return True
        return None if None in others else False

    return Built("BOOLEAN", run)


def _between(node: exp.Between, scope: Scope) -> Built:
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return build(exp.And(this=low, expression=high), scope)


def _like(flags: int) -> Callable[[exp.Binary, Scope], Built]:
    def test(text: str, pattern: str) -> bool:
        # A backslash escapes the character after it.
        parts = re.findall(r"\\.|.", pattern, re.DOTALL)
        wild = {"%": ".*", "_": "."}
        regex = "".join(wild.get(part, re.escape(part[-1])) for part in parts)
        return re.fullmatch(regex, text, flags | re.DOTALL) is not None

    return lambda node, scope: strict(
        "BOOLEAN", test, build(node.this, scope), build(node.expression, scope)
    )


def _rlike(node: exp.RegexpLike, scope: Scope) -> Built:
    parts = build(node.this, scope), build(node.expression, scope)
    return strict("BOOLEAN", lambda x, y: re.search(y, x) is not None, *parts)


def _case(node: exp.Case, scope: Scope) -> Built:
    branches = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
        branches.append((build(condition, scope), build(branch.args["true"], scope)))
    default = node.args.get("default")
    return choose(branches, build(default, scope) if default else constant(None, "NULL"))


def _if(node: exp.If, scope: Scope) -> Built:
    otherwise = node.args.get("false")
    branch = build(node.this, scope), build(node.args["true"], scope)
    return choose([branch], build(otherwise, scope) if otherwise else constant(None, "NULL"))


def _arithmetic(node: exp.Binary, scope: Scope) -> Built:
    return arithmetic(node, build(node.left, scope), build(node.right, scope))


def _bits(operation: Callable[[int, int], int]) -> Callable[[exp.Binary, Scope], Built]:
    def builder(node: exp.Binary, scope: Scope) -> Built:
        left, right = build(node.left, scope), build(node.right, scope)
        return strict(widest(left.type, right.type), operation, left, right)

    return builder


def _shift(operation: Callable[[int, int, int], int]) -> Callable[[exp.Expression, Scope], Built]:
    """Shifts of a value; the number of places is taken modulo the width in bits."""

    def builder(node: exp.Expression, scope: Scope) -> Built:
        given = node.expressions if isinstance(node, exp.Anonymous) else (node.left, node.right)
        left, right = (build(each, scope) for each in given)
        kind = "BIGINT" if left.type == "BIGINT" else "INT"
        width = 64 if kind == "BIGINT" else 32

        def shifted(value: int, places: int) -> int:
            bits = operation(value, places % width, width) % (1 << width)
            return bits - (1 << width) if bits >> (width - 1) else bits

        return strict(kind, shifted, left, right)

    return builder


def _join_text(node: exp.DPipe, scope: Scope) -> Built:
    parts = build(node.left, scope), build(node.right, scope)
    return strict("STRING", lambda a, b: as_text(a) + as_text(b), *parts)


def _cast(node: exp.Cast, scope: Scope) -> Built:
    part = build(node.this, scope)
    kind = type_name(node.args["to"].sql(dialect="spark"))

    def run(env: object) -> object:
        try:
            return cast(part.run(env), part.type, kind)
        except (ValueError, InvalidOperation, OverflowError) as error:
            raise RowError("invalid_cast") from error

    def tried(env: object) -> object:
        value = part.run(env)
        try:
            return cast(value, part.type, kind)
        except RowError:
            return None

    return Built(kind, tried if node.args.get("safe") else run)


def _interval(node: exp.Interval, scope: Scope) -> Built:
    return constant(timedelta(microseconds=interval_us(node)), "INTERVAL")


def _extract(node: exp.Extract, scope: Scope) -> Built:
    return call(node.name.lower(), [build(node.expression, scope)])


def _bracket(node: exp.Bracket, scope: Scope) -> Built:
    array, index = build(node.this, scope), build(node.expressions[0], scope)

    def at(values: list, i: int) -> object:
        if not 0 <= i < len(values):
            raise RowError("invalid_index")
        return values[i]

    return strict(array.type[6:-1] or "NULL", at, array, index)


def _dot(node: exp.Dot, scope: Scope) -> Built:
    name = node.expression.name
    return strict("NULL", lambda fields: fields[name], build(node.this, scope))


def _function(node: exp.Anonymous, scope: Scope) -> Built:
    name = node.name.lower()
    if name == "named_struct":
        return _named_struct(node.expressions, scope)
    if name == "shiftrightunsigned":
        return _shift(lambda a, n, width: a % (1 << width) >> n)(node, scope)
    if name in ("filter", "exists"):
        return _higher_order(name, node.expressions, scope)
    return call(name, [build(arg, scope) for arg in node.expressions])


def _named_struct(args: list[exp.Expression], scope: Scope) -> Built:
    names = [each.name for each in args[::2]]
    values = [build(each, scope) for each in args[1::2]]
    return Built(
        "NULL", lambda env: dict(zip(names, (each.run(env) for each in values), strict=True))
    )


def _transform(node: exp.Transform, scope: Scope) -> Built:
    return _higher_order("transform", [node.this, node.expression], scope)


def _higher_order(name: str, args: list[exp.Expression], scope: Scope) -> Built:
    array, function = build(args[0], scope), args[1]
    variable = function.expressions[0].name
    item_type = array.type[6:-1] or "NULL"
    body = build(function.this, LambdaScope(scope, {variable: item_type}))

    def run(env: object) -> object:
        values = array.run(env)
        if values is None:
            return None
        results = [body.run((env, {variable: value})) for value in values]
        if name == "exists":
            return any(result is True for result in results)
        if name == "filter":
            return [value for value, result in zip(values, results, strict=True) if result is True]
        return results

    kind = {"transform": f"ARRAY<{body.type}>", "filter": array.type, "exists": "BOOLEAN"}[name]
    return Built(kind, run)


_BUILDERS: dict[type, Callable[..., Built]] = {
    exp.Paren: lambda node, scope: build(node.this, scope),
    exp.Alias: lambda node, scope: build(node.this, scope),
    exp.Literal: _literal,
    exp.Boolean: lambda node, scope: constant(node.this, "BOOLEAN"),
    exp.Null: lambda node, scope: constant(None, "NULL"),
    exp.Neg: _negative,
    exp.Not: _not,
    exp.And: _junction(False),
    exp.Or: _junction(True),
    exp.EQ: _comparison(lambda a, b: a == b),
    exp.NEQ: _comparison(lambda a, b: a != b),
    exp.GT: _comparison(lambda a, b: a > b),
    exp.GTE: _comparison(lambda a, b: a >= b),
    exp.LT: _comparison(lambda a, b: a < b),
    exp.LTE: _comparison(lambda a, b: a <= b),
    exp.NullSafeEQ: _null_safe,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like(0),
    exp.ILike: _like(re.IGNORECASE),
    exp.RegexpLike: _rlike,
    exp.Case: _case,
    exp.If: _if,
    exp.Add: _arithmetic,
    exp.Sub: _arithmetic,
    exp.Mul: _arithmetic,
    exp.Div: _arithmetic,
    exp.IntDiv: _arithmetic,
    exp.Mod: _arithmetic,
    exp.BitwiseAnd: _bits(lambda a, b: a & b),
    exp.BitwiseOr: _bits(lambda a, b: a | b),
    exp.BitwiseXor: _bits(lambda a, b: a ^ b),
    exp.BitwiseLeftShift: _shift(lambda a, n, width: a << n),
    exp.BitwiseRightShift: _shift(lambda a, n, width: a >> n),
    exp.DPipe: _join_text,
    exp.Cast: _cast,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Bracket: _bracket,
    exp.Transform: _transform,
    exp.Dot: _dot,
    exp.Anonymous: _function,
}
