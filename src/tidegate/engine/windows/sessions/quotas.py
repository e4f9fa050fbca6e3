"""Quotas of sessions: how many keys have an open one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.rows.prepare import Fate, fate_case, judge
from tidegate.engine.rows.quotas import COUNTED, PARTIAL, PLACE
from tidegate.engine.windows.sessions.spans import LAST
from tidegate.engine.windows.state_rows import KEPT
from tidegate.plan.columns import END, EVICTED, TIME
from tidegate.spark.statements import by_reference, over_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival
    from tidegate.plan.physical import PhysicalPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuotas:
    """Quotas of sessions. See ``LimitedWindows``."""

    plan: PhysicalPlan
    gap_us: int
    keys: list[str]
    schema: StructType

    @property
    def overlap(self) -> bool:
        return False

    @property
    def key_types(self) -> tuple[StructField, ...]:
        return tuple(self.schema[name] for name in self.keys)

    def evictions(self, numbered: DataFrame, arrival: Arrival, io: StateIO | None) -> DataFrame:
        start, named = arrival.start, ", ".join(self.keys)
        fate = fate_case(self.plan, start, late=None)
        frames = {"rows": judge(numbered, self.plan, start, fate)}
        due_us = None if start.bound_us is None else start.bound_us - self.gap_us
        rows = f"SELECT {PLACE}, {named}, {TIME} FROM {{rows}} WHERE {KEPT}"
        known = f"SELECT {named} FROM ({rows}) WHERE false"
        segments = arrival.tables.windows
        live = [s for s in segments if due_us is None or s.last_us >= due_us]
        if live:
            assert io is not None, "rows of the state are somewhere"
            frames["state"] = io.read(live)
            is_open = "" if due_us is None else f" WHERE {LAST} >= {by_reference(due_us, LAST)}"
            known = f"SELECT DISTINCT {named} FROM {{state}}{is_open}"
        same = " AND ".join(f"r.{key} <=> k.{key}" for key in self.keys)
        rows = f"SELECT r.* FROM ({rows}) AS r LEFT ANTI JOIN ({known}) AS k ON {same}"
        if due_us is not None:
            rows = _in_time(rows, named, self.gap_us, due_us)
        assert self.plan.max_groups is not None, "sessions have no other quota"
        return over_all(frames, _evictions(rows, known, self.keys, self.plan.max_groups))


def _evictions(rows: str, known: str, keys: Sequence[str], max_groups: int) -> str:
    """The statement of evictions: keys beyond those that have an open one.

    Args:
        rows: the statement of the rows that are not late, of keys without an open session:
            ``_place`` and the keys.
        known: the statement of the keys that have one.
        keys: the columns of the keys.
        max_groups: how many keys may have one.
    """
    named = ", ".join(keys)
    first = f"SELECT *, min({PLACE}) OVER (PARTITION BY {named}) AS _first FROM ({rows})"
    # Spark warns of a window without a partition.
    ranked = (
        f"SELECT *, dense_rank() OVER (PARTITION BY _all ORDER BY _first) AS _rank "
        f"FROM (SELECT *, true AS _all FROM ({first}))"
    )
    return (
        f"SELECT {PLACE}, CAST(NULL AS BIGINT) AS {END}, {named}, "
        f"{Fate.EVICTED_GROUP.value} AS {EVICTED}, false AS {PARTIAL}, false AS {COUNTED} "
        f"FROM ({ranked}) WHERE _rank + (SELECT count(1) FROM ({known})) > {max_groups}"
    )


def _in_time(rows: str, keys: str, gap_us: int, due_us: int) -> str:
    """The statement of rows whose session, of the rows alone, is not late as a whole."""
    order = f"OVER (PARTITION BY {keys} ORDER BY {TIME})"
    starts = (
        f"SELECT *, coalesce({TIME} - lag({TIME}) {order} > {gap_us}L, true) AS _starts "
        f"FROM ({rows})"
    )
    chained = f"SELECT *, sum(IF(_starts, 1L, 0L)) {order} AS _chain FROM ({starts})"
    ended = f"SELECT *, max({TIME}) OVER (PARTITION BY {keys}, _chain) AS _ends FROM ({chained})"
    return f"SELECT * FROM ({ended}) WHERE _ends >= {by_reference(due_us, '_ends')}"
