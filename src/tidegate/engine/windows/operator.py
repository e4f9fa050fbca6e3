"""The interface between the step and the kinds of windows.

The step is the same for every kind; an operator decides how rows become state and which windows
close. To add a kind, write an operator and name it in ``job.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.metrics.report import Counts
from tidegate.state.manifest import Manifest, Segment, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.engine.state_io import StateIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The rows of a batch, and the state that they meet.

    Attributes:
        rows: prepared rows.
        start: what is known before the batch.
        state: returns the state before the batch; waits for the step before where that one is still
            being finished.
        early: that state as far as it is known without waiting. It has all keys of rows; windows
            that the step before closes may still be in it.
    """

    rows: DataFrame
    start: BatchStart
    state: Callable[[], Tables]
    early: Tables

    @property
    def tables(self) -> Tables:
        """The state before the batch."""
        return self.state()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldShards:
    """The shards of a batch as its placed rows tell them.

    Attributes:
        seen: what was observed, see ``engine/rows/shard_rows.py``.
        mixed: how many of them are partials of several shards.
    """

    seen: Mapping[str, Any]
    mixed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The outcome of job 1 of a batch.

    Attributes:
        segments: the segments that it wrote, all in the table ``windows``.
        quotas: segments for the table ``quotas``.
        counts: numbers of rows by fate.
        event_time_us: the greatest valid event time, None if no row had one.
        judged: returns the prepared rows with the fate that was decided; called only if the counts
            say that some rows could not be used.
        elsewhere: the pane and the places of rows that are in no segment, where rows are watched.
        some_behind: whether rows are marked as behind, see ``engine/rows/lateness.py``, or are
            known to be.
        shards: what placed rows tell of their shards, where they do.
        any_behind: returns whether a row came after one that closed a window of it; None where the
            places of rows are not known.
    """

    segments: tuple[Segment, ...] = ()
    quotas: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=Counts)
    event_time_us: int | None = None
    judged: Callable[[], DataFrame] | None = None
    elsewhere: tuple[Row, ...] = ()
    any_behind: Callable[[], bool] | None = None
    some_behind: bool = False
    shards: ToldShards | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A moment at which windows may close.

    ``bound_us`` is the watermark less the allowed lateness: windows with an end up to it close.
    ``before_us`` is the bound of the previous step. None: no watermark yet.

    Attributes:
        epoch: the step.
        tables: the state, including the batch's own segments.
        drain: the stream ends: ``bound_us`` is past every window, and waiting rows are released.
        flush: emit open state windows.
        fresh: the names of the batch's own segments.
    """

    epoch: int
    before_us: int | None
    bound_us: int | None
    tables: Tables
    fresh: tuple[str, ...] = ()
    drain: bool = False
    flush: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The windows that closed, and the remaining state.

    Attributes:
        tables: the state after closing, with segments that the operator wrote for rows that it
            carries over.
        groups: a row for each window and group (see ``Finisher``); None if nothing is due, and then
            no job runs.
        windows: the number of distinct windows; called after the results have been written.
        rows: the number of groups, if the operator counts them; called then too.
    """

    tables: Tables
    groups: DataFrame | None = None
    windows: Callable[[], int] = lambda: 0
    rows: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWindows:
    """The windows of a prepared late row, and the end of the last one, as Spark SQL over the row.

    Times are BIGINT microseconds; ``windows`` is an ARRAY<STRUCT<start, end>>.
    """

    windows: str
    last_end: str


class Operator(Protocol):
    """How windows of one kind keep their state and close."""

    @property
    def state_schema(self) -> StructType:
        """The columns of a segment."""

    def ingest(self, arrival: Arrival, io: StateIO) -> Ingested:
        """Turn prepared rows into segments (job 1)."""

    def close(self, closing: Closing, io: StateIO) -> Closed:
        """Find the windows that are due; lazy, except for writing carried segments."""

    def merge(
        self,
        segments: DataFrame,
        bound_us: int | None,
        *,
        some_behind: bool = False,
        apart_us: int | None = None,
    ) -> DataFrame:
        """Merge rows of the table ``windows``, dropping those that no window needs any more.

        Args:
            segments: the rows.
            bound_us: windows with an end up to here have closed.
            some_behind: rows of the table, maybe in other segments, came after windows that are
                still in the state had closed for them.
            apart_us: rows that a close at a bound up to this one could rewrite stay as they are,
                so that the merged rows can still replace these rows after it. None: no close has
                to be waited for.
        """

    def apart_us(self, bound_us: int | None) -> int | None:
        """The ``apart_us`` of a merge that begins at a bound; None if no close rewrites rows."""

    @property
    def merges_rows(self) -> bool:
        """Whether ``merge`` combines rows; otherwise it keeps them as they are."""

    @property
    def file_order(self) -> tuple[str, ...]:
        """The columns by which the rows of a merged file are sorted; empty if sorting is no use.

        Sorted files let Parquet skip pages that a window does not need.
        """

    def bounds(self) -> tuple[str, str]:
        """Aggregates (Spark SQL) over state rows: the least and greatest time of a segment."""

    def end_of_all(self, tables: Tables) -> int | None:
        """The bound at which every window of the state has closed, None if there is no window."""

    def is_late(self, bound: str) -> str | None:
        """The condition that a prepared row is late for all its windows (both Spark SQL).

        None: that depends on other rows too.
        """

    def closed_before(self, time: str, bound: str) -> str:
        """The condition that a window which can take a row closes at a bound (both Spark SQL).

        It is monotone: where it holds, it holds for earlier times and later bounds.
        """

    def may_close(self, segment: Segment, bound_us: int) -> bool:
        """Whether that may be so for a row in a segment that a batch wrote."""

    def late_windows(self) -> LateWindows:
        """The windows that a late row was late for."""

    def open_windows(self, state: Manifest) -> int:
        """How many windows are open, judging by the bounds of segments."""

    def final_groups(
        self, rows: DataFrame, start: BatchStart, hidden: DataFrame | None = None
    ) -> DataFrame:
        """Return the groups of all windows of prepared rows, as if the stream ended after them.

        Args:
            rows: the rows.
            start: what they are judged by.
            hidden: windows and groups that a quota keeps out, see ``hidden_groups``; None: none.
        """
