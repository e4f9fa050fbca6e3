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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from tidegate.engine.rows.fates import Fate
from tidegate.engine.rows.rejoin import Marks, rejoined
from tidegate.metrics.report import Counts
from tidegate.plan.columns import END, EVICTED
from tidegate.spark.observe import observed
from tidegate.spark.statements import ROW_NUMBER, over
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.rows.fates import BatchStart
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

    @property
    def key_types(self) -> tuple[StructField, ...]:
        """The group keys with their types."""

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
    """

    least: int
    windows: LimitedWindows

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

    def of_table(self, arrival: Arrival) -> tuple[DataFrame, BatchStart, DataFrame | None]:
        """Return the rows of a table, with those marked that no window has room for.

        Also what they are judged by, and the windows and groups that are not to be shown.
        """
        numbered = arrival.rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")
        evictions = self.windows.evictions(numbered, arrival, None)
        marked = _marked(numbered, evictions)
        hidden = _hidden(evictions, self.windows.keys) if self.windows.overlap else None
        return marked, replace(arrival.start, has_evictions=True), hidden

    def _read(self, segments: Sequence[Segment], io: StateIO) -> DataFrame:
        return io.store.read_segments(segments, eviction_schema(self.windows.key_types))

    @property
    def _is_kept(self) -> str:
        """The entries that the table ``quotas`` keeps: groups whose rows are in the state."""
        return f"({_HIDES})"


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
    return _hidden(rows, [key.name for key in keys])


_HIDES = f"{PARTIAL} AND {EVICTED} = {Fate.EVICTED_GROUP.value}"


def _hidden(evictions: DataFrame, keys: Sequence[str]) -> DataFrame:
    return evictions.where(_HIDES).select(END, *keys).distinct()


def _marked(numbered: DataFrame, evictions: DataFrame) -> DataFrame:
    """The rows of a batch with ``_evicted``: the fate of those that are in no window."""
    # By the first of its windows, if several have no room for a row.
    wholly = over(
        evictions.select(PLACE, END, EVICTED, PARTIAL),
        f"SELECT {PLACE}, min_by({EVICTED}, coalesce({END}, 0L)) AS {EVICTED} FROM {{frame}} "
        f"WHERE NOT {PARTIAL} GROUP BY {PLACE}",
    )
    marks = Marks(frame=wholly, same=f"rows.{PLACE} = marks.{PLACE}")
    others = [f"rows.{name}" for name in numbered.columns if name != PLACE]
    return rejoined(numbered, marks, [*others, f"marks.{EVICTED} AS {EVICTED}"])
