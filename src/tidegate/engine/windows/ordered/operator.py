"""State and count windows: the rows of a partition are assigned to windows one by one, in order.

A row *waits* in the segment of its batch until the bound has passed its time. It is then *released*
and follows, in (time, arrival) order, the rows that its partition has *carried* over because a
coming window may show them. In processing time no row waits.

    batch rows --> waiting segments --(the bound passes _t)--> released --+
                                                                          +--> scan --> windows
                   carried segments --------------------------------------+      |
                          ^                                                      v
                          +------------------------------------------------ still open

The scan is a chain of Spark's running window functions over the partition. A close that releases no
row does none of this; ``log.py`` says what a close costs that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from tidegate.engine.rows.fates import fate_case, judge, order_sql
from tidegate.engine.rows.ingest import Intake, take_in
from tidegate.engine.windows.operator import Arrival, Closed, Closing, Ingested, LateWindows
from tidegate.engine.windows.ordered.log import (
    NEW,
    OrderedState,
    ordered_state,
    touched,
)
from tidegate.engine.windows.state_rows import KEPT, row_numbers, shard_of_row, whole_groups
from tidegate.plan.columns import END, FATE, INSTANCE, ORDER, START, TIME
from tidegate.plan.settings import TimeMode
from tidegate.spark.observe import observed
from tidegate.spark.statements import by_reference, over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.stages import IngestRows
    from tidegate.state.manifest import Manifest, Segment, Tables

# BIGINT: the number of a window in its partition. LAST: the order of the row that ended it.
WINDOW, LAST = "_window", "_last"

# BOOLEAN, of a scanned row: a window ends with it now; it represents a window that is open after
# the close; it represents one that was open before the close.
CLOSES, STANDS, STOOD = "_closes", "_stands", "_stood"

# The only partition of a window without OVER. It is a column of the state because Spark logs a
# warning in every batch for a window function without a partition.
ALL = "_all"

# The rows of a frame, as a statement for ``over``.
FRAME = "TABLE {frame}"

# The frames of a scan.
RUNNING = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


class Scan(Protocol):
    """How the rows of a partition are assigned to windows, as Spark SQL over statements."""

    @property
    def flushes(self) -> bool:
        """Whether a flush emits open windows."""

    def columns(self) -> Mapping[str, str]:
        """The columns that the scan needs in the state, as Spark SQL over prepared rows."""

    def scanned(self, rows: str, partition: Partition) -> str:
        """Return rows (carried ones and ``_new`` ones) with ``_closes``, ``_stands``, ``_stood``.

        The scan adds columns of its own. Carried rows may be of a window that has already ended,
        and then some of its rows may be missing.
        """

    def closed(self, scanned: str, *, end: bool) -> str:
        """Return scanned rows once for each window that closes now, with ``_window``.

        At the end of the stream this includes open windows.
        """

    def carried(self, scanned: str) -> str:
        """Return the scanned rows that a coming window may show."""

    def appended(self, scanned: str) -> str:
        """Return those of them that are new, and rows that mark the end of windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The partition columns of a window."""

    columns: tuple[str, ...]

    def scan(self, call: str, frame: str) -> str:
        """A window function over a frame of the partition's rows in their order."""
        return f"{call} OVER (PARTITION BY {self.names} ORDER BY {ORDER} {frame})"

    def window(self, call: str) -> str:
        """An aggregate over the rows of a window."""
        return f"{call} OVER (PARTITION BY {self.names}, {WINDOW})"

    @property
    def names(self) -> str:
        return ", ".join(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRows:
    """A state row is a whole row with its order, its partition, and what the scan needs."""

    plan: PhysicalPlan
    aggregation: IngestRows
    scan: Scan

    @property
    def aggregated(self) -> bool:
        return False

    @property
    def partition(self) -> Partition:
        return Partition(columns=tuple(self.plan.close.window.partition_keys) or (ALL,))

    @property
    def event_time(self) -> bool:
        """Whether rows wait for the watermark."""
        return self.plan.watermark.mode is TimeMode.EVENT

    def judged(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return prepared rows with their fate."""
        bound = start.bound_sql() if self.event_time else None
        late = None if bound is None else f"{TIME} < {bound}"
        return judge(rows, self.plan, start, fate_case(self.plan, start, late=late))

    def place(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return the rows of a batch with the columns of the state and those for counting."""
        columns = {ORDER: order_sql(start), **row_numbers(self.plan)}
        columns |= {ALL: "true"} if self.partition.columns == (ALL,) else {}
        columns |= self.scan.columns()
        same = [name for name in (FATE, *self.names) if name not in columns]
        derived = (f"{sql} AS {name}" for name, sql in columns.items())
        return self.judged(rows, start).selectExpr(*same, *derived, *shard_of_row(start))

    def kept(self, placed: DataFrame) -> DataFrame:
        return placed.where(KEPT).select(*self.names)

    @property
    def names(self) -> list[str]:
        """The columns of the state."""
        keys = (key.name for key in self.aggregation.keys)
        arguments = (argument.name for argument in self.aggregation.arguments)
        return [TIME, ORDER, *self.partition.columns, *self.scan.columns(), *keys, *arguments]

    def scanned(self, rows: str) -> str:
        """Return the statement of scanned rows."""
        return self.scan.scanned(rows, self.partition)

    def bounded(self, closed: str) -> str:
        """Return the rows of closed windows with the window's bounds, and ``_last``.

        The order of its last row identifies a window, because no two end with the same row.
        """
        last, first = self.partition.window(f"max({ORDER})"), self.partition.window(f"min({TIME})")
        rows = f"SELECT *, {last} AS {LAST}, {first} AS {START} FROM ({closed})"
        return f"SELECT *, {LAST}.t AS {END} FROM ({rows})"

    def groups(self, bounded: str) -> str:
        """Return the groups of closed windows, without a shuffle: a window is within one task."""
        window = [END, START, LAST, *self.partition.columns]
        if self.aggregation.is_row_query:
            groups = f"SELECT * FROM ({bounded}) SORT BY {', '.join(window)}, {ORDER}"
        else:
            groups = whole_groups(bounded, self.aggregation, window)
        partition = f"CAST(struct({self.partition.names}) AS STRING)"
        instance = f"concat_ws('|', {LAST}.b, {LAST}.i, {partition})"
        return f"SELECT *, {instance} AS {INSTANCE} FROM ({groups})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedOperator:
    """Windows that depend on the order of rows. See ``Operator``."""

    shape: OrderedRows
    state_schema: StructType

    def ingest(self, arrival: Arrival, io: StateIO) -> Ingested:
        rows, start = arrival.rows, arrival.start
        intake = Intake(shape=self.shape, time=f"IF({KEPT}, {TIME}, NULL)")
        ingested = take_in(self.shape.place(rows, start), intake, start, io)
        # Whether a row is late depends only on its time.
        return replace(ingested, judged=lambda: self.shape.judged(rows, start))

    def close(self, closing: Closing, io: StateIO) -> Closed:
        state = ordered_state(closing, event_time=self.shape.event_time)
        end = closing.drain or (closing.flush and self.shape.scan.flushes)
        if not state.due and not (end and state.carried):
            return Closed(tables=_left(closing, state.waiting, state.carried))
        if end:
            rows = self._rows(state, closing, io, whole=True)
            return self._closed(rows, _left(closing, state.waiting, ()), end=True)
        whole = state.is_small or self.shape.partition.columns == (ALL,)
        rows = self._rows(state, closing, io, whole=whole)
        log, closes = self._log(rows, () if whole else state.carried, closing, io)
        left = _left(closing, state.waiting, log)
        return self._closed(rows, left, end=False) if closes else Closed(tables=left)

    def _log(
        self, rows: DataFrame, carried: tuple[Segment, ...], closing: Closing, io: StateIO
    ) -> tuple[tuple[Segment, ...], bool]:
        """Write the rows to carry over; return the new log, and whether a window closes."""
        scan, anew = self.shape.scan, not carried
        scanned, numbers = observed(
            over(rows, self.shape.scanned(FRAME)),
            {
                "closing": f"count_if({CLOSES})",
                "open": f"count_if({STANDS})",
                "before": f"count_if({STOOD})",
            },
        )
        left = scan.carried(FRAME) if anew else scan.appended(FRAME)
        segment = io.write_counted(
            closing.epoch,
            "log",
            over(scanned, f"SELECT {', '.join(self.shape.names)} FROM ({left})"),
            self.bounds(),
        )
        seen = numbers()
        if segment is None:
            return carried, bool(seen["closing"])
        # The numbers of open windows in the segments of a log add up.
        windows = seen["open"] - (0 if anew else seen["before"])
        return (*carried, replace(segment, windows=windows)), bool(seen["closing"])

    def final_groups(
        self, rows: DataFrame, start: BatchStart, hidden: DataFrame | None = None
    ) -> DataFrame:
        del hidden  # A row is in no window, or in all of its own.
        kept = self.shape.kept(self.shape.place(rows, start)).selectExpr("*", f"true AS {NEW}")
        closed = self.shape.scan.closed(self.shape.scanned(FRAME), end=True)
        return over(kept, self.shape.groups(self.shape.bounded(closed)))

    def merge(
        self,
        segments: DataFrame,
        bound_us: int | None,
        *,
        some_behind: bool = False,
        apart_us: int | None = None,
    ) -> DataFrame:
        return segments if bound_us is None else segments.where(f"{TIME} >= {bound_us}L")

    def apart_us(self, bound_us: int | None) -> int | None:
        return None

    def bounds(self) -> tuple[str, str]:
        return f"min({TIME})", f"max({TIME})"

    @property
    def merges_rows(self) -> bool:
        return False

    @property
    def file_order(self) -> tuple[str, ...]:
        return ()

    def end_of_all(self, tables: Tables) -> int | None:
        return max((segment.last_us + 1 for segment in tables.windows), default=None)

    def is_late(self, bound: str) -> str | None:
        return f"{TIME} < {bound}"

    def closed_before(self, time: str, bound: str) -> str:
        return f"{time} < {bound}"

    def may_close(self, segment: Segment, bound_us: int) -> bool:
        return segment.first_us < bound_us

    def late_windows(self) -> LateWindows:
        return LateWindows(
            windows=f"array(named_struct('start', {TIME}, 'end', {TIME}))", last_end=TIME
        )

    def open_windows(self, state: Manifest) -> int:
        return sum(segment.windows for segment in state.tables.log)

    def _rows(
        self, state: OrderedState, closing: Closing, io: StateIO, *, whole: bool
    ) -> DataFrame:
        """Return the rows released now and the carried ones (all, or of touched partitions)."""
        partition = self.shape.partition.columns
        if partition == (ALL,):
            io.tasks.set(1)
        else:
            io.tasks.set_for([*state.due, *(state.carried if whole else ())])
        frames = []
        if state.due:
            rows = io.read(state.due)
            assert closing.bound_us is not None, "segments are due only if there is a bound"
            rows = rows.where(f"{TIME} < {by_reference(closing.bound_us, TIME)}")
            if self.shape.event_time and closing.before_us is not None:
                rows = rows.where(f"{TIME} >= {by_reference(closing.before_us, TIME)}")
            frames.append(rows.selectExpr("*", f"true AS {NEW}"))
        if state.carried:
            rows = io.read(state.carried)
            rows = rows if whole else touched(rows, frames[0], partition)
            frames.append(rows.selectExpr("*", f"false AS {NEW}"))
        return reduce(lambda some, more: some.unionByName(more), frames)

    def _closed(self, rows: DataFrame, left: Tables, *, end: bool) -> Closed:
        # This scans the rows again after the carried segment was written. Keeping a copy instead
        # would be wasted in most batches, because they close no state window.
        closed = self.shape.scan.closed(self.shape.scanned(FRAME), end=end)
        bounded, numbers = observed(
            over(rows, self.shape.bounded(closed)), {"windows": f"count_if({ORDER} = {LAST})"}
        )
        return Closed(
            tables=left,
            groups=over(bounded, self.shape.groups(FRAME)),
            windows=lambda: int(numbers()["windows"]),
        )


def _left(closing: Closing, waiting: tuple[Segment, ...], log: tuple[Segment, ...]) -> Tables:
    """The state after a close."""
    return replace(closing.tables, windows=waiting, log=log)
