"""Checks that a statement has one window, in an allowed place; they need no names."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidegate.frontend.binding.functions import Functions
from tidegate.frontend.grammar.dialect import TIME_WINDOWS
from tidegate.frontend.grammar.nodes import WindowClause, span_of
from tidegate.frontend.grammar.source import subtree
from tidegate.frontend.reading.parse import order_nodes
from tidegate.frontend.reading.windows import window_call
from tidegate.frontend.refusal import Refusal

_NO_WINDOW_MEND = (
    "Add one, e.g. GROUP BY tumblingwindow('ss', 10) or "
    "WINDOW TUMBLING (SIZE INTERVAL '10' SECOND)."
)


def check_places(select: exp.Select, functions: Functions) -> None:
    """Check that a statement has one window, in GROUP BY or in the WINDOW clause.

    Raises:
        Refusal: it has none, two, or one elsewhere.
    """
    for clause, node in _other_expressions(select):
        for each in subtree(node):
            if (call := window_call(each)) is not None:
                raise misplaced(call, clause)
    windows = [node for node in group_nodes(select) if window_call(node)]
    clause_node = select.args.get("windows")
    if isinstance(clause_node, WindowClause):
        windows.append(clause_node)
    if len(windows) > 1:
        second = windows[1]
        call = window_call(second)
        raise Refusal(
            f"a second window, {call.name if call else 'the WINDOW clause'}: a statement has one",
            span_of(second),
            "Leave one of the two out; write a second query for the other.",
        )
    if not windows:
        raise _no_window(select, functions)


def group_nodes(select: exp.Select) -> list[exp.Expr]:
    """Return the items of GROUP BY."""
    group = select.args.get("group")
    return list(group.expressions) if group else []


def misplaced(call: exp.Anonymous, clause: str) -> Refusal:
    """Return the refusal of a window that stands in another clause than GROUP BY."""
    name = call.name.lower()
    shown = name.upper() if name in TIME_WINDOWS else name
    return Refusal(
        f"{shown} is in {clause}, but windows go in GROUP BY",
        span_of(call),
        f"Write GROUP BY {shown}(..); its bounds are window_start() and window_end().",
    )


def _other_expressions(select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    for item in select.expressions:
        yield "the select list", item
    if select.args.get("where"):
        yield "WHERE", select.args["where"].this
    for node in group_nodes(select):
        for inner in node.iter_expressions() if window_call(node) else [node]:
            if inner is not window_call(node):
                yield "an expression of GROUP BY", inner
    if select.args.get("having"):
        yield "HAVING", select.args["having"].this
    for ordered in order_nodes(select):
        yield "ORDER BY", ordered.this


def _no_window(select: exp.Select, functions: Functions) -> Refusal:
    emit = select.args.get("emit")
    if emit is not None:
        written = "EMIT ON WINDOW CLOSE" if emit.this is None else "EMIT EARLY"
        return Refusal(
            f"{written}, but there is no window to close", span_of(emit), _NO_WINDOW_MEND
        )
    for item in select.expressions:
        for node in subtree(item):
            if functions.is_aggregate(node):
                return Refusal(
                    f"the aggregate {node.name} needs a window, because a stream has no end",
                    span_of(node),
                    _NO_WINDOW_MEND,
                )
    place = select.args.get("group") or select.args["from_"]
    return Refusal("the statement has no window", span_of(place), _NO_WINDOW_MEND)
