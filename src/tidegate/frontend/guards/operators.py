"""The rules of operators: arithmetic, comparisons, logic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.frontend.grammar.nodes import UnsignedShift, span_of
from tidegate.frontend.grammar.source import subtree
from tidegate.frontend.guards.arms import faults_until
from tidegate.frontend.guards.calls import as_wanted
from tidegate.frontend.guards.guarding import Guarding, Rule
from tidegate.frontend.guards.operations import (
    arithmetic,
    arithmetic_type,
    as_operands,
    comparable,
    negated,
    whole_division,
)
from tidegate.frontend.guards.parts import (
    Fault,
    Part,
    all_faults,
    over,
)
from tidegate.plan.guarded import DIVISION_BY_ZERO, INVALID_ARGUMENT, INVALID_CAST
from tidegate.plan.types import BIGINT, BOOLEAN, DOUBLE, INTERVAL, common_type

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
# ANY and ALL of several patterns.
_LISTS = (exp.Any, exp.All, exp.Tuple, exp.Paren)
_NULL_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)
# A comparison with its own NOT, as in a NOT IN (1), is written as one node with it.
_NEGATED = (exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape)


def _arithmetic(guarding: Guarding, node: exp.Expr) -> Part:
    if _is_interval(guarding, node):
        text = guarding.source.slice(node)
        return Part(text=text, type=INTERVAL, literal=text)
    parts, operator = guarding.parts(node), _SYMBOLS[type(node)]
    operands, written = as_operands(parts), guarding.source.slice(node)
    if operands is None:
        return guarding.netted(node, None, all_faults(parts), INVALID_CAST)
    left, right = operands
    own = arithmetic(operator, left, right, written)
    if own is None:
        return guarding.kept(node, operands, arithmetic_type(operator, left, right), strict=True)
    return over(own, operands)


def _is_interval(guarding: Guarding, node: exp.Expr) -> bool:
    """Whether a sum is one interval literal of several units, e.g. INTERVAL 1 DAY 2 HOURS."""
    first = node.this
    is_one = isinstance(first, exp.Interval)
    return is_one and not guarding.source.slice(first).upper().startswith("INTERVAL")


def _whole_division(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    operands = as_operands(parts)
    if operands is None or None in [each.type for each in parts]:
        return guarding.netted(node, None, all_faults(parts), DIVISION_BY_ZERO)
    kept = guarding.kept(node, operands, strict=True)
    left, right = operands
    own = whole_division(left, right, kept.text, guarding.source.slice(node))
    if own is None:
        return replace(kept, type=BIGINT)
    return over(own, operands)


def _negation(guarding: Guarding, node: exp.Expr) -> Part:
    part = guarding.part(node.this)
    if part.type is not None and part.type.is_text:
        part = as_wanted(part, DOUBLE)
    own = negated(part, guarding.source.slice(node))
    if own is None:
        made = guarding.kept(node, [part], part.type, strict=True)
        return replace(made, literal=None if part.literal is None else f"-{part.literal}")
    return over(own, (part,))


def _bits(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    kinds = [part.type for part in parts]
    if any(kind is None or kind.is_text for kind in kinds):
        return guarding.netted(node, None, all_faults(parts), INVALID_CAST)
    shift = isinstance(node, exp.BitwiseLeftShift | exp.BitwiseRightShift | UnsignedShift)
    return guarding.kept(node, parts, kinds[0] if shift else common_type(kinds), strict=True)


def _comparison(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    operands = comparable(parts)
    if operands is None:
        return _netted(guarding, node, parts, INVALID_CAST)
    made = guarding.kept(node, operands, BOOLEAN, strict=not isinstance(node, _NULL_SAFE))
    if not isinstance(node, exp.Between | exp.In):
        return made
    hides = made.hides or bool(all_faults(operands[1:]))
    return replace(made, faults=_faults_in_order(node, operands), hides=hides)


def _faults_in_order(node: exp.Expr, operands: tuple[Part, ...]) -> tuple[Fault, ...]:
    """Return the faults of BETWEEN or IN; Spark stops once it knows the answer."""
    first, *others = operands
    if isinstance(node, exp.Between):
        low, high = others
        passes = replace(low, text=f"{first.operand} >= {low.operand}")
        return first.faults + faults_until([passes, high], "IS NOT FALSE")
    tried = [replace(each, text=f"{first.operand} = {each.operand}") for each in others]
    return first.faults + faults_until(tried, "IS NOT TRUE")


def _pattern(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard LIKE, ILIKE, RLIKE, with or without ESCAPE; a pattern from a row may be invalid."""
    comparison = node.this if isinstance(node, exp.Escape) else node
    parts = guarding.parts(comparison)
    leaves = [each for each in comparison.expression.walk() if not isinstance(each, _LISTS)]
    if not all(isinstance(each, exp.Literal) for each in leaves):
        return _netted(guarding, node, parts, INVALID_ARGUMENT)
    made = guarding.kept(comparison, parts, BOOLEAN, strict=True)
    return made if comparison is node else _with_escape(guarding, node, made)


def _with_escape(guarding: Guarding, node: exp.Expr, comparison: Part) -> Part:
    escape = [guarding.part(each) for each in guarding.children(node)[1:]]
    return guarding.kept(node, [comparison, *escape], BOOLEAN, strict=True)


def _netted(guarding: Guarding, node: exp.Expr, parts: Sequence[Part], reason: str) -> Part:
    """Return a comparison in a net, with its NOT; one that contains a query gets no net."""
    if any(isinstance(each, exp.Query) for each in subtree(node)):
        return guarding.kept(node, kind=BOOLEAN)
    return guarding.netted(_whole(node), BOOLEAN, all_faults(parts), reason)


def _whole(node: exp.Expr) -> exp.Expr:
    """Return the node with the whole text of a comparison: its NOT, in ``a NOT IN (1)``."""
    above = node.parent
    if isinstance(above, exp.Not) and isinstance(node, _NEGATED):
        return above if span_of(above).start == span_of(node).start else node
    return node


def _not(guarding: Guarding, node: exp.Expr) -> Part:
    part = guarding.part(node.this)
    if part.faults and part.faults[-1].detail == guarding.source.slice(node):
        # The net of the comparison already includes this NOT.
        return part
    return guarding.kept(node, conditions((part,)), BOOLEAN, strict=True)


def _logic(guarding: Guarding, node: exp.Expr) -> Part:
    left, right = conditions(guarding.parts(node))
    goes_on = "IS NOT FALSE" if isinstance(node, exp.And) else "IS NOT TRUE"
    condition = f"({left.text}) {goes_on}"
    faults = left.faults + tuple(each.only_if(condition) for each in right.faults)
    return replace(guarding.kept(node, [left, right], BOOLEAN), faults=faults)


def conditions(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return parts used as BOOLEAN; text, or what may be text, is cast."""
    return tuple(
        as_wanted(part, BOOLEAN) if part.type is None or part.type.is_text else part
        for part in parts
    )


OPERATORS: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys(_SYMBOLS, _arithmetic),
    exp.IntDiv: _whole_division,
    exp.Neg: _negation,
    **dict.fromkeys(
        (
            exp.BitwiseAnd,
            exp.BitwiseOr,
            exp.BitwiseXor,
            exp.BitwiseNot,
            exp.BitwiseLeftShift,
            exp.BitwiseRightShift,
            UnsignedShift,
        ),
        _bits,
    ),
    **dict.fromkeys(
        (
            exp.EQ,
            exp.NEQ,
            exp.GT,
            exp.GTE,
            exp.LT,
            exp.LTE,
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
            exp.Between,
            exp.In,
        ),
        _comparison,
    ),
    exp.Escape: _pattern,
    exp.Like: _pattern,
    exp.ILike: _pattern,
    exp.RegexpLike: _pattern,
    exp.Not: _not,
    exp.And: _logic,
    exp.Or: _logic,
}
