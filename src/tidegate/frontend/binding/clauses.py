"""Checks of a clause: names must be known, and aggregates and windows must be allowed there."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.frontend.binding.functions import (
    GENERATORS,
    Functions,
    is_unit_word,
    is_window_function,
)
from tidegate.frontend.binding.scope import Scope
from tidegate.frontend.binding.window_placement import misplaced
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.grammar.source import subtree
from tidegate.frontend.reading.windows import window_call
from tidegate.frontend.refusal import Refusal
from tidegate.names import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause: its name, what it may hold, and the names of the select list it may use.

    ``streaming`` holds where the rows of a stream pass, so that no aggregate may run there;
    ``generators`` where explode() and its like may make rows.
    """

    name: str
    aggregates: bool = False
    window_functions: bool = False
    aliases: frozenset[str] = frozenset()
    streaming: bool = True
    generators: bool = False


def check_expression(
    node: exp.Expr, clause: Clause, scope: Scope, functions: Functions
) -> list[exp.Query]:
    """Check an expression, and return its nested queries, which are not checked.

    Raises:
        Refusal: a name does not exist, or something is in a place where it is not allowed.
    """
    nested = []
    for each in subtree(node):
        if isinstance(each, exp.Query):
            nested.append(each)
        elif isinstance(each, exp.Column):
            _check_column(each, clause, scope)
        elif isinstance(each, exp.Window) and clause.streaming:
            raise Refusal(
                f"{each.this.name or 'this function'}(..) OVER (..) looks at the rows around, "
                "which a stream does not have yet",
                span_of(each),
                "Aggregate over the window of the query instead.",
            )
        elif isinstance(each, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
            raise Refusal(
                "a parameter has no value here",
                span_of(each),
                "Write the value into the statement.",
            )
        elif isinstance(each, exp.Anonymous):
            _check_call(each, clause, functions)
    return nested


def _check_column(node: exp.Column, clause: Clause, scope: Scope) -> None:
    if isinstance(node.this, exp.Star) or is_unit_word(node):
        return
    is_alias = len(node.parts) == 1 and node.name.lower() in clause.aliases
    if is_alias:
        return
    try:
        scope.resolve(node)
    except Refusal as refusal:
        if clause.aliases and len(node.parts) == 1 and scope.is_known and not scope.has(node.name):
            known = [*scope.column_names(), *clause.aliases]
            raise Refusal(
                refusal.what, refusal.span, suggestion(node.name, known, otherwise=refusal.mend)
            ) from None
        raise


def _check_call(call: exp.Anonymous, clause: Clause, functions: Functions) -> None:
    name = call.name.lower()
    if window_call(call):
        raise misplaced(call, clause.name)
    functions.check(call)
    if name in GENERATORS and clause.streaming and not clause.generators:
        raise Refusal(
            f"{name} is in {clause.name}, but it turns one row into several",
            span_of(call),
            f"Write FROM stream LATERAL VIEW {name}(..) t AS x.",
        )
    if is_window_function(call):
        if not clause.window_functions:
            raise Refusal(
                f"{name}() is in {clause.name}, but it is known only when the window closes",
                span_of(call),
                "Write it in the select list, HAVING or ORDER BY."
                + (" Every window is a group already." if clause.name == "GROUP BY" else ""),
            )
        if call.expressions:
            raise Refusal(
                f"{name} takes no argument, found {len(call.expressions)}",
                span_of(call),
                f"Write {name}().",
            )
    elif functions.is_aggregate(call) and not clause.aggregates and clause.streaming:
        raise Refusal(
            f"the aggregate {name} is in {clause.name}, which sees one row at a time",
            span_of(call),
            "Filter groups with HAVING."
            if clause.name == "WHERE"
            else "Write it in the select list or in HAVING.",
        )
