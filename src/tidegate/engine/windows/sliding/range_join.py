"""Sliding windows over whole rows: a range join of triggers and rows.

A state row of a sliding window is a row:

    _t       BIGINT   its time                 _p0 ..   partition keys of the window
    _order   STRUCT   its order of arrival     _k0 ..   group keys
    _trigger BOOLEAN  it has a window          _x0 ..   arguments

Every window is as long as the reach (lookback plus lookahead), so on a grid of that width it
touches at most two buckets. Triggers and rows are joined by partition and bucket, then by time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyspark.sql import functions

from tidegate.engine.windows.state_rows import KEPT, whole_groups
from tidegate.plan.columns import AFTER, END, INSTANCE, ORDER, START, TIME, TRIGGER
from tidegate.spark.observe import observed
from tidegate.spark.statements import by_reference, over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.state_io import StateIO
    from tidegate.plan.stages import IngestRows
    from tidegate.state.manifest import Segment

STARTS = "_trigger"
BUCKET = "_bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The geometry of a sliding window: how far it reaches from its trigger, and its partition.

    ``partition`` has the columns of the partition keys; times are microseconds, ends inclusive.
    ``keeps_after``: a state row has ``_after``, and windows that end before do not contain it.
    """

    lookback_us: int
    lookahead_us: int
    partition: tuple[str, ...]
    keeps_after: bool = False

    @property
    def after(self) -> list[str]:
        """The column ``_after``, if state rows have it."""
        return [AFTER] if self.keeps_after else []

    @property
    def us(self) -> int:
        """The length of a window, from its first to its last microsecond."""
        return self.lookback_us + self.lookahead_us

    def span(self, first_us: int, last_us: int) -> tuple[int, int]:
        """The first and last time in the windows of triggers between two times."""
        return first_us - self.lookback_us, last_us + self.lookahead_us

    def window_columns(self, time: str, order: str) -> list[str]:
        """The columns of a window, computed from the time and order of its trigger."""
        partition = "".join(f"CAST({name} AS STRING), " for name in self.partition)
        return [
            f"{time} + {self.lookahead_us}L AS {END}",
            f"{time} - {self.lookback_us}L AS {START}",
            f"{time} AS {TRIGGER}",
            f"concat_ws('|', {partition}{order}.b, {order}.i) AS {INSTANCE}",
        ]

    def bucket(self, time: str) -> str:
        """The start of the bucket that contains a time."""
        return f"({time} - pmod({time}, {max(1, self.us)}L))"

    def buckets(self, start: str, end: str) -> str:
        """One row for each bucket that a window touches."""
        width_us = max(1, self.us)
        return f"explode(sequence({self.bucket(start)}, {self.bucket(end)}, {width_us}L))"

    def same_partition(self, prefix: str) -> str:
        """The condition that two rows have the same partition and bucket.

        The columns of one of them have a prefix.
        """
        pairs = [f"{name} <=> {prefix}{name}" for name in self.partition]
        return " AND ".join([*pairs, f"{BUCKET} = {prefix}{BUCKET}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The triggers whose windows are emitted.

    Attributes:
        condition: Spark SQL over state rows.
        first_us: the least of their times; None for a batch query, where it is unknown.
        last_us: the greatest of their times; None likewise.
        some_came_after: whether some rows came after windows in their range had closed.
    """

    condition: str
    first_us: int | None = None
    last_us: int | None = None
    some_came_after: bool = False

    @property
    def bounds(self) -> tuple[int, int]:
        """The bounds of triggers in the state, where they are known."""
        assert self.first_us is not None, "the state has bounds"
        assert self.last_us is not None, "the state has bounds"
        return self.first_us, self.last_us


# Observes a frame with one row for each window.
Watch: TypeAlias = Callable[["DataFrame"], "DataFrame"]


class WindowCounter:
    """Counts windows while an action runs."""

    def watch(self, windows: DataFrame) -> DataFrame:
        """Return the frame, observed; it has one row for each window."""
        watched, self._numbers = observed(windows, {"windows": "count(1)"})
        return watched

    def count(self) -> int:
        """Return how many windows there were; called after the action."""
        return int(self._numbers()["windows"])


class SlidingShape(Protocol):
    """The shape of the state of sliding windows, and how windows are computed from it."""

    @property
    def aggregated(self) -> bool:
        """Whether a row in a batch's segment represents many rows."""

    @property
    def own_group(self) -> bool:
        """Whether every window has one group, that of its trigger."""

    def kept(self, placed: DataFrame) -> DataFrame:
        """Return what the state keeps of placed rows."""

    def merge(self, state: DataFrame) -> DataFrame:
        """Return the rows of a merged segment."""

    @property
    def file_order(self) -> tuple[str, ...]:
        """The columns by which the rows of a merged file are sorted."""

    def windows(self, segments: list[Segment], due: Due, io: StateIO, watch: Watch) -> DataFrame:
        """Return one row for each due window and group."""

    def windows_of(self, rows: DataFrame, due: Due, watch: Watch) -> DataFrame:
        """The same for rows that are not in the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRows:
    """Rows are kept whole; a window's rows are joined, then aggregated or returned as they are."""

    reach: Reach
    aggregation: IngestRows
    state_schema: StructType

    @property
    def aggregated(self) -> bool:
        return False

    @property
    def own_group(self) -> bool:
        return False

    def kept(self, placed: DataFrame) -> DataFrame:
        keys = (key.name for key in self.aggregation.keys)
        arguments = (argument.name for argument in self.aggregation.arguments)
        return placed.where(KEPT).select(
            TIME, ORDER, STARTS, *self.reach.after, *self.reach.partition, *keys, *arguments
        )

    def merge(self, state: DataFrame) -> DataFrame:
        return state

    @property
    def file_order(self) -> tuple[str, ...]:
        return (TIME,)

    def windows(self, segments: list[Segment], due: Due, io: StateIO, watch: Watch) -> DataFrame:
        first_us, last_us = self.reach.span(*due.bounds)
        bounds = [f"{first_us}L", f"{last_us}L"]
        # Of a merged segment only some pages are needed. With literals Parquet can skip the others,
        # which is worth compiling the scan for every batch.
        if all(segment.level == 0 for segment in segments):
            bounds = [by_reference(us, TIME) for us in (first_us, last_us)]
        rows = io.read(segments)
        rows = rows.where(f"{TIME} BETWEEN {bounds[0]} AND {bounds[1]}")
        return self.windows_of(rows, due, watch)

    def windows_of(self, rows: DataFrame, due: Due, watch: Watch) -> DataFrame:
        windows = watch(windows_due(rows, due, self.reach))
        joined = in_windows(rows, windows, self.reach)
        return over(joined, whole_groups("SELECT * FROM {frame}", self.aggregation, WINDOW))


# The columns of a window.
WINDOW = [END, START, TRIGGER, INSTANCE]


def windows_due(rows: DataFrame, due: Due, reach: Reach) -> DataFrame:
    """Return the windows of the due triggers among state rows, with their partition."""
    partition = (f"{name} AS _of{name}" for name in reach.partition)
    return rows.where(due.condition).selectExpr(*reach.window_columns(TIME, ORDER), *partition)


def in_windows(
    rows: DataFrame, windows: DataFrame, reach: Reach, *, closed: bool = False
) -> DataFrame:
    """Return the rows of each window.

    Args:
        rows: state rows.
        windows: windows with their partition, see ``windows_due``.
        reach: the geometry of windows.
        closed: return instead those rows in its range that came after it had closed.
    """
    touched = windows.selectExpr("*", f"{reach.buckets(START, END)} AS _of{BUCKET}")
    members = rows.selectExpr("*", f"{reach.bucket(TIME)} AS {BUCKET}")
    conditions = [reach.same_partition("_of"), f"{TIME} BETWEEN {START} AND {END}"]
    if reach.keeps_after:
        conditions.append(f"coalesce({END} {'<' if closed else '>='} {AFTER}, {not closed})")
    return members.join(touched, functions.expr(" AND ".join(conditions)))
