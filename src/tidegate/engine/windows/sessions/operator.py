"""Session windows: rows of a key form a session while they are at most the gap apart.

A *span* is a part of a session: its first and last time (``_first``, ``_last``) and what the state
keeps of its rows. All rows of a key within a bucket as wide as the gap are one span, so job 1 only
groups by (key, bucket): no state is read, nothing is sorted. Spans are joined to sessions
(*chained*) when they are due.

    gap 10    bucket  |0        |10       |20       |30       |40
    rows                 4   8   11    17               35
    spans               [4 8]   [11   17]              [35]
    sessions            [4             17]  + gap      [35]  + gap

The state has no entry for a whole session, yet a close need not read all spans: a span is *due*
when its own ``_last + gap`` is behind the bound, and a session is due exactly when all of its spans
are. So a close reads the spans that are due, and only keys and times of others that may touch them.
A due span whose session is still open is rewritten with its end extended to the session's last
known row; the old copy lies behind the bound and is ignored.

Late rows are found in the same way: a row is late if every span of its session, after batch and
state are chained, was due before the batch. A row whose own span was due is a *suspect*; only a
batch with suspects reads state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.rows.fates import Fate, fate_case, judge
from tidegate.engine.rows.ingest import Intake, take_in
from tidegate.engine.windows.operator import Arrival, Closed, Closing, Ingested, LateWindows
from tidegate.engine.windows.sessions.ahead import Outlook
from tidegate.engine.windows.sessions.chains import FIRST, LAST
from tidegate.engine.windows.sessions.due import DueSpans, Foresight
from tidegate.engine.windows.sessions.quotas import SessionQuotas
from tidegate.engine.windows.sessions.ranges import (
    before,
    between,
    ends_before,
    open_from,
    reaching,
)
from tidegate.engine.windows.sessions.record import Followed
from tidegate.engine.windows.sessions.settling import Live, Settling
from tidegate.engine.windows.sessions.spans import LAST_TIME, SessionShape
from tidegate.engine.windows.state_rows import KEPT
from tidegate.plan.columns import FATE, IS_LATE, TIME
from tidegate.plan.time_columns import GREATEST_TIME_US
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.state.manifest import Manifest, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOperator:
    """Windows that end when a key has no rows for the gap. See ``Operator``."""

    plan: PhysicalPlan
    gap_us: int
    shape: SessionShape
    state_schema: StructType
    foresight: Foresight = field(default_factory=Foresight, compare=False)
    outlook: Outlook = field(default_factory=Outlook, compare=False)

    def ingest(self, arrival: Arrival, io: StateIO) -> Ingested:
        start = arrival.start
        if start.marks_behind and not start.is_followed:
            arrival = self._followed(arrival, io)
        return self._taken_in(arrival, io)

    def _followed(self, arrival: Arrival, io: StateIO) -> Arrival:
        """Return a batch of which some rows are behind, with those marked that are late."""
        start = arrival.start
        open_ = self._open(arrival.tables.windows, start.bound_us)
        spans = self._read_open(open_, start.bound_us, io) if open_ else None
        verdicts = self._following.verdicts(arrival, spans, start.bound_us, io)
        marked = self._following.marked(arrival.rows, verdicts, io)
        return replace(arrival, rows=marked, start=replace(start, is_followed=True))

    @property
    def _following(self) -> Followed:
        return Followed(
            plan=self.plan, gap_us=self.gap_us, shape=self.shape, schema=self.state_schema
        )

    @property
    def _settling(self) -> Settling:
        return Settling(
            gap_us=self.gap_us,
            shape=self.shape,
            schema=self.state_schema,
            following=self._following,
            foresight=self.foresight,
            outlook=self.outlook,
        )

    def _taken_in(self, arrival: Arrival, io: StateIO) -> Ingested:
        start = arrival.start
        placed, is_grouped = self._placed(arrival, io)
        suspect = None
        if start.bound_us is not None:
            suspect = ends_before(LAST_TIME, start.bound_us - self.gap_us)
        # A row has only one window, so the count of partially late rows is free for the suspects.
        intake = Intake(
            shape=self.shape,
            time=f"IF({KEPT}, {LAST_TIME}, NULL)",
            partial=suspect,
            is_grouped=is_grouped,
        )
        ingested = take_in(placed, intake, start, io)
        if is_grouped:
            spans = sum(segment.rows for segment in ingested.segments)
            io.tasks.note_groups(ingested.counts.accumulated, spans)
        if not ingested.counts.partial:
            return replace(ingested, judged=lambda: self._judged(arrival, None, io))
        if self.plan.watermark.by_record and not start.is_followed:
            # A suspect is behind, so the batch is taken in again.
            return replace(ingested, some_behind=True)
        return self._settled(ingested, arrival, io)

    def _placed(self, arrival: Arrival, io: StateIO) -> tuple[DataFrame, bool]:
        """Return the spans of a batch, and whether rows have been grouped to make them."""
        if not self.shape.aggregated or not (self._counts_spans or io.tasks.is_grouping_worth()):
            spans = self.shape.of_rows(arrival.rows, self.plan, arrival.start, self.state_schema)
            if spans is not None:
                return spans, False
        return self.shape.place(arrival.rows, self.plan, arrival.start), self.shape.aggregated

    @property
    def _counts_spans(self) -> bool:
        """Whether a quota asks how many spans there are, so that they should be few."""
        return self.plan.max_groups is not None or self.plan.max_rows is not None

    def _settled(self, ingested: Ingested, arrival: Arrival, io: StateIO) -> Ingested:
        """Chain the suspects of a batch with its other rows and with open sessions of the state.

        Both those that join an open session and the late ones are rewritten; ``_judged`` reads the
        late ones, and the close of this batch drops them.
        """
        start = arrival.start
        assert start.bound_us is not None, "there are no suspects without a bound"
        (batch,) = ingested.segments
        due_us = start.bound_us - self.gap_us
        open_ = reaching(arrival.tables.windows, due_us)
        if start.is_followed:
            spans = io.read([batch])
            if open_:
                spans = spans.unionByName(open_from(io.read(open_), due_us))
            live = Live(spans=spans, segments=(batch, *open_), bound_us=start.bound_us)
            behind = [each for each in live.segments if each.came_behind(start.bound_us)]
            settled = self._settling.of_followed(start.epoch, live, behind, due_us, io)
        else:
            suspects = before(io.read([batch]), due_us, [batch])
            due = DueSpans(spans=suspects, segments=(batch,), due_us=due_us)
            may_touch = reaching((batch, *arrival.tables.windows), due_us)
            settled = self._settling.of_due(start.epoch, due, may_touch, io)
        counts = ingested.counts
        late = settled.ended_rows
        counts = replace(
            counts, accumulated=counts.accumulated - late, late=counts.late + late, partial=0
        )
        (batch,) = settled.tightened([batch])
        return replace(
            ingested,
            segments=(batch, settled.segment),
            counts=counts,
            judged=lambda: self._judged(arrival, settled.written, io),
            some_behind=True,
        )

    def close(self, closing: Closing, io: StateIO) -> Closed:
        if closing.bound_us is None:
            return Closed(tables=closing.tables)
        due_us = closing.bound_us - self.gap_us
        due, open_ = self._due(closing, due_us), reaching(closing.tables.windows, due_us)
        if not due:
            return Closed(tables=replace(closing.tables, windows=open_))
        live = self._open(closing.tables.windows, closing.before_us)
        behind = [segment for segment in live if segment.came_behind(closing.before_us)]
        if behind:
            spans = self._read_open(live, closing.before_us, io)
            all_live = Live(spans=spans, segments=live, bound_us=closing.before_us)
            settled = self._settling.of_followed(closing.epoch, all_live, behind, due_us, io)
        else:
            spans, from_us = io.read(due), None
            if closing.before_us is None:
                spans = before(spans, due_us, due)
            else:
                from_us = closing.before_us - self.gap_us
                spans = between(spans, from_us, due_us, due)
            due_spans = DueSpans(spans=spans, segments=due, due_us=due_us, from_us=from_us)
            settled = self._settling.of_due(closing.epoch, due_spans, open_, io, looks_ahead=True)
        open_ = settled.tightened(open_)
        carried = (settled.segment,) if settled.segment.rows else ()
        left = replace(closing.tables, windows=(*open_, *carried))
        if not settled.ended:
            return Closed(tables=left)
        ended = io.read([settled.written])
        return Closed(
            tables=left,
            groups=self.shape.groups(before(ended, due_us)),
            windows=lambda: settled.ended,
            rows=(lambda: settled.ended) if self.shape.aggregated else None,
        )

    @property
    def quotas(self) -> SessionQuotas:
        """What quotas ask of sessions."""
        return SessionQuotas(
            plan=self.plan, gap_us=self.gap_us, keys=self.shape.keys, schema=self.state_schema
        )

    def final_groups(
        self, rows: DataFrame, start: BatchStart, hidden: DataFrame | None = None
    ) -> DataFrame:
        del hidden  # A row is in no window, or in all of its own.
        spans = self.shape.kept(self.shape.place(rows, self.plan, start))
        return self.shape.groups(self.shape.chained(spans, None))

    def merge(
        self,
        segments: DataFrame,
        bound_us: int | None,
        *,
        some_behind: bool = False,
        apart_us: int | None = None,
    ) -> DataFrame:
        if bound_us is not None:
            segments = segments.where(f"{LAST} >= {bound_us - self.gap_us}L")
        # Where sessions may have parted, it matters which spans came first.
        if some_behind:
            return segments
        if apart_us is None:
            return self.shape.merge(segments)
        # A close that finds a span due, in a session that is still open, writes the span anew.
        due = f"{LAST} < {apart_us - self.gap_us}L"
        return self.shape.merge(segments.where(f"NOT ({due})")).unionByName(segments.where(due))

    def apart_us(self, bound_us: int | None) -> int | None:
        # Rows that come behind later may show that sessions have parted.
        if bound_us is None or self.plan.watermark.by_record:
            return GREATEST_TIME_US
        return bound_us + self.gap_us // 2

    def bounds(self) -> tuple[str, str]:
        return f"min({LAST})", f"max({LAST})"

    @property
    def merges_rows(self) -> bool:
        return self.shape.aggregated

    @property
    def file_order(self) -> tuple[str, ...]:
        # A close reads the pages of spans that end about when it is due, not all that are open.
        return (LAST,)

    def end_of_all(self, tables: Tables) -> int | None:
        last_us = max((segment.last_us for segment in tables.windows), default=None)
        # A row exactly the gap later still belongs to it, so a session ends a microsecond later.
        return None if last_us is None else last_us + self.gap_us + 1

    def _judged(self, arrival: Arrival, suspects: Segment | None, io: StateIO) -> DataFrame:
        """Return prepared rows with their fate, and with the bounds of a late row's session.

        ``_first`` and ``_last`` are NULL for other rows. ``suspects`` is the segment of suspects
        after chaining, None if there were none.
        """
        start = arrival.start
        if start.is_followed:
            fate = fate_case(self.plan, start, late=IS_LATE)
            # A late row is in no session: it would have begun one.
            return judge(arrival.rows, self.plan, start, fate).selectExpr(
                "*", f"{TIME} AS {FIRST}", f"{TIME} AS {LAST}"
            )
        judged = judge(arrival.rows, self.plan, start, fate_case(self.plan, start, late=None))
        if start.bound_us is None or suspects is None:
            return judged.selectExpr("*", *(f"CAST(NULL AS BIGINT) AS {c}" for c in (FIRST, LAST)))
        keys = {key: f"_late{key}" for key in self.shape.keys}
        late = (
            io.read([suspects])
            .where(f"{LAST} < {start.bound_us - self.gap_us}L")
            .selectExpr(*(f"{key} AS {name}" for key, name in keys.items()), FIRST, LAST)
            .distinct()
        )
        same = " AND ".join(
            [
                f"{FATE} = {Fate.ACCUMULATED.value}",
                *(f"{key} <=> {name}" for key, name in keys.items()),
                f"_t BETWEEN {FIRST} AND {LAST}",
            ]
        )
        joined = judged.join(late, on=functions.expr(same), how="left")
        fate = f"IF({LAST} IS NULL, {FATE}, {Fate.LATE.value}) AS {FATE}"
        others = [column for column in judged.columns if column != FATE]
        return joined.selectExpr(*others, fate, FIRST, LAST)

    def is_late(self, bound: str) -> str | None:
        return None

    def closed_before(self, time: str, bound: str) -> str:
        return f"{time} < {bound}"

    def may_close(self, segment: Segment, bound_us: int) -> bool:
        # The first row of a span is at most the gap before its last one.
        return segment.first_us - self.gap_us < bound_us

    def late_windows(self) -> LateWindows:
        end = f"({LAST} + {self.gap_us}L)"
        return LateWindows(
            windows=f"array(named_struct('start', {FIRST}, 'end', {end}))", last_end=end
        )

    def open_windows(self, state: Manifest) -> int:
        """An upper bound: each span may be a session of its own."""
        segments = state.tables.windows
        if state.bound_us is not None:
            segments = reaching(segments, state.bound_us - self.gap_us)
        return sum(segment.rows for segment in segments)

    def _open(self, segments: Sequence[Segment], bound_us: int | None) -> tuple[Segment, ...]:
        """The segments that, by their bounds, hold spans of sessions that are open at a bound."""
        return tuple(segments if bound_us is None else reaching(segments, bound_us - self.gap_us))

    def _read_open(
        self, segments: Sequence[Segment], bound_us: int | None, io: StateIO
    ) -> DataFrame:
        """Return the spans of sessions that are open at a bound."""
        spans = io.read(segments)
        return spans if bound_us is None else open_from(spans, bound_us - self.gap_us)

    def _due(self, closing: Closing, due_us: int) -> list[Segment]:
        """The segments that, by their bounds, hold spans that became due since the last step."""
        segments = closing.tables.windows
        if closing.before_us is not None:
            segments = reaching(segments, closing.before_us - self.gap_us)
        return [segment for segment in segments if segment.first_us < due_us]
