"""From a closed window to its result rows: groups, aggregates, HAVING, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5

from .placing import Closed, Row
from .query import Call, GroupEnv, Query
from .values import RowError, moment, order_key


def window_results(
    query: Query,
    window: Closed,
    epoch: int,
    on_error: Callable[[RowError], None],
    *,
    final: bool = True,
) -> list[dict[str, object]]:
    """The result rows of a window; a result that fails is left out and handed to ``on_error``."""
    rows = []
    for env in _groups(query, window, epoch, final=final):
        try:
            if query.having is not None and query.having.run(env) is not True:
                continue
            order = [item.value.run(env) for item in query.order]
            rows.append((order, [item.run(env) for item in query.items]))
        except RowError as error:
            on_error(error)
    # The last column first: sorting keeps the order of equal rows.
    for i, item in reversed(list(enumerate(query.order))):
        rows.sort(key=lambda row, i=i: order_key(row[0][i]), reverse=item.descending)
        rows.sort(key=lambda row, i=i, item=item: (row[0][i] is None) is not item.nulls_first)
    names = [column.name for column in query.columns]
    return [dict(zip(names, values, strict=True)) for _, values in rows[: query.statement.limit]]


def _groups(query: Query, window: Closed, epoch: int, *, final: bool) -> list[GroupEnv]:
    """The groups of a window in the order of their first rows; for a row query its rows."""
    first = window.rows[0]
    identity = f"{window.start} {window.end} {first.partition_text} {first.order}"
    shown = {
        "window_start": moment(window.start),
        "window_end": moment(window.end),
        "window_trigger": None if window.trigger is None else moment(window.trigger),
        "window_id": md5(identity.encode(), usedforsecurity=False).hexdigest(),
        "emit_epoch": epoch,
        "is_final": final,
    }
    # In processing time the order by time and arrival is that of arrival.
    ordered = sorted(window.rows, key=lambda row: row.place)
    partition = ordered[0].partition
    if query.is_row_query:
        return [GroupEnv(partition=partition, row=row.values, window=shown) for row in ordered]
    groups: dict[str, list[Row]] = {}
    for row in ordered:
        groups.setdefault(row.key_text, []).append(row)
    envs = []
    for rows in groups.values():
        values = [row.values for row in rows]
        results = tuple(_aggregate(query, call, values) for call in query.calls)
        keys = rows[0].keys
        envs.append(GroupEnv(keys=keys, partition=partition, results=results, window=shown))
    return envs


def _aggregate(query: Query, call: Call, rows: list[tuple]) -> object:
    """Return the result of an aggregate, or its error (NULL under the policy null)."""
    try:
        return call.compute(rows)
    except RowError as error:
        return None if query.rows.null_on_error else error
