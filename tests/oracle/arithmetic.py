"""Arithmetic: widths that overflow, scales of decimals, division by zero, times and intervals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

from sqlglot import exp

from .built import Built, coerced, strict
from .functions import modulo
from .parse import Refused
from .values import EXACT, RowError, decimal_type, family, fit, is_number, precision, widest

INTERVAL_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 7 * 86_400_000_000,
}


def arithmetic(node: exp.Binary, left: Built, right: Built) -> Built:
    """``+ - * / div %`` over numbers and times, in the type that Spark gives it."""
    times = {"TIMESTAMP", "DATE", "INTERVAL"}
    if times & {left.type, right.type}:
        return _time_arithmetic(node, left, right)
    both = widest(left.type, right.type)
    if family(both) == "STRING":
        both = "DOUBLE"
    kind = _arithmetic_type(node, left.type, right.type, both)
    if family(both) != "DECIMAL":
        left, right = coerced(left, both), coerced(right, both)
    if kind == "DOUBLE":
        left, right = coerced(left, "DOUBLE"), coerced(right, "DOUBLE")
    operation = _OPERATIONS[type(node)]
    return strict(kind, lambda a, b: fit(operation(a, b), kind), left, right)


def _arithmetic_type(node: exp.Binary, a: str, b: str, both: str) -> str:
    if isinstance(node, exp.IntDiv):
        return "BIGINT"
    if family(both) == "DECIMAL":
        return _decimal_type(node, _digits(node.left, a), _digits(node.right, b))
    return "DOUBLE" if isinstance(node, exp.Div) and both != "FLOAT" else both


def _digits(node: exp.Expression, kind: str) -> tuple[int, int]:
    """Precision and scale; an integer literal has the digits it is written with."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        return len(node.this), 0
    return precision(kind)


def _decimal_type(node: exp.Binary, a: tuple[int, int], b: tuple[int, int]) -> str:
    """The rules of Spark for digits and scale."""
    (p1, s1), (p2, s2) = a, b
    scale = max(s1, s2)
    match node:
        case exp.Div():
            scale = max(6, s1 + p2 + 1)
            digits = p1 - s1 + s2 + scale
        case exp.Mul():
            digits, scale = p1 + p2 + 1, s1 + s2
        case exp.Mod():
            digits = min(p1 - s1, p2 - s2) + scale
        case _:
            digits = max(p1 - s1, p2 - s2) + scale + 1
    return decimal_type(digits, scale)


def divide(a: object, b: object) -> object:
    if b == 0:
        raise RowError("division_by_zero")
    return a / b if isinstance(a, float) else EXACT.divide(Decimal(a), Decimal(b))


def _whole_divide(a: object, b: object) -> int:
    if b == 0:
        raise RowError("division_by_zero")
    return int(EXACT.divide_int(Decimal(a), Decimal(b)))


def _float_or_exact(name: str) -> Callable[[object, object], object]:
    def operation(a: object, b: object) -> object:
        if isinstance(a, float):
            return getattr(a, f"__{name}__")(float(b))
        if isinstance(a, Decimal) or isinstance(b, Decimal):
            method = {"add": EXACT.add, "sub": EXACT.subtract, "mul": EXACT.multiply}[name]
            return method(Decimal(a), Decimal(b))
        return getattr(a, f"__{name}__")(b)

    return operation


_OPERATIONS: dict[type, Callable[[object, object], object]] = {
    exp.Add: _float_or_exact("add"),
    exp.Sub: _float_or_exact("sub"),
    exp.Mul: _float_or_exact("mul"),
    exp.Div: divide,
    exp.IntDiv: _whole_divide,
    exp.Mod: modulo,
}


def _time_arithmetic(node: exp.Binary, left: Built, right: Built) -> Built:
    sign = -1 if isinstance(node, exp.Sub) else 1
    if left.type == right.type == "INTERVAL":
        return strict("INTERVAL", lambda a, b: a + sign * b, left, right)
    if "INTERVAL" in (left.type, right.type):
        time, length = (right, left) if left.type == "INTERVAL" else (left, right)
        time = coerced(time, "TIMESTAMP")
        return strict("TIMESTAMP", lambda a, b: a + sign * b, time, length)
    if is_number(left.type) or is_number(right.type):
        day, count = (right, left) if is_number(left.type) else (left, right)
        return strict("DATE", lambda a, b: a + sign * timedelta(days=int(b)), day, count)
    kind = widest(left.type, right.type)
    return strict("INTERVAL", lambda a, b: a - b, coerced(left, kind), coerced(right, kind))


def interval_us(node: exp.Interval) -> int:
    """The length of an INTERVAL literal in microseconds; months and years have none."""
    unit = str(node.args.get("unit") or "").upper().removesuffix("S")
    if unit not in INTERVAL_UNITS:
        raise Refused(
            f"an INTERVAL of {unit or 'no unit'} has no fixed length; "
            f"units are {', '.join(INTERVAL_UNITS)}"
        )
    return int(Decimal(node.this.name) * INTERVAL_UNITS[unit])
