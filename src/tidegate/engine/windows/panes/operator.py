"""Windows on panes: the operator of tumbling, hopping and cumulating windows.

Job 1 makes partials per pane and group (or keeps the rows, with their pane). A close reads the
panes of the windows that are due, expands each to those windows, and merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial as partial_of
from typing import TYPE_CHECKING

from tidegate.engine.rows.fates import fate_sql, judge
from tidegate.engine.rows.ingest import Intake, shard_columns, take_in
from tidegate.engine.tasks import FEW_ROWS, are_few, tasks_of
from tidegate.engine.windows.operator import Arrival, Closed, Closing, Ingested, LateWindows
from tidegate.engine.windows.panes.grid import PaneGrid, shared_ranges
from tidegate.engine.windows.panes.places import any_behind
from tidegate.engine.windows.panes.quotas import PaneQuotas
from tidegate.engine.windows.state_rows import KEPT
from tidegate.plan.columns import AFTER, END, PANE, TIME
from tidegate.spark.observe import observed
from tidegate.spark.statements import by_reference, is_one_of, over_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.state_rows import Shape
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.state.manifest import Manifest, Segment, Tables


FEW_PANES = 1_000

# Up to this many partials, one task that expands and merges them all is quicker than two tasks with
# an exchange (hopping 60 s by 10 s, 10 K keys: 80 ms less of 800 ms a batch), and quicker than
# separate scans for panes that need merging and panes that do not (tumbling, 100 K: 110 ms less).
FEW_PARTIALS = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneOperator:
    """Windows whose bounds lie on a grid. See ``Operator``."""

    plan: PhysicalPlan
    grid: PaneGrid
    shape: Shape
    state_schema: StructType

    def ingest(self, arrival: Arrival, io: StateIO) -> Ingested:
        # On a grid, lateness of a row does not depend on other rows.
        rows, start = arrival.rows, arrival.start
        start = replace(start, tells_places=self._tells_places and not start.marks_behind)
        bound_us = None if start.marks_behind else start.bound_us
        late = partial = None
        if start.marks_behind and self.shape.keeps_after:
            partial = f"{AFTER} IS NOT NULL"
        if bound_us is not None and self.shape.late_by_pane:
            late = f"{PANE} < {by_reference(self.grid.first_open(bound_us), PANE)}"
        if bound_us is not None and not self.grid.single:
            partial = f"{PANE} < {by_reference(self.grid.first_whole(bound_us), PANE)}"
        others_have_pane = start.tells_places or start.tells_shards
        time = f"IF({KEPT}, {PANE}, NULL)" if others_have_pane else PANE
        intake = Intake(
            shape=self.shape,
            time=time,
            partial=partial,
            late=late,
            is_grouped=self.shape.aggregated,
        )
        more = shard_columns(intake, start)
        placed = self.shape.place(rows, self.plan, self.grid, start, more)
        ingested = take_in(placed, intake, start, io)
        fate = fate_sql(self.plan, self.grid, start)
        ingested = replace(ingested, judged=lambda: judge(rows, self.plan, start, fate))
        if not start.tells_places:
            return ingested
        slack_us = self.plan.watermark.slack_us
        found = partial_of(any_behind, ingested, self.grid, slack_us, io)
        return replace(ingested, any_behind=found)

    @property
    def _tells_places(self) -> bool:
        """Whether job 1 tells if a row is behind: where partials are enough to see it.

        Not over several shards, each with a watermark of its own, and not where some rows do not
        move it.
        """
        spec = self.plan.watermark
        alone = spec.by_record and spec.shard is None and not spec.falls_back
        return alone and self.shape.aggregated

    def close(self, closing: Closing, io: StateIO) -> Closed:
        segments = closing.tables.windows
        due = [segment for segment in segments if self._has_due_window(segment, closing)]
        live = tuple(s for s in segments if self.is_live(s, closing.bound_us))
        left = replace(closing.tables, windows=live)
        if not due:
            return Closed(tables=left)
        assert closing.bound_us is not None, "nothing is due without a bound"
        last_us = max(self.grid.last_end(segment.last_us) for segment in due)
        upto_us = min(last_us, closing.bound_us)
        after_us = min(segment.first_us for segment in due)
        if closing.before_us is not None:
            after_us = max(after_us, closing.before_us)
        hidden = self.quotas.hidden(closing.tables, after_us, io)
        groups, numbers = observed(
            self._groups(due, (after_us, upto_us), io, hidden),
            {"windows": f"collect_set({END})", "groups": "count(1)"},
        )
        return Closed(
            tables=left,
            groups=groups,
            windows=lambda: len(numbers()["windows"]),
            rows=lambda: int(numbers()["groups"]),
        )

    def open_groups(
        self, tables: Tables, panes: tuple[int, int], bound_us: int, io: StateIO
    ) -> DataFrame | None:
        """Return the groups of open windows that hold panes in a range, as far as rows have come.

        None: there is no such window.
        """
        after_us = max(bound_us, self.grid.next_end(panes[0]) - 1)
        upto_us = self.grid.last_end(panes[1])
        needed = [
            segment
            for segment in tables.windows
            if segment.first_us < upto_us and self.grid.last_end(segment.last_us) > after_us
        ]
        if after_us >= upto_us or not needed:
            return None
        hidden = self.quotas.hidden(tables, after_us, io)
        return self._groups(needed, (after_us, upto_us), io, hidden)

    def _groups(
        self,
        due: list[Segment],
        ends: tuple[int, int],
        io: StateIO,
        hidden: DataFrame | None = None,
    ) -> DataFrame:
        """Return the groups of windows with an end in ``(after_us, upto_us]``.

        The pane of a tumbling window that occurs in only one segment needs no merging: the segment
        has one row for each of its groups. In a large batch that is true of most panes. So unless
        there are few rows, rows of these panes are not shuffled, and only rows of the other panes,
        at the edges of segments, are merged.

        Args:
            due: the segments.
            ends: the range of ends.
            io: the state.
            hidden: the windows and groups that a quota keeps out; None: there are none.
        """
        after_us, upto_us = ends
        io.tasks.set_for(due)
        few = FEW_PARTIALS if self.shape.aggregated else FEW_ROWS
        state = io.read(due, few)
        panes = self._panes_due(after_us, upto_us)
        if not panes or not self.shape.aggregated or are_few(due, few):
            windows = self.due_windows("{state}", after_us, upto_us)
            frames = {"state": state}
            if hidden is not None:
                frames["hidden"] = hidden
                windows = self.quotas.without(windows, "{hidden}")
            if not are_few(due, few):
                # Literals, which let Parquet skip what they exclude; see ``by_reference``.
                reach = f"{PANE} > {after_us - self.grid.size_us}L AND {PANE} < {upto_us}L"
                frames["state"] = state.where(reach)
            return over_all(frames, self.shape.groups(self.quotas.within(windows), self.grid))
        ranges = shared_ranges((segment.first_us, segment.last_us) for segment in due)
        shared = [p for p in panes if any(first <= p <= last for first, last in ranges)]
        alone = sorted(set(panes) - set(shared))
        frames, parts = {}, []
        if alone:
            frames["alone"] = state
            parts.append(self.shape.whole(self._windows_of(alone, "{alone}"), self.grid))
        if shared:
            shares = [(self._share_within(ranges, segment), segment) for segment in due]
            tasks = tasks_of(
                sum(share * segment.rows for share, segment in shares),
                sum(share * segment.bytes for share, segment in shares),
            )
            frames["shared"] = state.coalesce(1) if tasks == 1 else state
            parts.append(self.shape.groups(self._windows_of(shared, "{shared}"), self.grid))
        return over_all(frames, " UNION ALL ".join(parts))

    def _share_within(self, ranges: Sequence[tuple[int, int]], segment: Segment) -> float:
        """An estimate of the share of a segment's rows that belong to panes in the ranges."""
        span_us = segment.last_us - segment.first_us + self.grid.pane_us
        covered_us = sum(
            max(0, min(last, segment.last_us) - max(first, segment.first_us) + self.grid.pane_us)
            for first, last in ranges
        )
        return min(1.0, covered_us / span_us)

    def due_windows(self, state: str, after_us: int | None, upto_us: int | None) -> str:
        """Return the statement of state rows, once for each window that contains them.

        ``_end_us`` is the end of the window. It covers only windows with an end in ``(after_us,
        upto_us]``; None means no bound.
        """
        first, last = self.grid.first_end_sql(PANE), self.grid.last_end_sql(PANE)
        if self.shape.keeps_after:
            first = f"greatest({first}, {AFTER} + {self.grid.stride_us}L)"
        conditions = []
        if after_us is not None:
            first = f"greatest({first}, {by_reference(self.grid.next_end(after_us), PANE)})"
            conditions.append(f"{PANE} > {by_reference(after_us - self.grid.size_us, PANE)}")
        if upto_us is not None:
            latest = self.grid.next_end(upto_us) - self.grid.stride_us
            last = f"least({last}, {by_reference(latest, PANE)})"
            conditions.append(f"{PANE} <= {by_reference(upto_us - self.grid.pane_us, PANE)}")
        if not self.grid.single:
            conditions.append(f"{first} <= {last}")
        elif after_us is not None and upto_us is not None:
            panes = self._panes_due(after_us, upto_us)
            conditions = [is_one_of(PANE, panes)] if panes else conditions
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        end = f"explode(sequence({first}, {last}, {self.grid.stride_us}L))"
        if self.grid.single:
            end = self.grid.first_end_sql(PANE)
        return f"SELECT *, {end} AS {END} FROM {state}{where}"

    @property
    def quotas(self) -> PaneQuotas:
        """What quotas ask of the windows."""
        return PaneQuotas(operator=self)

    def _windows_of(self, panes: Sequence[int], state: str) -> str:
        """``due_windows`` for given panes, on a grid where each pane is one window."""
        end = self.grid.first_end_sql(PANE)
        return f"SELECT *, {end} AS {END} FROM {state} WHERE {is_one_of(PANE, panes)}"

    def _panes_due(self, after_us: int, upto_us: int) -> Sequence[int]:
        """The panes of tumbling windows with an end in ``(after_us, upto_us]``, if they are few."""
        first_us = self.grid.next_end(after_us) - self.grid.size_us
        panes = range(first_us, upto_us - self.grid.size_us + 1, self.grid.pane_us)
        return panes if self.grid.single and len(panes) <= FEW_PANES else ()

    def merge(
        self,
        segments: DataFrame,
        bound_us: int | None,
        *,
        some_behind: bool = False,
        apart_us: int | None = None,
    ) -> DataFrame:
        if bound_us is not None:
            first = self.grid.first_open(bound_us)
            segments = segments.where(f"{PANE} >= {by_reference(first, PANE)}")
            if self.shape.keeps_after:
                # What has closed for all rows need not be told.
                told = f"IF({AFTER} > {by_reference(bound_us, PANE)}, {AFTER}, NULL) AS {AFTER}"
                names = (told if name == AFTER else name for name in segments.columns)
                segments = segments.selectExpr(*names)
        return self.shape.merge(segments)

    def apart_us(self, bound_us: int | None) -> int | None:
        return None

    def bounds(self) -> tuple[str, str]:
        return f"min({PANE})", f"max({PANE})"

    @property
    def merges_rows(self) -> bool:
        return self.shape.aggregated

    @property
    def file_order(self) -> tuple[str, ...]:
        # A close reads the pages of the panes that are due, not all that are open.
        return (PANE,)

    def end_of_all(self, tables: Tables) -> int | None:
        ends = (self.grid.last_end(segment.last_us) for segment in tables.windows)
        return max(ends, default=None)

    def is_late(self, bound: str) -> str | None:
        return f"{self.grid.last_end_sql(self.grid.pane_sql(TIME))} <= {bound}"

    def closed_before(self, time: str, bound: str) -> str:
        return f"{self.grid.first_end_sql(self.grid.pane_sql(time))} <= {bound}"

    def may_close(self, segment: Segment, bound_us: int) -> bool:
        return self.grid.next_end(segment.first_us) <= bound_us

    def late_windows(self) -> LateWindows:
        pane = self.grid.pane_sql(TIME)
        first, last = self.grid.first_end_sql(pane), self.grid.last_end_sql(pane)
        start = self.grid.start_of_end_sql("e")
        return LateWindows(
            windows=(
                f"transform(sequence({first}, {last}, {self.grid.stride_us}L), "
                f"e -> named_struct('start', {start}, 'end', e))"
            ),
            last_end=last,
        )

    def open_windows(self, state: Manifest) -> int:
        last_us = self.end_of_all(state.tables)
        if last_us is None:
            return 0
        after_us = min(segment.first_us for segment in state.tables.windows)
        if state.bound_us is not None:
            after_us = max(after_us, state.bound_us)
        return max(0, (last_us - self.grid.next_end(after_us)) // self.grid.stride_us + 1)

    def final_groups(
        self, rows: DataFrame, start: BatchStart, hidden: DataFrame | None = None
    ) -> DataFrame:
        frames = {"state": self.shape.kept(self.shape.place(rows, self.plan, self.grid, start))}
        windows = self.due_windows("{state}", None, None)
        if hidden is not None:
            frames["hidden"] = hidden
            windows = self.quotas.without(windows, "{hidden}")
        return over_all(frames, self.shape.groups(self.quotas.within(windows), self.grid))

    def _has_due_window(self, segment: Segment, closing: Closing) -> bool:
        """Whether a window with a pane within the segment's bounds may close now."""
        if closing.bound_us is None:
            return False
        after_us = segment.first_us
        if closing.before_us is not None:
            after_us = max(after_us, closing.before_us)
        first_end_us = self.grid.next_end(after_us)
        return first_end_us <= min(closing.bound_us, self.grid.last_end(segment.last_us))

    def is_live(self, segment: Segment, bound_us: int | None) -> bool:
        return bound_us is None or self.grid.last_end(segment.last_us) > bound_us
