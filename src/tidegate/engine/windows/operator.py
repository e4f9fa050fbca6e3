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
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.prepare import BatchStart
    from tidegate.state.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What job 1 of a batch did.

    Attributes:
        segments: the segments it wrote.
        counts: rows by what became of them.
        event_time_us: the greatest valid event time, None when no row had one.
    """

    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=Counts)
    event_time_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A moment at which windows may close.

    ``bound_us`` is the watermark less the allowed lateness: what ends up to it closes.
    ``before_us`` is the bound of the step before. None: no watermark yet.

    Attributes:
        epoch: the step.
        segments: the state, the batch's own segments among it.
        drain: the end of the stream: ``bound_us`` is past every window, and what waits is released.
        flush: open state windows are emitted.
        fresh: the names of the batch's own segments.
    """

    epoch: int
    before_us: int | None
    bound_us: int | None
    segments: tuple[Segment, ...]
    fresh: tuple[str, ...] = ()
    drain: bool = False
    flush: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What closed, and the state that is left.

    Attributes:
        segments: the state after closing, with segments that the operator wrote for what it carried
            over.
        spent: segments that only the results of this step read.
        groups: a row for each window and group (see ``Finisher``); None when nothing is due, and no
            job runs.
        windows: how many distinct windows they are; asked after the results have been written.
        rows: how many groups they are, where the operator counts them; asked then too.
    """

    segments: tuple[Segment, ...]
    spent: tuple[Segment, ...] = ()
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

    def ingest(
        self, rows: DataFrame, start: BatchStart, state: tuple[Segment, ...], store: StateStore
    ) -> Ingested:
        """Turn prepared rows into segments (job 1). ``state`` are the segments before the batch."""

    def close(self, closing: Closing, store: StateStore) -> Closed:
        """Find the windows that are due; lazy but for segments that it carries over."""

    def merge(self, segments: DataFrame, bound_us: int | None) -> DataFrame:
        """Merge state rows into fewer of the same schema, without those that no window needs."""

    def bounds(self) -> tuple[str, str]:
        """Aggregates (Spark SQL) over state rows: the least and the greatest bound of a segment."""

    def end_of_all(self, segments: tuple[Segment, ...]) -> int | None:
        """The bound at which every window of the state has closed; None when there is none."""

    def judge(
        self, rows: DataFrame, start: BatchStart, written: tuple[Segment, ...], store: StateStore
    ) -> DataFrame:
        """Return prepared rows with their fate, as ``ingest`` decided it.

        ``written`` are the segments that ``ingest`` wrote.
        """

    def late_windows(self) -> LateWindows:
        """The windows that a late row was late for."""

    def open_windows(self, segments: tuple[Segment, ...], bound_us: int | None) -> int:
        """How many windows are open, by the bounds of the state."""
