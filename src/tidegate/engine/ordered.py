"""State and count windows: the rows of a partition fall into windows one by one, in their order.

A row *waits* in the segment of its batch until the bound has passed its time. It is then *released*
and joins, in (time, arrival) order, what its partition has *carried*: the rows that a coming window
will show. In processing time no row waits.

    batch rows --> waiting segments --(bound passes _t)--> released --+
                                                                      +--> scan --> closed windows
                   carried segment ----------------------------------+      |
                          ^                                                  v
                          +-------------------------------------------- still open

The scan is a chain of Spark's running window functions over the partition. A close that releases
rows writes the carried segment anew, whole: it costs the open rows of all partitions. One that
releases none touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tidegate.engine.frames import over
from tidegate.engine.ingest import Intake, take_in
from tidegate.engine.observe import observed
from tidegate.engine.operator import END, INSTANCE, START, Closed, Closing, Ingested, LateWindows
from tidegate.engine.partials import KEPT, LAST_CLOCK, LAST_TIME, ROWS, whole_groups
from tidegate.engine.prepare import CLOCK, FATE, fate_case, judge, order_sql, partition_keys
from tidegate.plan.accumulators import ORDER, TIME
from tidegate.plan.settings import TimeMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.manifest import Segment
    from tidegate.engine.prepare import BatchStart
    from tidegate.engine.state import StateStore
    from tidegate.plan.physical import PhysicalAggregation, PhysicalPlan

# The level of the one segment of carried rows: it is written anew, never merged with others.
CARRIED = -1

# BIGINT, the number of a window in its partition; LAST is the order of the row that ended it.
WINDOW, LAST = "_window", "_last"

# BOOLEAN, of a scanned row: a window ends with it; it stands for a window that is still open.
CLOSES, STANDS = "_closes", "_stands"

# The one partition of a window without OVER. A column of the state, because Spark warns in every
# batch of a window function without a partition.
ALL = "_all"

# The rows of a frame, as a statement for ``over``.
FRAME = "TABLE {frame}"

# The frames of a scan.
RUNNING = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


class Scan(Protocol):
    """How the rows of a partition fall into windows; statements (Spark SQL) over statements."""

    @property
    def flushes(self) -> bool:
        """Whether a flush emits what is open."""

    def columns(self) -> Mapping[str, str]:
        """The columns that the scan needs in the state, as Spark SQL over prepared rows."""

    def scanned(self, rows: str, partition: Partition) -> str:
        """Return carried and released rows with ``_closes``, ``_stands`` and columns of its own."""

    def closed(self, scanned: str, *, end: bool) -> str:
        """Return scanned rows once for each closed window they are in, with ``_window``.

        At the end of the stream open windows are among them.
        """

    def carried(self, scanned: str) -> str:
        """Return the scanned rows that a coming window may show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The columns that separate the streams of a window."""

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
    """What a state row is: a whole row with its order, its partition, and what the scan needs."""

    plan: PhysicalPlan
    aggregation: PhysicalAggregation
    scan: Scan

    @property
    def aggregated(self) -> bool:
        return False

    @property
    def partition(self) -> Partition:
        return Partition(columns=partition_keys(self.plan.watermark.window) or (ALL,))

    @property
    def event_time(self) -> bool:
        """Whether rows wait for the watermark."""
        return self.plan.watermark.spec.mode is TimeMode.EVENT

    def judged(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return prepared rows with their fate."""
        late = None
        if self.event_time and start.bound_us is not None:
            late = f"{TIME} < {start.bound_us}L"
        return judge(rows, self.plan, start, fate_case(self.plan, late=late))

    def place(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return the rows of a batch with the columns of the state and those that are counted."""
        columns = {ORDER: order_sql(start), ROWS: "1", LAST_TIME: TIME, LAST_CLOCK: CLOCK}
        columns |= {ALL: "true"} if self.partition.columns == (ALL,) else {}
        columns |= self.scan.columns()
        same = [name for name in (FATE, *self.names) if name not in columns]
        derived = (f"{sql} AS {name}" for name, sql in columns.items())
        return self.judged(rows, start).selectExpr(*same, *derived)

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
        """Return the rows of closed windows with the bounds that the window shows, and ``_last``.

        The order of its last row tells a window from all others: no two end with the same row.
        """
        last, first = self.partition.window(f"max({ORDER})"), self.partition.window(f"min({TIME})")
        rows = f"SELECT *, {last} AS {LAST}, {first} AS {START} FROM ({closed})"
        return f"SELECT *, {LAST}.t AS {END} FROM ({rows})"

    def groups(self, bounded: str) -> str:
        """Return the groups of closed windows. A window is within one task, so nothing moves."""
        window = [END, START, LAST, *self.partition.columns]
        if self.plan.query.is_row_query:
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

    def ingest(
        self, rows: DataFrame, start: BatchStart, state: tuple[Segment, ...], store: StateStore
    ) -> Ingested:
        del state  # Whether a row is late depends on its time alone.
        intake = Intake(shape=self.shape, time=f"IF({KEPT}, {TIME}, NULL)")
        return take_in(self.shape.place(rows, start), intake, start, store)

    def close(self, closing: Closing, store: StateStore) -> Closed:
        carried = tuple(s for s in closing.segments if s.level == CARRIED)
        waiting = _still_waiting(closing)
        end = closing.drain or (closing.flush and self.shape.scan.flushes)
        due = self._due(closing)
        if not due and not (end and carried):
            return Closed(segments=(*waiting, *carried))
        rows = self._released(due, carried, closing, store)
        if end:
            return self._closed(rows, waiting, end=True)
        scanned, numbers = observed(
            over(rows, self.shape.scanned(FRAME)),
            {"closing": f"count_if({CLOSES})", "open": f"count_if({STANDS})"},
        )
        names = ", ".join(self.shape.names)
        left = over(scanned, f"SELECT {names} FROM ({self.shape.scan.carried(FRAME)})")
        segment = store.write_counted(f"{closing.epoch}-carried", CARRIED, left, self.bounds())
        if segment is not None:
            waiting = (*waiting, replace(segment, windows=numbers()["open"]))
        if not numbers()["closing"]:
            return Closed(segments=waiting)
        return self._closed(rows, waiting, end=False)

    def final_groups(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return the groups of all windows of prepared rows, as if the stream ended with them."""
        kept = self.shape.kept(self.shape.place(rows, start))
        closed = self.shape.scan.closed(self.shape.scanned(FRAME), end=True)
        return over(kept, self.shape.groups(self.shape.bounded(closed)))

    def merge(self, segments: DataFrame, bound_us: int | None) -> DataFrame:
        return segments if bound_us is None else segments.where(f"{TIME} >= {bound_us}L")

    def bounds(self) -> tuple[str, str]:
        return f"min({TIME})", f"max({TIME})"

    def end_of_all(self, segments: tuple[Segment, ...]) -> int | None:
        return max((s.last_us + 1 for s in segments if s.level != CARRIED), default=None)

    def judge(
        self, rows: DataFrame, start: BatchStart, written: tuple[Segment, ...], store: StateStore
    ) -> DataFrame:
        del written, store  # A row and the bound say it all.
        return self.shape.judged(rows, start)

    def late_windows(self) -> LateWindows:
        return LateWindows(
            windows=f"array(named_struct('start', {TIME}, 'end', {TIME}))", last_end=TIME
        )

    def open_windows(self, segments: tuple[Segment, ...], bound_us: int | None) -> int:
        del bound_us
        return sum(segment.windows for segment in segments)

    def _due(self, closing: Closing) -> tuple[Segment, ...]:
        """The segments that may hold rows that are released now."""
        bound_us, before_us = closing.bound_us, closing.before_us
        if bound_us is None:
            return ()
        # In processing time a segment is used up by the batch that wrote it.
        after_us = before_us if self.shape.event_time else None
        return tuple(
            segment
            for segment in closing.segments
            if segment.level != CARRIED
            and (segment.first_us if after_us is None else max(segment.first_us, after_us))
            < bound_us
        )

    def _released(
        self,
        due: tuple[Segment, ...],
        carried: tuple[Segment, ...],
        closing: Closing,
        store: StateStore,
    ) -> DataFrame:
        """Return the rows that are released now, and those that are carried."""
        if self.shape.partition.columns == (ALL,):
            store.set_tasks(1)
        else:
            store.set_tasks_for([*due, *carried])
        frames = [store.read_segments(carried, self.state_schema)] if carried else []
        if due:
            rows = store.read_segments(due, self.state_schema).where(
                f"{TIME} < {closing.bound_us}L"
            )
            if self.shape.event_time and closing.before_us is not None:
                rows = rows.where(f"{TIME} >= {closing.before_us}L")
            frames.append(rows)
        return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])

    def _closed(self, rows: DataFrame, left: tuple[Segment, ...], *, end: bool) -> Closed:
        # The rows are scanned once more than the carried segment asked for: most batches of a state
        # window close nothing, and then a copy of them would have been kept for nothing.
        closed = self.shape.scan.closed(self.shape.scanned(FRAME), end=end)
        bounded, numbers = observed(
            over(rows, self.shape.bounded(closed)), {"windows": f"count_if({ORDER} = {LAST})"}
        )
        return Closed(
            segments=left,
            groups=over(bounded, self.shape.groups(FRAME)),
            windows=lambda: int(numbers()["windows"]),
        )


def _still_waiting(closing: Closing) -> tuple[Segment, ...]:
    """The segments that hold rows which are not released yet."""
    return tuple(
        segment
        for segment in closing.segments
        if segment.level != CARRIED
        and (closing.bound_us is None or segment.last_us >= closing.bound_us)
    )
