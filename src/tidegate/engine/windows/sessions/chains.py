"""Chains: the due spans of a key, in order of time, numbered by session.

    gap 10, due at 30     spans that are due     [4 8]  [11 17]             [29]
                          not due                                                [35 38]
    numbers                                         1       1                 2
    chained                                      [4         17]             [29      38]

A span that is not due has no number. Where a session touches it, the session is still open, and
reaches its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST, LAST = "_first", "_last"
# Whether a span is due, whether it is the first of its session, the number of the session within
# its key, the times of the key's spans that are not due, and the last time of the due spans before.
DUE, STARTS, SESSION, NEAR_FIRST, NEAR_LAST = "_due", "_starts", "_session", "_from", "_to"
_BEFORE = "_before"


def numbered(keys: list[str], gap_us: int, due: DataFrame, near: DataFrame | None) -> str:
    """The statement of due spans with the number of their session, over ``frames``.

    In order of first time, a span starts a session if it is more than the gap after all previous
    ones that are due. Two that only a span which is not due brings together keep two numbers: both
    get its end, so they are parts of one session from then on. All window functions share one sort,
    and those over all spans of a key one pass.
    """
    order = f"PARTITION BY {', '.join(keys)} ORDER BY {FIRST}" if keys else f"ORDER BY {FIRST}"
    before = f"OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    # With the same order as above, though it does not matter, Spark computes them in one pass.
    of_all = f"OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    if near is None:
        met = {_BEFORE: f"max({LAST}) {before}"}
        met |= {name: "CAST(NULL AS BIGINT)" for name in (NEAR_FIRST, NEAR_LAST)}
    else:
        met = {
            _BEFORE: f"max(IF({DUE}, {LAST}, NULL)) {before}",
            NEAR_FIRST: f"min(IF({DUE}, NULL, {FIRST})) {of_all}",
            NEAR_LAST: f"max(IF({DUE}, NULL, {LAST})) {of_all}",
        }
    added = ", ".join(f"{sql} AS {name}" for name, sql in met.items())
    starting = (
        f"SELECT *, coalesce({FIRST} > {_BEFORE} + {gap_us}L, true) AS {STARTS} "
        f"FROM (SELECT *, {added} FROM ({together(due, near)})) WHERE {DUE}"
    )
    # By RANGE, so that spans with the same first time get the same number in any order.
    number = f"sum(IF({STARTS}, 1L, 0L)) OVER ({order} RANGE UNBOUNDED PRECEDING)"
    return f"SELECT *, {number} AS {SESSION} FROM ({starting})"


def reaching(last: str, gap_us: int) -> str:
    """The session's last known time: extended to the spans that are not due, if it touches them."""
    return f"IF({last} + {gap_us}L >= {NEAR_FIRST}, {NEAR_LAST}, {last})"


def together(due: DataFrame, near: DataFrame | None) -> str:
    """The statement of spans of ``{due}`` and ``{near}``, marked.

    One statement over two views: Spark would analyze the plan again at each call of a frame.
    """
    marked = f"SELECT *, true AS {DUE} FROM {{due}}"
    if near is None:
        return marked
    columns = (name if name in near.columns else f"NULL AS {name}" for name in due.columns)
    return f"{marked} UNION ALL SELECT {', '.join(columns)}, false AS {DUE} FROM {{near}}"


def frames(due: DataFrame, near: DataFrame | None) -> dict[str, DataFrame]:
    """What ``together`` is over."""
    return {"due": due} if near is None else {"due": due, "near": near}
