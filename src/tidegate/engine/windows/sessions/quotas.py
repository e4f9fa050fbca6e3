"""Quotas of sessions: how many keys have an open one, and how many rows one holds.

A row that is evicted is as if it had not come: it neither goes on with a session nor joins two. So
which rows are evicted is told by following the rows of a key in order of arrival:

    gap 10, at most 2 rows    sessions with their rows after it
    a row at 10               [10]
    a row at 20               [10 20]
    a row at 25               evicted: it would be the third of [10 20]
    a row at 31               [10 20] [31]
    a row at 30               evicted: with it, [10 20] and [31] would be one

Only rows that the rows of a batch and the open sessions chain to more than the quota are followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.rows.fates import Fate, fate_case, judge
from tidegate.engine.rows.quotas import COUNTED, PARTIAL, PLACE
from tidegate.engine.windows.sessions.chains import FIRST, LAST
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
        start, named = arrival.start, "".join(f", {key}" for key in self.keys)
        fate = fate_case(self.plan, start, late=None)
        frames = {"rows": judge(numbered, self.plan, start, fate)}
        due_us = None if start.bound_us is None else start.bound_us - self.gap_us
        rows = f"SELECT {PLACE}{named}, {TIME} FROM {{rows}} WHERE {KEPT}"
        open_ = None
        segments = arrival.tables.windows
        live = [s for s in segments if due_us is None or s.last_us >= due_us]
        if live:
            assert io is not None, "rows of the state are somewhere"
            frames["state"] = io.read(live)
            is_open = "" if due_us is None else f" WHERE {LAST} >= {by_reference(due_us, LAST)}"
            open_ = f"SELECT {FIRST}, {LAST}{named} FROM {{state}}{is_open}"
        groups = self._groups(rows, open_, due_us)
        if self.plan.max_rows is None:
            return over_all(frames, groups)
        beyond = self._rows(rows, open_, due_us, self.plan.max_rows)
        if self.plan.max_groups is None:
            return over_all(frames, beyond)
        # A key without room has no session that a row could be too many for.
        others = f"SELECT b.* FROM ({beyond}) AS b LEFT ANTI JOIN ({groups}) AS g USING ({PLACE})"
        return over_all(frames, f"{groups} UNION ALL {others}")

    def _groups(self, rows: str, open_: str | None, due_us: int | None) -> str:
        """The statement of rows of keys beyond ``max_groups``, if it is set."""
        if self.plan.max_groups is None:
            return ""
        named = ", ".join(self.keys)
        known = f"SELECT {named} FROM ({rows}) WHERE false"
        if open_ is not None:
            known = f"SELECT DISTINCT {named} FROM ({open_})"
        same = " AND ".join(f"r.{key} <=> k.{key}" for key in self.keys)
        rows = f"SELECT r.* FROM ({rows}) AS r LEFT ANTI JOIN ({known}) AS k ON {same}"
        if due_us is not None:
            rows = _in_time(rows, named, self.gap_us, due_us)
        return _keys_beyond(rows, known, self.keys, self.plan.max_groups)

    def _rows(self, rows: str, open_: str | None, due_us: int | None, max_rows: int) -> str:
        """The statement of rows that would join a session with ``max_rows``."""
        keys = "".join(f"{key}, " for key in self.keys)
        spans = f"SELECT {keys}{PLACE} AS i, {TIME} AS f, {TIME} AS l FROM ({rows})"
        if open_ is not None:
            spans += f" UNION ALL SELECT {keys}-1L, {FIRST}, {LAST} FROM ({open_})"
        # A column of the rows, because Spark warns of a window function without a partition.
        by = f"PARTITION BY {keys or 'i & 0L, '}".removesuffix(", ")
        before = f"OVER ({by} ORDER BY f ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        starts = (
            f"SELECT *, coalesce(f > max(l) {before} + {self.gap_us}L, true) AS _starts "
            f"FROM ({spans})"
        )
        chain = (
            f"SELECT *, sum(IF(_starts, 1L, 0L)) OVER ({by} ORDER BY f) AS _chain FROM ({starts})"
        )
        in_time = "" if due_us is None else f" AND max(l) >= {by_reference(due_us, 'max(l)')}"
        followed = (
            f"SELECT {keys}aggregate(sort_array(collect_list(struct(i, f, l))), {_NOTHING}, "
            f"{_follow(self.gap_us, max_rows)}) AS _end FROM ({chain}) GROUP BY {keys}_chain "
            f"HAVING count(1) > {max_rows}{in_time}"
        )
        places = "explode(flatten(array_append(_end.before, _end.out)))"
        return _told(f"SELECT {keys}{places} AS {PLACE} FROM ({followed})", self.keys, _ROW)


_GROUP, _ROW = Fate.EVICTED_GROUP, Fate.EVICTED_ROW

# Of a chain of rows: its sessions, each with its times and number of rows; the places of rows that
# are evicted, in lists of at most so many, since Spark copies a list that it appends to.
_SESSION = "STRUCT<f: BIGINT, l: BIGINT, n: BIGINT>"
_LIST = 1_000
_NOTHING = (
    f"named_struct('live', CAST(array() AS ARRAY<{_SESSION}>), "
    "'before', CAST(array() AS ARRAY<ARRAY<BIGINT>>), 'out', CAST(array() AS ARRAY<BIGINT>))"
)


def _follow(gap_us: int, max_rows: int) -> str:
    """One step of following: ``acc`` is what is known of a chain, ``x`` its next row.

    The rows of the state (``i`` is negative) come first, and stay.
    """
    touches = f"x.f <= s.l + {gap_us}L AND x.l >= s.f - {gap_us}L"
    joined = f"filter(acc.live, s -> {touches})"
    rows = f"aggregate({joined}, 0L, (n, s) -> n + s.n)"
    evicted = f"(x.i >= 0 AND {rows} >= {max_rows})"
    first = f"least(x.f, array_min(transform({joined}, s -> s.f)))"
    last = f"greatest(x.l, array_max(transform({joined}, s -> s.l)))"
    session = f"named_struct('f', {first}, 'l', {last}, 'n', {rows} + 1)"
    live = f"array_append(filter(acc.live, s -> NOT ({touches})), {session})"
    full = f"size(acc.out) >= {_LIST}"
    return (
        f"(acc, x) -> named_struct('live', IF({evicted}, acc.live, {live}), "
        f"'before', IF({full}, array_append(acc.before, acc.out), acc.before), "
        f"'out', CASE WHEN {evicted} THEN IF({full}, array(x.i), array_append(acc.out, x.i)) "
        f"WHEN {full} THEN CAST(array() AS ARRAY<BIGINT>) ELSE acc.out END)"
    )


def _keys_beyond(rows: str, known: str, keys: Sequence[str], max_groups: int) -> str:
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
    beyond = f"_rank + (SELECT count(1) FROM ({known})) > {max_groups}"
    return _told(f"SELECT * FROM ({ranked}) WHERE {beyond}", keys, _GROUP)


def _told(rows: str, keys: Sequence[str], fate: Fate) -> str:
    """The statement of evictions for rows that are in no session: ``_place`` and the keys."""
    named = "".join(f", {key}" for key in keys)
    return (
        f"SELECT {PLACE}, CAST(NULL AS BIGINT) AS {END}{named}, {fate.value} AS {EVICTED}, "
        f"false AS {PARTIAL}, false AS {COUNTED} FROM ({rows})"
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
