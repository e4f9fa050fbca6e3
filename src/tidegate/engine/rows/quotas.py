"""Quotas: groups of a window beyond ``max_groups``, rows of a group beyond ``max_rows_per_group``.

What came first stays, so the state says it all: a row stays in a window if its group is in it
already or there is room for one more, and if its group has room for one more row.

While all rows of the state and of a batch together are no more than a quota, nothing can exceed it
and nothing is checked. Otherwise a job puts the rows of the batch beside what their windows have,
in order of arrival, and writes a segment of the rows that are *evicted* from a window. Those that
are evicted from all of theirs are marked and not taken in. Others are taken in, since they count in
the other windows; the table ``quotas`` keeps which groups are not to be shown in which window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from tidegate.engine.rows.prepare import Fate
from tidegate.metrics.report import Counts
from tidegate.plan.columns import END, EVICTED
from tidegate.spark.observe import observed
from tidegate.spark.statements import ROW_NUMBER, over_all
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.rows.prepare import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested
    from tidegate.state.manifest import Tables

# BIGINT: the place of a row in its batch, in order of arrival.
PLACE = "_place"
# Of a row that is evicted from a window: BOOLEAN, whether it stays in another one; BOOLEAN, whether
# it is in this batch the one entry of the row that is counted as partial.
PARTIAL, COUNTED = "_partial", "_counted"


class LimitedWindows(Protocol):
    """What the windows of an operator ask of quotas."""

    @property
    def overlap(self) -> bool:
        """Whether a row can be in several windows."""

    @property
    def keys(self) -> Sequence[str]:
        """The columns of the group keys."""

    def evictions(self, numbered: DataFrame, arrival: Arrival, io: StateIO | None) -> DataFrame:
        """Return the rows of a batch that a window has no room for, once for each such window.

        Columns: ``_place``, ``_end_us`` (of the window, NULL if rows are in one only), the keys,
        ``_evicted`` (INT, a ``Fate``), ``_partial`` and ``_counted``.

        Args:
            numbered: prepared rows with ``_place``.
            arrival: the batch; its tables are the state before it.
            io: the state; None if it has no rows.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A batch after its quotas have been checked.

    Attributes:
        arrival: the batch; rows that are evicted are marked.
        evicts: whether any are.
        segments: what the table ``quotas`` gets.
        partial: how many rows are evicted from some of their windows, and were not late for others.
    """

    arrival: Arrival
    evicts: bool = False
    segments: tuple[Segment, ...] = ()
    partial: int = 0

    def counted(self, ingested: Ingested) -> Ingested:
        """Return what ingest did, with what the check has found."""
        counts = ingested.counts + Counts(partial=self.partial)
        return replace(ingested, counts=counts, quotas=self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Checks the quotas of a query.

    Attributes:
        least: the least of its quotas.
        windows: the windows.
        key_types: the group keys with their types.
    """

    least: int
    windows: LimitedWindows
    key_types: tuple[StructField, ...] = field(default=())

    def may_exceed(self, tables: Tables, fresh: Sequence[Segment] = ()) -> bool:
        """Whether a quota may be exceeded, by the number of rows of the state alone."""
        return sum(segment.rows for segment in (*tables.windows, *fresh)) > self.least

    def admit(self, arrival: Arrival, io: StateIO) -> Admission:
        """Check a batch: mark the rows that no window has room for."""
        numbered = arrival.rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")
        io.tasks.set()
        evictions, seen = observed(
            self.windows.evictions(numbered, arrival, io),
            {
                "evicted": "count(1)",
                "partial": f"count_if({COUNTED})",
                "groups": f"count_if({self._is_kept})",
                "first": f"min(IF({self._is_kept}, {END}, NULL))",
                "last": f"max(IF({self._is_kept}, {END}, NULL))",
            },
        )
        name, files = io.write(arrival.start.epoch, "evicted", evictions)
        found = seen()
        if not found["evicted"]:
            return Admission(arrival=arrival)
        segment = Segment(
            name=name,
            first_us=found["first"] or 0,
            last_us=found["last"] or 0,
            rows=found["groups"],
            files=files,
        )
        marked = _marked(numbered, self._read([segment], io))
        return Admission(
            arrival=replace(arrival, rows=marked, start=replace(arrival.start, has_evictions=True)),
            evicts=True,
            segments=(segment,) if segment.rows else (),
            partial=found["partial"],
        )

    def of_table(self, arrival: Arrival) -> tuple[DataFrame, BatchStart]:
        """Return the rows of a table with those marked that no window has room for."""
        numbered = arrival.rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")
        evictions = self.windows.evictions(numbered, arrival, None)
        return _marked(numbered, evictions), replace(arrival.start, has_evictions=True)

    def _read(self, segments: Sequence[Segment], io: StateIO) -> DataFrame:
        return io.store.read_segments(segments, eviction_schema(self.key_types))

    @property
    def _is_kept(self) -> str:
        """The entries that the table ``quotas`` keeps: groups whose rows are in the state."""
        return f"({PARTIAL} AND {EVICTED} = {Fate.EVICTED_GROUP.value})"


def eviction_schema(keys: Sequence[StructField]) -> StructType:
    """Return the columns of the table ``quotas``."""
    return StructType(
        [
            StructField(PLACE, LongType()),
            StructField(END, LongType()),
            *keys,
            StructField(EVICTED, IntegerType()),
            StructField(PARTIAL, BooleanType()),
        ]
    )


def hidden_groups(
    segments: Sequence[Segment], keys: Sequence[StructField], io: StateIO
) -> DataFrame:
    """Return the windows and groups that are not to be shown, although rows of them are stored."""
    rows = io.store.read_segments(segments, eviction_schema(keys))
    kept = rows.where(f"{PARTIAL} AND {EVICTED} = {Fate.EVICTED_GROUP.value}")
    return kept.select(END, *(key.name for key in keys)).distinct()


def _marked(numbered: DataFrame, evictions: DataFrame) -> DataFrame:
    """The rows of a batch with ``_evicted``: the fate of those that are in no window."""
    others = ", ".join(f"rows.{name}" for name in numbered.columns if name != PLACE)
    # By the first of its windows, if several have no room for a row.
    wholly = (
        f"SELECT {PLACE}, min_by({EVICTED}, coalesce({END}, 0L)) AS {EVICTED} FROM {{evicted}} "
        f"WHERE NOT {PARTIAL} GROUP BY {PLACE}"
    )
    return over_all(
        {"rows": numbered, "evicted": evictions.select(PLACE, END, EVICTED, PARTIAL)},
        f"SELECT /*+ BROADCAST(wholly) */ {others}, wholly.{EVICTED} AS {EVICTED} FROM {{rows}} AS "
        f"rows LEFT JOIN ({wholly}) AS wholly ON rows.{PLACE} = wholly.{PLACE}",
    )


def evictions_on_panes(
    members: str, known: str, keys: Sequence[str], limits: tuple[int | None, int | None]
) -> str:
    """Return the statement of evictions of windows on a grid.

    Args:
        members: the statement of rows, once for each of their open windows: ``_place``,
            ``_end_us``, the keys, ``_whole`` (BOOLEAN, the row is late for none of its windows).
        known: the statement of what these windows have: ``_end_us``, the keys, ``_n`` (rows).
        keys: the columns of the keys.
        limits: how many groups a window takes, and how many rows a group; None: any number.
    """
    max_groups, max_rows = limits
    named = "".join(f", {key}" for key in keys)
    both = (
        f"SELECT {PLACE}, {END}{named}, 0L AS _n, _whole FROM ({members}) UNION ALL "
        f"SELECT -1L, {END}{named}, _n, true FROM ({known})"
    )
    group = f"PARTITION BY {END}{named}"
    grouped = (
        f"SELECT *, min({PLACE}) OVER ({group}) AS _first, sum(_n) OVER ({group}) AS _used, "
        f"row_number() OVER ({group} ORDER BY {PLACE}) AS _nth FROM ({both})"
    )
    ranked = (
        f"SELECT *, count_if({PLACE} < 0) OVER (PARTITION BY {END}) AS _known, "
        f"dense_rank() OVER (PARTITION BY {END} ORDER BY _first) AS _rank FROM ({grouped})"
    )
    # All known groups are of one rank, before those of the batch.
    place = "_known + _rank - IF(_known > 0, 1, 0)"
    cases = ""
    if max_groups is not None:
        cases += f" WHEN _first >= 0 AND {place} > {max_groups} THEN {Fate.EVICTED_GROUP.value}"
    if max_rows is not None:
        nth = "_used + _nth - IF(_first < 0, 1, 0)"
        cases += f" WHEN {nth} > {max_rows} THEN {Fate.EVICTED_ROW.value}"
    judged = f"SELECT *, CASE{cases} END AS {EVICTED} FROM ({ranked}) WHERE {PLACE} >= 0"
    row = f"PARTITION BY {PLACE}"
    told = (
        f"SELECT *, count({EVICTED}) OVER ({row}) < count(1) OVER ({row}) AS {PARTIAL}, "
        f"min(IF({EVICTED} IS NULL, NULL, {END})) OVER ({row}) = {END} AS _leads FROM ({judged})"
    )
    return (
        f"SELECT {PLACE}, {END}{named}, {EVICTED}, {PARTIAL}, "
        f"_leads AND {PARTIAL} AND _whole AS {COUNTED} FROM ({told}) WHERE {EVICTED} IS NOT NULL"
    )


def evictions_of_sessions(rows: str, known: str, keys: Sequence[str], max_groups: int) -> str:
    """Return the statement of evictions of sessions: keys beyond those that have an open one.

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
