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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.rows.ingest import Intake, take_in
from tidegate.engine.rows.prepare import Fate, fate_case, judge
from tidegate.engine.windows.operator import Arrival, Closed, Closing, Ingested, LateWindows
from tidegate.engine.windows.sessions.quotas import SessionQuotas
from tidegate.engine.windows.sessions.record import Followed
from tidegate.engine.windows.sessions.spans import FIRST, LAST, LAST_TIME, SESSIONS, SessionShape
from tidegate.engine.windows.state_rows import KEPT
from tidegate.plan.columns import FATE, IS_LATE, ROWS, TIME
from tidegate.spark.observe import observed
from tidegate.spark.statements import by_reference
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.prepare import BatchStart
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

    def ingest(self, arrival: Arrival, io: StateIO) -> Ingested:
        if arrival.start.marks_behind and not arrival.start.has_parts:
            return self._followed(arrival, io)
        return self._taken_in(arrival, None, io)

    def _followed(self, arrival: Arrival, io: StateIO) -> Ingested:
        """Take in rows of which some are behind: which are late, and which sessions have parted."""
        start, spans = arrival.start, None
        if start.bound_us is not None:
            open_ = _reaching(arrival.tables.windows, start.bound_us - self.gap_us)
            spans = _from(io.read(open_), start.bound_us - self.gap_us) if open_ else None
        verdicts = self._following.verdicts(arrival, spans, io)
        marked = self._following.marked(arrival, verdicts, io)
        arrival = replace(arrival, rows=marked, start=replace(start, has_parts=True))
        return replace(self._taken_in(arrival, verdicts, io), verdicts=verdicts)

    @property
    def _following(self) -> Followed:
        return Followed(
            plan=self.plan, gap_us=self.gap_us, keys=self.shape.keys, schema=self.state_schema
        )

    def _taken_in(self, arrival: Arrival, verdicts: Segment | None, io: StateIO) -> Ingested:
        start = arrival.start
        placed = self.shape.place(arrival.rows, self.plan, start)
        suspect = None
        if start.bound_us is not None:
            suspect = _ends_before(LAST_TIME, start.bound_us - self.gap_us)
        # A row has only one window, so the count of partially late rows is free for the suspects.
        intake = Intake(shape=self.shape, time=f"IF({KEPT}, {LAST_TIME}, NULL)", partial=suspect)
        ingested = take_in(placed, intake, start, io)
        if not ingested.counts.partial:
            return replace(ingested, judged=lambda: self._judged(arrival, None, io))
        return self._settled(ingested, arrival, verdicts, io)

    def _settled(
        self, ingested: Ingested, arrival: Arrival, verdicts: Segment | None, io: StateIO
    ) -> Ingested:
        """Chain the suspects of a batch with its other rows and with open sessions of the state.

        Both those that join an open session and the late ones are rewritten; ``_judged`` reads the
        late ones, and the close of this batch drops them.
        """
        start = arrival.start
        assert start.bound_us is not None, "there are no suspects without a bound"
        (batch,) = ingested.segments
        due_us = start.bound_us - self.gap_us
        reading = _Reading(fresh=(batch.name,), verdicts=verdicts)
        suspects = _before(io.read([batch]), due_us)
        due = _DueSpans(spans=suspects, segments=(batch,), due_us=due_us, reading=reading)
        may_touch = _reaching((batch, *arrival.tables.windows), due_us)
        settled = self._settle(start.epoch, due, may_touch, io)
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
            judged=lambda: self._judged(arrival, settled.segment, io),
            some_behind=True,
        )

    def close(self, closing: Closing, io: StateIO) -> Closed:
        if closing.bound_us is None:
            return Closed(tables=closing.tables)
        due_us = closing.bound_us - self.gap_us
        due, open_ = self._due(closing, due_us), _reaching(closing.tables.windows, due_us)
        if not due:
            return Closed(tables=replace(closing.tables, windows=open_))
        reading = _Reading(fresh=closing.fresh, verdicts=closing.verdicts)
        spans = _before(self._read(due, reading, io), due_us)
        if closing.before_us is not None:
            spans = _from(spans, closing.before_us - self.gap_us)
        due_spans = _DueSpans(spans=spans, segments=due, due_us=due_us, reading=reading)
        settled = self._settle(closing.epoch, due_spans, open_, io)
        open_ = settled.tightened(open_)
        carried = (settled.segment,) if settled.segment.rows else ()
        left = replace(closing.tables, windows=(*open_, *carried))
        if not settled.ended:
            return Closed(tables=left)
        ended = io.read([settled.segment])
        return Closed(
            tables=left,
            groups=self.shape.groups(_before(ended, due_us)),
            windows=lambda: settled.ended,
            rows=(lambda: settled.ended) if self.shape.aggregated else None,
        )

    @property
    def quotas(self) -> SessionQuotas:
        """What quotas ask of sessions."""
        return SessionQuotas(
            plan=self.plan, gap_us=self.gap_us, keys=self.shape.keys, schema=self.state_schema
        )

    def final_groups(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        spans = self.shape.kept(self.shape.place(rows, self.plan, start))
        return self.shape.groups(self.shape.chained(spans, None))

    def merge(self, segments: DataFrame, bound_us: int | None) -> DataFrame:
        if bound_us is not None:
            segments = segments.where(f"{LAST} >= {bound_us - self.gap_us}L")
        return self.shape.merge(segments)

    def bounds(self) -> tuple[str, str]:
        return f"min({LAST})", f"max({LAST})"

    @property
    def merges_rows(self) -> bool:
        return self.shape.aggregated

    @property
    def file_order(self) -> tuple[str, ...]:
        return ()

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
        if start.has_parts:
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
            segments = _reaching(segments, state.bound_us - self.gap_us)
        return sum(segment.rows for segment in segments)

    def _read(self, segments: Sequence[Segment], reading: _Reading, io: StateIO) -> DataFrame:
        """Return the spans of segments, those of parted sessions with their ``_part``."""
        old = [segment for segment in segments if segment.name not in reading.fresh]
        if reading.verdicts is None or not old:
            return io.read(segments)
        parted = self._following.parted(io.read(old), reading.verdicts, io)
        new = [segment for segment in segments if segment.name in reading.fresh]
        return io.read(new).unionByName(parted) if new else parted

    def _due(self, closing: Closing, due_us: int) -> list[Segment]:
        """The segments that, by their bounds, hold spans that became due since the last step."""
        segments = closing.tables.windows
        if closing.before_us is not None:
            segments = _reaching(segments, closing.before_us - self.gap_us)
        return [segment for segment in segments if segment.first_us < due_us]

    def _settle(
        self, epoch: int, due: _DueSpans, may_touch: Sequence[Segment], io: StateIO
    ) -> _Settled:
        """Chain due spans with those that may touch them, and write the resulting spans.

        These have the bounds of whole sessions: sessions that reach ``due_us`` are still open, the
        others have ended.
        """
        io.tasks.set_for([*due.segments, *may_touch])
        near, seen = None, None
        if may_touch:
            touching = self._read(may_touch, due.reading, io)
            live = _from(touching, due.due_us).select(*self.shape.by, FIRST, LAST)
            watched, seen = observed(live, {"next": f"min({LAST})"})
            near_us = by_reference(due.due_us + self.gap_us, FIRST)
            near = watched.where(f"{FIRST} < {near_us}")
        goes_on = f"NOT ({_ends_before(LAST, due.due_us)})"
        chained, numbers = observed(
            self.shape.chained(due.spans, near),
            {
                "open": f"count_if({goes_on})",
                "first": f"min(IF({goes_on}, {LAST}, NULL))",
                "last": f"max(IF({goes_on}, {LAST}, NULL))",
                "ended": f"sum(IF({goes_on}, 0, {SESSIONS}))",
                "ended_rows": f"sum(IF({goes_on}, 0, {ROWS}))",
            },
        )
        name, files = io.write(epoch, "sessions", chained.select(*self.state_schema.names))
        found = numbers()
        segment = Segment(
            name=name,
            files=files,
            # If no session is still open, the bounds say that all have ended.
            first_us=found["first"] if found["open"] else due.due_us - 1,
            last_us=found["last"] if found["open"] else due.due_us - 1,
            rows=found["open"],
        )
        return _Settled(
            segment=segment,
            ended=found["ended"] or 0,
            ended_rows=found["ended_rows"] or 0,
            next_us=seen()["next"] if seen else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DueSpans:
    """The spans of segments with a ``_last`` before ``due_us``."""

    spans: DataFrame
    segments: Sequence[Segment]
    due_us: int
    reading: _Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How segments are read in a step.

    Attributes:
        fresh: the names of those that its batch has written.
        verdicts: says which sessions of the others have parted; None: none has.
    """

    fresh: Sequence[str]
    verdicts: Segment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """Due spans after chaining.

    Attributes:
        segment: the segment written; its bounds and row count are those of sessions still open.
        ended: how many sessions have ended; ``ended_rows`` is their number of rows.
        next_us: the least ``_last`` of all spans that were not due, None if there are none.
    """

    segment: Segment
    ended: int
    ended_rows: int
    next_us: int | None

    def tightened(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Return segments with bounds that exclude spans already handled."""
        if self.next_us is None:
            return tuple(segments)
        return tuple(replace(s, first_us=max(s.first_us, self.next_us)) for s in segments)


def _reaching(segments: Sequence[Segment], time_us: int) -> tuple[Segment, ...]:
    return tuple(segment for segment in segments if segment.last_us >= time_us)


def _before(spans: DataFrame, us: int) -> DataFrame:
    """Spans whose last row is before a time."""
    return spans.where(_ends_before(LAST, us))


def _from(spans: DataFrame, us: int) -> DataFrame:
    """Spans whose last row is not before a time."""
    return spans.where(f"NOT ({_ends_before(LAST, us)})")


def _ends_before(last: str, us: int) -> str:
    return f"{last} < {by_reference(us, last)}"
