"""EMIT EARLY: what a statement must be like so that a result can replace a provisional one."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import Span
from tidegate.frontend.binding.projection import Outputs
from tidegate.frontend.refusal import Refusal
from tidegate.plan.columns import FINAL, WINDOW_FUNCTIONS, WINDOW_ID
from tidegate.plan.statement import Expression, Key, OutputItem, SelectStmt
from tidegate.plan.windows import Count, Cumulate, Hopping, Session, Sliding, State, Tumbling

# The columns that a result gets unless the statement selects the functions itself.
ADDED = {"window_id": WINDOW_ID, "is_final": FINAL}

_ON_CLOSE = "Leave EMIT EARLY out."


def with_identity(
    outputs: Outputs, statement: SelectStmt, keys: Sequence[Key]
) -> tuple[tuple[OutputItem, ...], tuple[str, ...]]:
    """Return the columns of the result, and those of them that identify it.

    With EMIT EARLY a result has ``window_id`` and ``is_final``, and a later one of the same window
    and keys replaces it; without, nothing is added, and nothing identifies a result.

    Raises:
        Refusal: a provisional result of the statement could not be replaced.
    """
    early = statement.early
    if early is None:
        return outputs.items, ()
    _check_window(statement, early.span)
    _check_clauses(outputs, statement, keys, early.span)
    items = list(outputs.items)
    for name, column in ADDED.items():
        if _named(items, column) is None:
            _refuse_taken(name, items)
            items.append(OutputItem(name=name, expression=Expression(sql=column, span=early.span)))
    shown = [_named(items, WINDOW_ID), *(_named(items, key.name) for key in keys)]
    return tuple(items), tuple(name for name in shown if name is not None)


def _check_window(statement: SelectStmt, span: Span) -> None:
    match statement.window:
        case Tumbling() | Hopping() | Cumulate():
            return
        case Session():
            why = "the id of a session changes as the session grows, so no result replaces another"
        case Sliding():
            why = "each row has a window of its own, which its next rows complete"
        case State() | Count():
            why = "which rows such a window has is known only once they are in order"
        case None:
            return
    raise Refusal(
        f"EMIT EARLY does not work with {statement.window.kind} windows: {why}",
        span,
        f"{_ON_CLOSE} It works with tumbling, hopping and cumulate windows.",
    )


def _check_clauses(
    outputs: Outputs, statement: SelectStmt, keys: Sequence[Key], span: Span
) -> None:
    if not outputs.grouped:
        raise Refusal(
            "EMIT EARLY needs aggregates or keys: rows as they are have nothing by which a later "
            "result could replace them",
            span,
            f"{_ON_CLOSE} Or aggregate the rows.",
        )
    filters = {"HAVING": outputs.having is not None, "LIMIT": statement.limit is not None}
    for clause, is_there in filters.items():
        if is_there:
            raise Refusal(
                f"EMIT EARLY does not work with {clause}: a group that it keeps at first and "
                "leaves out at the end would stay in the sink",
                span,
                "Leave one of the two out; filter where the results are read.",
            )
    for key in keys:
        if _named(outputs.items, key.name) is None:
            raise Refusal(
                f"EMIT EARLY needs the key {key.expression.sql} in the select list: a result "
                "replaces one of the same window and keys",
                key.expression.span,
                f"Select {key.expression.sql} too.",
            )


def _refuse_taken(name: str, items: Sequence[OutputItem]) -> None:
    for item in items:
        if item.name.lower() == name:
            raise Refusal(
                f"EMIT EARLY adds a column {name}, and the result has one already",
                item.expression.span,
                f"Give it another name with AS, e.g. AS my_{name}, or select {_call(name)} itself.",
            )


def _call(name: str) -> str:
    assert name in WINDOW_FUNCTIONS, "the added columns are named like their functions"
    return f"{name}()"


def _named(items: Sequence[OutputItem], sql: str) -> str | None:
    """The name of the item that is just this column of a closed window."""
    return next((item.name for item in items if item.expression.sql == sql), None)
