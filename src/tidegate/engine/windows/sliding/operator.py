"""Sliding windows: each triggering row has a window of the rows around it.

    lookback 10, lookahead 5, a trigger at 20:

    rows        8   11    16     20   23      27
    window         [10           20      25]

A window is emitted at once (its lookahead is 0 then) or when time has passed its end. Rows stay in
the state as long as a window can still reach them. A pending window is just its triggering row: it
is due in the one step whose bound passes its end, so no row has to be marked as emitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.engine.rows.fates import fate_case, judge, order_sql
from tidegate.engine.rows.ingest import Intake, take_in
from tidegate.engine.windows.operator import Arrival, Closed, Closing, Ingested, LateWindows
from tidegate.engine.windows.sliding.range_frames import FramedRows, framed_rows
from tidegate.engine.windows.sliding.range_join import (
    STARTS,
    Due,
    JoinedRows,
    Reach,
    SlidingShape,
    WindowCounter,
)
from tidegate.engine.windows.state_rows import KEPT, row_numbers, shard_of_row
from tidegate.plan.columns import AFTER, BEHIND, FATE, ORDER, TIME, WHEN
from tidegate.plan.settings import TimeMode
from tidegate.plan.stages import IngestPartials, IngestRows
from tidegate.spark.statements import by_reference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.windows import Sliding
    from tidegate.state.manifest import Manifest, Segment, Tables

# To compute the window of a row takes as long as to merge so many partials.
WEIGHT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingOperator:
    """Windows around the rows that trigger them. See ``Operator``.

    ``at_once``: windows do not wait for the watermark.
    """

    plan: PhysicalPlan
    reach: Reach
    at_once: bool
    shape: SlidingShape
    state_schema: StructType

    def ingest(self, arrival: Arrival, io: StateIO) -> Ingested:
        rows, start = arrival.rows, arrival.start
        bound = None if self._by_clock else start.bound_sql()
        late = self._is_late(bound)
        intake = Intake(
            shape=self.shape,
            time=f"IF({KEPT}, {TIME}, NULL)",
            late=None if start.marks_behind else late,
            partial=self._own_has_closed(AFTER if start.marks_behind else bound),
        )
        ingested = take_in(self._place(rows, start), intake, start, io)
        # Lateness of a row does not depend on other rows.
        fate = self._fate(start, late)
        return replace(ingested, judged=lambda: judge(rows, self.plan, start, fate))

    def close(self, closing: Closing, io: StateIO) -> Closed:
        segments = closing.tables.windows
        live = tuple(s for s in segments if self._is_live(s, closing.bound_us))
        left = replace(closing.tables, windows=live)
        due = self._due(closing)
        if due is None:
            return Closed(tables=left)
        first_us, last_us = self.reach.span(*due.bounds)
        needed = [s for s in segments if s.first_us <= last_us and s.last_us >= first_us]
        ends_from_us = due.bounds[0] + self.reach.lookahead_us
        if any(segment.came_behind(ends_from_us) for segment in needed):
            due = replace(due, some_came_after=True)
        io.tasks.set_for(needed, WEIGHT)
        counter = WindowCounter()
        groups = self.shape.windows(needed, due, io, counter.watch)
        rows = counter.count if self.shape.own_group else None
        return Closed(tables=left, groups=groups, windows=counter.count, rows=rows)

    def final_groups(
        self, rows: DataFrame, start: BatchStart, hidden: DataFrame | None = None
    ) -> DataFrame:
        del hidden  # A row is in no window, or in all of its own.
        kept = self.shape.kept(self._place(rows, start))
        return self.shape.windows_of(kept, Due(condition=STARTS), lambda windows: windows)

    def merge(
        self,
        segments: DataFrame,
        bound_us: int | None,
        *,
        some_behind: bool = False,
        apart_us: int | None = None,
    ) -> DataFrame:
        if bound_us is not None:
            segments = segments.where(f"{TIME} >= {self._needed_from(bound_us)}L")
        return self.shape.merge(segments)

    def apart_us(self, bound_us: int | None) -> int | None:
        return None

    def bounds(self) -> tuple[str, str]:
        return f"min({TIME})", f"max({TIME})"

    @property
    def merges_rows(self) -> bool:
        return False

    @property
    def file_order(self) -> tuple[str, ...]:
        return self.shape.file_order

    def end_of_all(self, tables: Tables) -> int | None:
        if self.at_once:
            return None
        ends = (self._closes_at(segment.last_us) for segment in tables.windows)
        return max(ends, default=None)

    def closed_before(self, time: str, bound: str) -> str:
        return f"{time} < {bound}"

    def may_close(self, segment: Segment, bound_us: int) -> bool:
        return segment.first_us < bound_us

    def late_windows(self) -> LateWindows:
        start, end = f"{TIME} - {self.reach.lookback_us}L", f"{TIME} + {self.reach.lookahead_us}L"
        return LateWindows(
            windows=f"array(named_struct('start', {start}, 'end', {end}))",
            # Until then the row could still have been in another row's window.
            last_end=f"({TIME} + {self.reach.us}L)",
        )

    def open_windows(self, state: Manifest) -> int:
        """The rows whose windows may be pending: an upper bound, because WHEN is ignored."""
        if self.at_once:
            return 0
        bound_us = state.bound_us
        return sum(
            segment.rows
            for segment in state.tables.windows
            if bound_us is None or self._closes_at(segment.last_us) > bound_us
        )

    def _place(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return the state rows of a batch with their fate and the columns for counting.

        This includes late rows, which no window uses; so the text is the same for every batch.
        """
        late, after = None, "CAST(NULL AS BIGINT)"
        starts = f"coalesce({WHEN}, false)" if WHEN in rows.columns else "true"
        if start.marks_behind:
            late, after = self._is_late(BEHIND), BEHIND
            starts = f"({starts} AND NOT coalesce({self._own_has_closed(BEHIND)}, false))"
        judged = judge(rows, self.plan, start, self._fate(start, late))
        ingest = self.plan.ingest
        return judged.selectExpr(
            TIME,
            FATE,
            f"{order_sql(start)} AS {ORDER}",
            f"{starts} AS {STARTS}",
            *([f"{after} AS {AFTER}"] if self.reach.keeps_after else []),
            *self.reach.partition,
            *(key.name for key in ingest.keys),
            *(argument.name for argument in ingest.arguments),
            *(f"{sql} AS {name}" for name, sql in row_numbers(self.plan).items()),
            *shard_of_row(start),
        )

    def _fate(self, start: BatchStart, late: str | None) -> str:
        return fate_case(self.plan, start, late=late)

    def is_late(self, bound: str) -> str | None:
        return f"{TIME} < {bound} - {self.reach.us}L"

    def _is_late(self, bound: str | None) -> str | None:
        """The condition that no window can contain the row any more; None: that is impossible."""
        return None if bound is None else self.is_late(bound)

    def _own_has_closed(self, bound: str | None) -> str | None:
        """The condition that a row is too late for its own window; None: that is impossible."""
        return None if bound is None else f"{TIME} < {bound} - {self.reach.lookahead_us}L"

    def _due(self, closing: Closing) -> Due | None:
        """The triggers whose windows are emitted now; None if the state's bounds rule out any."""
        segments = closing.tables.windows
        fresh = [segment for segment in segments if segment.name in closing.fresh]
        candidates = fresh if self.at_once else segments
        if not candidates or (closing.bound_us is None and not self.at_once):
            return None
        first_us = min(segment.first_us for segment in candidates)
        last_us = max(segment.last_us for segment in candidates)
        conditions = [STARTS]
        of_this_batch = f"{ORDER}.b = {by_reference(closing.epoch, TIME)}"
        if self.at_once:
            conditions.append(of_this_batch)
        elif closing.bound_us is not None:
            last_us = min(last_us, self._opens_from(closing.bound_us) - 1)
            conditions.append(f"{TIME} <= {by_reference(last_us, TIME)}")
        if closing.before_us is not None and not (self.at_once and self._by_clock):
            from_us = self._opens_from(closing.before_us)
            pending = f"{TIME} >= {by_reference(from_us, TIME)}"
            first_us = max(first_us, from_us)
            if self._by_clock and fresh:
                # A second batch with the same clock may bring triggers that are already due.
                pending = f"({pending} OR {of_this_batch})"
                first_us = min(first_us, *(segment.first_us for segment in fresh))
            conditions.append(pending)
        if not any(s.first_us <= last_us and s.last_us >= first_us for s in candidates):
            return None
        return Due(
            condition=" AND ".join(conditions),
            first_us=first_us,
            last_us=last_us,
        )

    def _opens_from(self, bound_us: int) -> int:
        """The least time of a trigger whose window is still open at a bound."""
        return bound_us - self.reach.lookahead_us

    @property
    def _by_clock(self) -> bool:
        return self.plan.watermark.mode is TimeMode.PROCESSING

    def _closes_at(self, time_us: int) -> int:
        """The bound at which the window of a trigger closes; the window includes its end."""
        return time_us + self.reach.lookahead_us + 1

    def _needed_from(self, bound_us: int) -> int:
        """The least time of a row that a window still to come can reach.

        In processing time more rows may come with the time just before the bound.
        """
        return bound_us - self.reach.us - (1 if self._by_clock else 0)

    def _is_live(self, segment: Segment, bound_us: int | None) -> bool:
        return bound_us is None or segment.last_us >= self._needed_from(bound_us)


def sliding_operator(plan: PhysicalPlan, window: Sliding, empty: DataFrame) -> SlidingOperator:
    """Return the operator of a sliding window.

    Args:
        plan: a plan of such a window.
        window: the window.
        empty: a static frame with the prepared columns and no rows.
    """
    reach = Reach(
        lookback_us=window.lookback_us,
        lookahead_us=window.lookahead_us,
        partition=tuple(window.partition_keys),
        keeps_after=plan.watermark.by_record,
    )
    shape = _shape(plan, window, reach, empty)
    at_once = not plan.watermark.emit_on_close
    return SlidingOperator(
        plan=plan, reach=reach, at_once=at_once, shape=shape, state_schema=shape.state_schema
    )


def _shape(
    plan: PhysicalPlan, window: Sliding, reach: Reach, empty: DataFrame
) -> JoinedRows | FramedRows:
    order = "named_struct('t', 0L, 'b', 0L, 'i', 0L)"
    after = f"CAST(NULL AS BIGINT) AS {AFTER}"
    rows = empty.selectExpr("*", f"{order} AS {ORDER}", f"true AS {STARTS}", f"0 AS {FATE}", after)
    match plan.ingest:
        case IngestPartials() as partials:
            return framed_rows(partials, window, reach, rows)
        case IngestRows() as kept:
            joined = JoinedRows(reach=reach, aggregation=kept, state_schema=rows.schema)
            return replace(joined, state_schema=joined.kept(rows).schema)
