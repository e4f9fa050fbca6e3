"""Keys that are forgotten within a batch, with lateness exact to the record.

A key is forgotten once the watermark is past the time of its first row, the horizon and the allowed
lateness; exact to the record, that is the watermark at the place of a row that has the key:

    horizon 60, lag and lateness 0    W before the row
    a row of the key at 10                           -    the first
    a row of another key at 75                      10
    a row of the key at 65                          75    the first again: the key was forgotten
    a row of the key at 66                          75    a duplicate of that

Only a row behind the watermark can find its key forgotten and yet be within the horizon, and only
if the key was first seen a horizon before the greatest time of the batch. So hardly a batch has
such a row. In one that may have some, all rows of their keys are judged one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.rows.fates import fate_case, judge
from tidegate.engine.windows.state_rows import KEPT
from tidegate.plan.columns import (
    BEHIND,
    BEYOND,
    DEDUP_KEY,
    KEY_PLACE,
    PLACE,
    SHARD,
    SINCE,
    TIME,
)
from tidegate.spark.statements import ROW_NUMBER, by_reference, over, over_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.rows.lateness import RecordLateness, SeenBefore
    from tidegate.engine.windows.operator import Arrival

# The place of a key of the state: it comes before all rows.
KNOWN = "-1L"


class Forgotten:
    """Judges the rows of a batch whose keys may be forgotten meanwhile.

    Args:
        lateness: tells the watermark at the place of a row.
        horizon_us: a row up to so much after the first of its key is a duplicate.
        arrival: the batch.
        seen: the greatest event times before it.
    """

    def __init__(
        self, lateness: RecordLateness, horizon_us: int, arrival: Arrival, seen: SeenBefore
    ) -> None:
        self._lateness = lateness
        self._horizon_us = horizon_us
        self._arrival = arrival
        self._seen = seen
        self._bound_us: int | None = None

    def watched(self, rows: DataFrame) -> DataFrame:
        """Return rows of the batch, observed: after a job over them ``may_be`` can be called."""
        watched, self._latest_bound = self._lateness.watched(rows, self._seen, self._arrival.start)
        return watched

    def may_be(self, since_us: int | None) -> bool:
        """Whether some key may be forgotten, by the least ``_since`` that the batch has written."""
        self._bound_us = self._latest_bound()
        if since_us is None or self._bound_us is None:
            return False
        return since_us + self._horizon_us < self._bound_us

    def anew(self, sorted_keys: DataFrame, known: DataFrame | None) -> DataFrame:
        """Return what a batch has written, the rows of keys that may be forgotten judged anew.

        Args:
            sorted_keys: what it has written, with ``_since``.
            known: the keys of the state with their times; None: there are none.
        """
        assert self._bound_us is not None, "some key may be forgotten"
        forgotten = f"{SINCE} + {self._horizon_us}L < {by_reference(self._bound_us, SINCE)}"
        asked = sorted_keys.where(forgotten).select(DEDUP_KEY).distinct()
        listed = self._rows(asked)
        if known is not None:
            of_state = (f"{KNOWN} AS {KEY_PLACE}", TIME, f"CAST(NULL AS BIGINT) AS {BEHIND}")
            of_state_rows = _of_keys(known, asked, "SEMI").selectExpr(DEDUP_KEY, *of_state)
            listed = listed.unionByName(of_state_rows)
        others = _of_keys(sorted_keys, asked, "ANTI").where(f"{BEYOND} IS NULL").drop(SINCE)
        return others.unionByName(one_by_one(listed, self._horizon_us))

    def _rows(self, asked: DataFrame) -> DataFrame:
        """Return the rows of some keys: the key, ``_place``, ``_t``, and ``_behind``."""
        plan, start = self._lateness.plan, self._arrival.start
        shard = [SHARD] if plan.watermark.shard is not None else []
        numbered = self._arrival.rows.selectExpr("*", f"{ROW_NUMBER} AS {KEY_PLACE}")
        good = judge(numbered, plan, start, fate_case(plan, start, late=None)).where(KEPT)
        rows = _of_keys(good.select(DEDUP_KEY, TIME, KEY_PLACE, *shard), asked, "SEMI")
        wanted = rows.selectExpr(*shard, f"{KEY_PLACE} AS {PLACE}")
        return over_all(
            {"rows": rows, "bounds": self._lateness.bounds(wanted, self._arrival, self._seen)},
            f"SELECT {DEDUP_KEY}, {KEY_PLACE}, {TIME}, {BEHIND} "
            f"FROM {{rows}} AS rows LEFT JOIN {{bounds}} AS bounds ON {KEY_PLACE} = {PLACE}",
        )


def one_by_one(rows: DataFrame, horizon_us: int) -> DataFrame:
    """Return rows as ``KeySearch.sorted_keys`` does, in whatever time they are.

    Args:
        rows: the key, ``_t``, ``_place`` and, where rows have one, ``_behind``: the bound by which
            a key is forgotten for the row. Keys of the state have the place ``KNOWN``.
        horizon_us: a row up to so much after the first of its key is a duplicate.
    """
    behind = BEHIND if BEHIND in rows.columns else "CAST(NULL AS BIGINT)"
    is_forgotten = f"coalesce(row.b > seen.t + {horizon_us}L, false)"
    is_new = f"(seen.t IS NULL OR row.t - seen.t > {horizon_us}L OR {is_forgotten})"
    # A key that was forgotten stays so, even if it is seen anew at an earlier time.
    since = "'t', greatest(seen.t, row.t), 'places'"
    follow = (
        f"(seen, row) -> CASE WHEN row.i = {KNOWN} THEN named_struct({since}, seen.places) "
        f"WHEN {is_new} THEN named_struct({since}, array_append(seen.places, row.i)) ELSE seen END"
    )
    nothing = "named_struct('t', CAST(NULL AS BIGINT), 'places', CAST(array() AS ARRAY<BIGINT>))"
    listed = (
        f"SELECT {DEDUP_KEY}, sort_array(collect_list("
        f"struct({KEY_PLACE} AS i, {TIME} AS t, {behind} AS b))) AS _rows "
        f"FROM {{frame}} GROUP BY {DEDUP_KEY}"
    )
    judged = (
        f"SELECT {DEDUP_KEY}, aggregate(_rows, {nothing}, {follow}).places AS _kept, "
        f"inline(_rows) FROM ({listed})"
    )
    is_first = "array_contains(_kept, i)"
    return over(
        rows,
        f"SELECT {DEDUP_KEY}, IF({is_first}, t, NULL) AS {TIME}, "
        f"IF({is_first}, NULL, i) AS {KEY_PLACE}, CAST(NULL AS BIGINT) AS {BEYOND} "
        f"FROM ({judged}) WHERE i > {KNOWN}",
    )


def _of_keys(rows: DataFrame, asked: DataFrame, how: str) -> DataFrame:
    """Return the rows with one of some keys (``SEMI``), or with none of them (``ANTI``)."""
    return over_all(
        {"rows": rows, "asked": asked},
        f"SELECT rows.* FROM {{rows}} AS rows "
        f"LEFT {how} JOIN {{asked}} AS asked ON rows.{DEDUP_KEY} = asked.{DEDUP_KEY}",
    )
