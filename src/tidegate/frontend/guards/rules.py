"""The rules that guard the nodes of an expression, one for each kind that needs one."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from tidegate.frontend.binding.functions import is_unit_word, known_functions
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.guards.calls import Call, as_wanted
from tidegate.frontend.guards.casts import cast_fails
from tidegate.frontend.guards.conditionals import CONDITIONALS, case, if_, lambda_call
from tidegate.frontend.guards.guarding import Guarding, Rule
from tidegate.frontend.guards.operations import cast, element
from tidegate.frontend.guards.operators import OPERATORS, conditions
from tidegate.frontend.guards.parts import Part, all_faults, over
from tidegate.frontend.guards.special import SPECIAL, guarded_call, part_type
from tidegate.frontend.guards.types import read_type, type_of
from tidegate.plan.guarded import INVALID_CAST, INVALID_INDEX
from tidegate.plan.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    INTERVAL,
    NESTED,
    STRING,
    TIMESTAMP,
    VOID,
    SqlType,
    column_type,
    literal_type,
)

_TYPE_OF_CAST = re.compile(r"\s*(?:AS\s+(?P<named>.+)\)|::\s*(?P<colons>.+))", re.DOTALL | re.I)

# Words that are calls where there is no column of that name.
_CALLS = {"current_date": DATE, "current_timestamp": TIMESTAMP, "current_user": STRING}


def _column(guarding: Guarding, node: exp.Expr) -> Part:
    text = guarding.source.slice(node)
    if isinstance(node, exp.Column) and is_unit_word(node):
        return Part(text=text, literal=text)
    names = [part.name for part in node.parts] if isinstance(node, exp.Column) else [node.name]
    if names[0].lower() in guarding.names:
        kind = guarding.names[names[0].lower()]
        for name in names[1:]:
            kind = None if kind is None else kind.field(name)
    else:
        kind = column_type(names, guarding.columns)
        if kind is None and len(names) == 1 and guarding.columns:
            kind = _CALLS.get(names[0].lower())
    if text.lstrip().startswith("+") and (kind is None or kind.is_text):
        return guarding.netted(node, None, (), INVALID_CAST)
    return Part(text=text, type=kind)


def _literal(guarding: Guarding, node: exp.Expr) -> Part:
    assert isinstance(node, exp.Literal), "this rule is for literals"
    kind = literal_type(node.name, is_string=node.is_string)
    return Part(text=guarding.source.slice(node), type=kind, literal=node.name)


def _constant(guarding: Guarding, node: exp.Expr) -> Part:
    text = guarding.source.slice(node)
    kinds = {exp.Null: VOID, exp.Boolean: BOOLEAN, exp.Interval: INTERVAL}
    literal = None if isinstance(node, exp.Null) else text
    kind = next((kind for of, kind in kinds.items() if isinstance(node, of)), BINARY)
    return Part(text=text, type=kind, literal=literal)


def _interval(guarding: Guarding, node: exp.Expr) -> Part:
    if isinstance(node.this, exp.Literal):
        return _constant(guarding, node)
    return guarding.netted(node, INTERVAL, all_faults(guarding.parts(node)))


def _typed(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard a literal with a type before or after it: DATE '2026-01-01', 1.5D."""
    text = guarding.source.slice(node)
    return Part(text=text, type=type_of(node.args.get("to")), literal=node.this.name)


def _paren(guarding: Guarding, node: exp.Expr) -> Part:
    inner = guarding.part(node.this)
    made = guarding.kept(node, [inner], inner.type, strict=True)
    return replace(made, literal=inner.literal)


def _cast(guarding: Guarding, node: exp.Expr) -> Part:
    inner, written = node.this, guarding.source.slice(node)
    rest = (
        guarding.source.text[span_of(inner).end : span_of(node).end]
        if (guarding.children(node))
        else ""
    )
    found = _TYPE_OF_CAST.fullmatch(rest)
    if found is None:
        return _typed(guarding, node)
    type_text = (found["named"] or found["colons"]).strip()
    part = guarding.part(inner)
    wanted = read_type(type_text) or type_of(node.args.get("to"))
    if node.args.get("safe"):
        return guarding.kept(node, [part], wanted, strict=True)
    if _is_cast_as_a_whole(part.type, wanted):
        return guarding.netted(node, wanted, part.faults, INVALID_CAST)
    assert wanted is not None, "a cast to an unknown type goes into a net"
    if cast_fails(part.type, wanted) is None:
        return guarding.kept(node, [part], wanted, strict=True)
    own = cast(part, wanted, type_text, written)
    return over(own, (part,))


def _is(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard IS NULL and IS UNKNOWN of anything, IS TRUE and IS FALSE of a BOOLEAN or text."""
    parts = guarding.parts(node)
    if isinstance(node.expression, exp.Boolean):
        parts = (*conditions(parts[:1]), *parts[1:])
    return guarding.kept(node, parts, BOOLEAN)


def _text(guarding: Guarding, node: exp.Expr) -> Part:
    return guarding.kept(node, kind=STRING, strict=True)


def _substring(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard SUBSTRING, POSITION, OVERLAY, TRIM with keywords between their arguments."""
    names = {id(child): key for key, child in node.args.items() if isinstance(child, exp.Expr)}
    parts = [
        as_wanted(guarding.part(child), INT)
        if names[id(child)] in ("start", "length", "from_", "for_", "from", "for", "position")
        else guarding.part(child)
        for child in guarding.children(node)
    ]
    kind = INT if isinstance(node, exp.StrPosition) else STRING
    return guarding.kept(node, parts, kind, strict=True)


def _extract(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    kind = parts[-1].type
    if kind is None or kind.is_text:
        return guarding.netted(node, None, all_faults(parts), INVALID_CAST)
    return guarding.kept(node, parts, part_type(node.this.name), strict=True)


def _is_cast_as_a_whole(given: SqlType | None, wanted: SqlType | None) -> bool:
    """Whether try_cast hides failures: it yields NULL elements, and NULL for NaN as a DECIMAL."""
    if wanted is None or (given is None and wanted.is_decimal):
        return True
    return wanted.name in NESTED and cast_fails(given, wanted) is not None


def _bracket(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    holder, index = parts
    name = holder.type.name if holder.type is not None else ""
    if name == "MAP" and holder.type is not None:
        key_is_text = holder.type.key is not None and holder.type.key.is_text
        if key_is_text or (index.type is not None and not index.type.is_text):
            return guarding.kept(node, parts, holder.type.element, strict=True)
    if name != "ARRAY" or index.type is None:
        return guarding.netted(node, None, all_faults(parts), INVALID_INDEX)
    own = element(holder, index, guarding.kept(node, parts).text, guarding.source.slice(node))
    return over(own, parts)


def _dot(guarding: Guarding, node: exp.Expr) -> Part:
    holder = guarding.part(node.this)
    is_field = isinstance(node.expression, exp.Identifier)
    kind = holder.type.field(node.expression.name) if is_field and holder.type else None
    below = [holder, Part(text=guarding.source.slice(node.expression))]
    return guarding.kept(node, below, kind, strict=True)


def _call(guarding: Guarding, node: exp.Expr) -> Part:
    name = node.name.lower()
    if any(isinstance(each, exp.Lambda) for each in node.expressions):
        return lambda_call(guarding, node)
    conditional = CONDITIONALS.get(name)
    if conditional is not None and node.expressions:
        return conditional(guarding, node)
    functions = known_functions()
    is_aggregate = name in functions.aggregates
    if (
        name not in functions.names
        or is_aggregate
        or len(guarding.children(node)) != len(node.expressions)
    ):
        return guarding.kept(node)
    if not node.expressions and name in SPECIAL:
        return guarding.kept(node)
    call = Call(source=guarding.source, node=node, name=name, parts=guarding.parts(node))
    if any(isinstance(each, exp.Query) for each in node.find_all(exp.Query)):
        return guarding.kept(node, call.parts)
    return guarded_call(call)


def _exists(guarding: Guarding, node: exp.Expr) -> Part:
    return guarding.kept(node, kind=BOOLEAN)


RULES: dict[type[exp.Expr], Rule] = {
    exp.Exists: _exists,
    exp.Column: _column,
    exp.Identifier: _column,
    exp.Literal: _literal,
    exp.Null: _constant,
    exp.Boolean: _constant,
    exp.HexString: _constant,
    exp.Interval: _interval,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Paren: _paren,
    **OPERATORS,
    exp.Is: _is,
    exp.DPipe: _text,
    exp.Substring: _substring,
    exp.StrPosition: _substring,
    exp.Overlay: _substring,
    exp.Trim: _substring,
    exp.Extract: _extract,
    exp.Bracket: _bracket,
    exp.Dot: _dot,
    exp.If: if_,
    exp.Case: case,
    exp.Anonymous: _call,
}
