"""The windows of triggers over whole rows: a join of triggers and rows by range.

A state row of a sliding window is a row:

    _t       BIGINT   its time                 _p0 ..   partition keys of the window
    _order   STRUCT   its place in arrival     _k0 ..   group keys
    _trigger BOOLEAN  it starts a window       _x0 ..   arguments

Every window is as long as the reach (lookback and lookahead), so on a grid of that width it touches
at most two buckets: triggers and rows meet by partition and bucket, and then by time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyspark.sql import functions

from tidegate.engine.windows.state_rows import KEPT, whole_groups
from tidegate.plan.columns import END, INSTANCE, ORDER, START, TIME, TRIGGER
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
    """The geometry of a sliding window: how far it looks from its trigger, and in which stream.

    ``partition`` are the columns of its partition keys; times are microseconds, both ends in.
    """

    lookback_us: int
    lookahead_us: int
    partition: tuple[str, ...]

    @property
    def us(self) -> int:
        """From the first to the last moment of a window."""
        return self.lookback_us + self.lookahead_us

    def span(self, first_us: int, last_us: int) -> tuple[int, int]:
        """The first and the last moment of the windows of triggers between two moments."""
        return first_us - self.lookback_us, last_us + self.lookahead_us

    def window_columns(self, time: str, order: str) -> list[str]:
        """The columns that make a window, of the time and the place of its trigger."""
        partition = "".join(f"CAST({name} AS STRING), " for name in self.partition)
        return [
            f"{time} + {self.lookahead_us}L AS {END}",
            f"{time} - {self.lookback_us}L AS {START}",
            f"{time} AS {TRIGGER}",
            f"concat_ws('|', {partition}{order}.b, {order}.i) AS {INSTANCE}",
        ]

    def bucket(self, time: str) -> str:
        """The start of the bucket that holds a time."""
        return f"({time} - pmod({time}, {max(1, self.us)}L))"

    def buckets(self, start: str, end: str) -> str:
        """One row for each bucket that a window touches."""
        width_us = max(1, self.us)
        return f"explode(sequence({self.bucket(start)}, {self.bucket(end)}, {width_us}L))"

    def same_partition(self, prefix: str) -> str:
        """The condition that two rows are of one stream and one bucket.

        The columns of one of them have a prefix.
        """
        pairs = [f"{name} <=> {prefix}{name}" for name in self.partition]
        return " AND ".join([*pairs, f"{BUCKET} = {prefix}{BUCKET}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The triggers whose windows go out.

    Attributes:
        condition: Spark SQL over state rows.
        first_us: the least of their times; None for a table, where it is not known.
        last_us: the greatest, None likewise.
    """

    condition: str
    first_us: int | None = None
    last_us: int | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The bounds of triggers of the state, which are known."""
        assert self.first_us is not None, "the state has bounds"
        assert self.last_us is not None, "the state has bounds"
        return self.first_us, self.last_us


# What windows are shown to, one row for each, on their way.
Watch: TypeAlias = Callable[["DataFrame"], "DataFrame"]


class WindowCounter:
    """Counts the windows that pass it while an action runs."""

    def watch(self, windows: DataFrame) -> DataFrame:
        """Return the frame, watched; it has one row for each window."""
        watched, self._numbers = observed(windows, {"windows": "count(1)"})
        return watched

    def count(self) -> int:
        """Return how many windows passed; asked after the action."""
        return int(self._numbers()["windows"])


class SlidingShape(Protocol):
    """How the state of sliding windows is kept, and how windows come out of it."""

    @property
    def aggregated(self) -> bool:
        """Whether a row of a batch's segment stands for many rows."""

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
        """The same of rows at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRows:
    """Rows are kept whole; a window is joined from them and aggregated, or shown as it is."""

    reach: Reach
    aggregation: IngestRows
    state_schema: StructType

    @property
    def aggregated(self) -> bool:
        return False

    def kept(self, placed: DataFrame) -> DataFrame:
        keys = (key.name for key in self.aggregation.keys)
        arguments = (argument.name for argument in self.aggregation.arguments)
        return placed.where(KEPT).select(
            TIME, ORDER, STARTS, *self.reach.partition, *keys, *arguments
        )

    def merge(self, state: DataFrame) -> DataFrame:
        return state

    @property
    def file_order(self) -> tuple[str, ...]:
        return (TIME,)

    def windows(self, segments: list[Segment], due: Due, io: StateIO, watch: Watch) -> DataFrame:
        first_us, last_us = self.reach.span(*due.bounds)
        bounds = [f"{first_us}L", f"{last_us}L"]
        # Of a merged segment only some pages are needed, which Parquet finds by plain constants:
        # that is worth compiling the scan for every batch.
        if all(segment.level == 0 for segment in segments):
            bounds = [by_reference(us, TIME) for us in (first_us, last_us)]
        rows = io.read(segments)
        rows = rows.where(f"{TIME} BETWEEN {bounds[0]} AND {bounds[1]}")
        return self.windows_of(rows, due, watch)

    def windows_of(self, rows: DataFrame, due: Due, watch: Watch) -> DataFrame:
        partition = [f"{name} AS _of{name}" for name in self.reach.partition]
        windows = watch(
            rows.where(due.condition).selectExpr(
                *self.reach.window_columns(TIME, ORDER), *partition
            )
        ).selectExpr("*", f"{self.reach.buckets(START, END)} AS _of{BUCKET}")
        members = rows.selectExpr("*", f"{self.reach.bucket(TIME)} AS {BUCKET}")
        condition = f"{self.reach.same_partition('_of')} AND {TIME} BETWEEN {START} AND {END}"
        joined = members.join(windows, functions.expr(condition))
        made_of = [END, START, TRIGGER, INSTANCE]
        return over(joined, whole_groups("SELECT * FROM {frame}", self.aggregation, made_of))
