"""Calls of aggregates: their arguments, and the clauses around them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.frontend.binding.functions import Functions, is_window_function
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.grammar.source import subtree
from tidegate.frontend.refusal import Refusal
from tidegate.plan.aggregates.planned import AGGREGATE_ALIASES
from tidegate.plan.aggregates.table import ACCUMULATORS


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """An aggregate as it is called: its name with aliases resolved, and the nodes it is given."""

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool
    ignore_nulls: bool
    filter: exp.Expr | None


def aggregate_call(node: exp.Expr, functions: Functions) -> AggregateCall | None:
    """Return the aggregate that a node is, with what stands around it, or None.

    Raises:
        Refusal: the aggregate is called in a way that does not work here.
    """
    filter_, ignore_nulls, core = _unwrapped(node)
    if not isinstance(core, exp.Anonymous) or not functions.is_aggregate(core):
        if filter_ is not None:
            raise Refusal(
                "FILTER follows a call that is not an aggregate",
                span_of(node),
                "Leave FILTER out.",
            )
        return None
    name = core.name.lower()
    if (within := node.find(exp.WithinGroup)) is not None and within.this is core:
        raise Refusal(
            f"{name} takes no WITHIN GROUP here",
            span_of(node),
            "Write e.g. percentile(x, 0.5) or collect_list(x).",
        )
    arguments, distinct = list(core.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = list(arguments[0].expressions), True
    if arguments and isinstance(arguments[0], (exp.IgnoreNulls, exp.RespectNulls)):
        ignore_nulls = ignore_nulls or isinstance(arguments[0], exp.IgnoreNulls)
        arguments[0] = arguments[0].this
    function = AGGREGATE_ALIASES.get(name, name)
    # To Spark ``first(x) IGNORE NULLS`` is ``first(x, true)``.
    entry = ACCUMULATORS.get(function)
    skips = entry is not None and entry.ignore_nulls is not None
    if ignore_nulls and not (skips and len(arguments) == 1):
        raise Refusal(
            f"{name} takes no IGNORE NULLS",
            span_of(node),
            "Write FILTER (WHERE x IS NOT NULL) after the call.",
        )
    if (
        function == "count"
        and not distinct
        and len(arguments) == 1
        and isinstance(arguments[0], exp.Star)
    ):
        arguments = []
    for each in (*arguments, *([filter_] if filter_ is not None else [])):
        _check_argument(each, name, functions)
    return AggregateCall(
        function=function,
        arguments=tuple(arguments),
        distinct=distinct,
        ignore_nulls=ignore_nulls,
        filter=filter_,
    )


def _unwrapped(node: exp.Expr) -> tuple[exp.Expr | None, bool, exp.Expr]:
    """Return the predicate of FILTER, whether NULLs are ignored, and the call inside of both."""
    filter_, ignore_nulls, core = None, False, node
    while isinstance(core, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        if isinstance(core, exp.Filter):
            filter_ = core.expression.this
        ignore_nulls = ignore_nulls or isinstance(core, exp.IgnoreNulls)
        core = core.this
    return filter_, ignore_nulls, core


def has_aggregate(node: exp.Expr, functions: Functions) -> bool:
    """Whether an aggregate is called somewhere in an expression."""
    return any(functions.is_aggregate(each) for each in subtree(node))


def _check_argument(argument: exp.Expr, name: str, functions: Functions) -> None:
    for node in subtree(argument):
        if functions.is_aggregate(node):
            raise Refusal(
                f"the aggregate {node.name} is inside the aggregate {name}",
                span_of(node),
                "Aggregate once; compute with the result outside of the call.",
            )
        if is_window_function(node):
            raise Refusal(
                f"{node.name}() is inside the aggregate {name}, "
                "but it is known only when the window closes",
                span_of(node),
                "Use it outside of the call.",
            )
        if isinstance(node, exp.Star) or isinstance(node, exp.Order):
            what = "*" if isinstance(node, exp.Star) else "ORDER BY"
            raise Refusal(
                f"{name} does not take {what}",
                span_of(node),
                "Write the columns it is to aggregate.",
            )
        if isinstance(node, exp.Query):
            raise Refusal(
                f"a subquery is inside the aggregate {name}",
                span_of(node),
                "Join the table in FROM instead.",
            )
