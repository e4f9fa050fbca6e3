"""The seam between the step and the kinds of windows.

What an operator is asked, and what it answers. The step is the same for every kind; an operator
says how rows become state and which windows close. To add a kind, write an operator and name it in
``job.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidegate.metrics.report import Counts
from tidegate.state.manifest import Manifest, Segment, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.prepare import BatchStart
    from tidegate.engine.state_io import StateIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The rows of a batch, and what they come to.

    Attributes:
        rows: prepared rows.
        start: what is known before the batch.
        tables: the state before the batch.
    """

    rows: DataFrame
    start: BatchStart
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What job 1 of a batch did.

    Attributes:
        segments: the segments that it wrote, all of the table ``windows``.
        counts: rows by what became of them.
        event_time_us: the greatest valid event time, None when no row had one.
        judged: returns the prepared rows with their fate, as it was decided; asked only where the
            counts say that some rows could not be used.
    """

    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=Counts)
    event_time_us: int | None = None
    judged: Callable[[], DataFrame] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A moment at which windows may close.

    ``bound_us`` is the watermark less the allowed lateness: what ends up to it closes.
    ``before_us`` is the bound of the step before. None: no watermark yet.

    Attributes:
        epoch: the step.
        tables: the state, the batch's own segments among it.
        drain: the end of the stream: ``bound_us`` is past every window, and what waits is released.
        flush: open state windows are emitted.
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
    """What closed, and the state that is left.

    Attributes:
        tables: the state after closing, with segments that the operator wrote for what it carried
            over.
        groups: a row for each window and group (see ``Finisher``); None when nothing is due, and no
            job runs.
        windows: how many distinct windows they are; asked after the results have been written.
        rows: how many groups they are, where the operator counts them; asked then too.
    """

    tables: Tables
    groups: DataFrame | None = None
    windows: Callable[[], int] = lambda: 0
    rows: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWindows:
    """The windows of a prepared late row, and the end of the last of them, as Spark SQL over it.

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
        """Find the windows that are due; lazy but for segments that it carries over."""

    def merge(self, segments: DataFrame, bound_us: int | None) -> DataFrame:
        """Merge rows of the table ``windows`` into fewer, without those that no window needs."""

    @property
    def merges_rows(self) -> bool:
        """Whether ``merge`` makes one row of several; else rows stay as they are."""

    @property
    def file_order(self) -> tuple[str, ...]:
        """The columns by which the rows of a merged file are sorted, none where it is no use.

        In this order Parquet can skip the pages that a window does not need.
        """

    def bounds(self) -> tuple[str, str]:
        """Aggregates (Spark SQL) over state rows: the least and the greatest bound of a segment."""

    def end_of_all(self, tables: Tables) -> int | None:
        """The bound at which every window of the state has closed; None when there is none."""

    def late_windows(self) -> LateWindows:
        """The windows that a late row was late for."""

    def open_windows(self, state: Manifest) -> int:
        """How many windows are open, by the bounds of the state."""

    def final_groups(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return the groups of all windows of prepared rows, as if the stream ended with them."""
