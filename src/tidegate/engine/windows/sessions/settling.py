"""How due spans become sessions: chained by their times, or followed where sessions have parted.

What is due is written again, with the times of whole sessions: those that have ended are read from
there for the results, and those that are still open stay in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.engine.tasks import GROWTH, are_few
from tidegate.engine.windows.sessions.ahead import Close, Near, Outlook
from tidegate.engine.windows.sessions.chains import FIRST, LAST
from tidegate.engine.windows.sessions.due import DueSpans, Foresight
from tidegate.engine.windows.sessions.ranges import (
    before,
    between,
    ends_before,
    of_same_keys,
    open_from,
)
from tidegate.engine.windows.sessions.record import Followed
from tidegate.engine.windows.sessions.spans import ENDS, SESSIONS, SessionShape
from tidegate.plan.columns import ROWS
from tidegate.spark.observe import observed
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.state_io import StateIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Writes due spans with the times of their sessions.

    Attributes:
        gap_us: the gap of sessions.
        shape: what a span is.
        schema: the columns of the state.
        following: follows keys whose sessions may have parted.
        foresight: what the last close beside many spans has seen of the next one.
        outlook: what a close beside many spans has found out for the next ones.
    """

    gap_us: int
    shape: SessionShape
    schema: StructType
    following: Followed
    foresight: Foresight
    outlook: Outlook

    def of_due(
        self,
        epoch: int,
        due: DueSpans,
        may_touch: Sequence[Segment],
        io: StateIO,
        *,
        looks_ahead: bool = False,
    ) -> Settled:
        """Chain due spans with those that may touch them, and write the resulting spans.

        These have the bounds of whole sessions: sessions that reach ``due_us`` are still open, the
        others have ended. ``looks_ahead``: whether this is a close, which others will follow.
        """
        io.tasks.set_for([*due.segments, *may_touch])
        near = self._touching(epoch, due, may_touch, io, looks_ahead) if may_touch else None
        if near is None:
            return self._written(epoch, self.shape.chained(due.spans, None), due.due_us, io)
        settled = self._written(epoch, self.shape.chained(near.due, near.spans), due.due_us, io)
        if looks_ahead:
            self.outlook.note(due, settled.segment)
        ends = near.ends()
        self.foresight.note(near.watched, due.due_us, near.until_us, ends["rows"] or 0)
        return replace(settled, next_us=_least(ends["next"], near.until_us))

    def _touching(
        self,
        epoch: int,
        due: DueSpans,
        may_touch: Sequence[Segment],
        io: StateIO,
        looks_ahead: bool,
    ) -> Near:
        """Keys and times of spans that are not due, and that due ones may touch.

        Beside many, those of a few due ones are found without a shuffle, and the next end is looked
        for only among those that end soon: to observe a row costs more than to read it.
        """
        spans, to_us = io.read(may_touch), due.due_us + self.gap_us
        near = between(spans, due.due_us, to_us, may_touch, time=FIRST)
        near = near.select(*self.shape.keys, FIRST, LAST)
        keys = self.shape.keys
        ends = {"next": f"min({LAST})", "rows": "count(1)"}
        if not keys or are_few(may_touch) or not due.are_few(self.foresight):
            watched, seen = observed(near, ends)
            # A span that is not near begins, and so ends, the gap after ``due_us`` or later.
            return Near(due=due.spans, spans=watched, watched=may_touch, until_us=to_us, ends=seen)
        io.tasks.set(1)
        if looks_ahead:
            close = Close(epoch=epoch, due=due, may_touch=may_touch, keys=keys, gap_us=self.gap_us)
            ahead = self.outlook.near(close, io)
            if ahead is not None:
                return ahead
        soon_us = due.due_us + min(GROWTH * due.advance_us, self.gap_us)
        watched, seen = observed(before(near, soon_us, may_touch), ends)
        later = open_from(near, soon_us, may_touch)
        found = of_same_keys(watched.unionByName(later), due.spans, keys)
        return Near(due=due.spans, spans=found, watched=may_touch, until_us=soon_us, ends=seen)

    def of_followed(
        self, epoch: int, live: Live, behind: Sequence[Segment], due_us: int, io: StateIO
    ) -> Settled:
        """``of_due`` where sessions may have parted: keys with rows behind are followed.

        Args:
            epoch: the step.
            live: all spans of open sessions, those that are due now among them.
            behind: the segments that may have spans which came behind.
            due_us: spans with a last row before it are due.
            io: the state.
        """
        io.tasks.set_for(live.segments)
        following = self.following
        keys = following.keys_behind(io.read(behind), live.bound_us)
        followed = following.with_keys(live.spans, keys, "SEMI")
        spans = before(following.sessions(followed, live.bound_us), due_us)
        ended = self.shape.ended(spans.where(ends_before(ENDS, due_us)))
        waiting = self.shape.waiting(spans.where(f"NOT ({ends_before(ENDS, due_us)})"))
        others = following.with_keys(live.spans, keys, "ANTI")
        near = between(others, due_us, due_us + self.gap_us, (), time=FIRST)
        near = near.select(*self.shape.keys, FIRST, LAST)
        chained = self.shape.chained(before(others, due_us), near)
        settled = self._written(epoch, chained.unionByName(ended).unionByName(waiting), due_us, io)
        behind_us = max((s.behind_us for s in behind if s.behind_us is not None), default=None)
        return replace(settled, segment=replace(settled.segment, behind_us=behind_us))

    def _written(self, epoch: int, chained: DataFrame, due_us: int, io: StateIO) -> Settled:
        """Write spans that were due, with the times of their sessions."""
        goes_on = f"NOT ({ends_before(LAST, due_us)})"
        chained, numbers = observed(
            chained,
            {
                "spans": "count(1)",
                "open": f"count_if({goes_on})",
                "first": f"min(IF({goes_on}, {LAST}, NULL))",
                "last": f"max(IF({goes_on}, {LAST}, NULL))",
                "ended": f"sum(IF({goes_on}, 0, {SESSIONS}))",
                "ended_rows": f"sum(IF({goes_on}, 0, {ROWS}))",
            },
        )
        name, files = io.write(epoch, "sessions", chained.select(*self.schema.names))
        found = numbers()
        segment = Segment(
            name=name,
            files=files,
            # If no session is still open, the bounds say that all have ended.
            first_us=found["first"] if found["open"] else due_us - 1,
            last_us=found["last"] if found["open"] else due_us - 1,
            rows=found["open"],
        )
        return Settled(
            due_us=due_us,
            segment=segment,
            spans=found["spans"],
            ended=found["ended"] or 0,
            ended_rows=found["ended_rows"] or 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """All spans of the sessions that were open at ``bound_us``, and the segments they are in."""

    spans: DataFrame
    segments: Sequence[Segment]
    bound_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Due spans after chaining.

    Attributes:
        due_us: spans before it were due.
        segment: the segment written; its bounds and row count are those of sessions still open.
        spans: how many it has in all.
        ended: how many sessions have ended; ``ended_rows`` is their number of rows.
        next_us: a time before which no other span ends in the segments that have due ones; None if
            none were read.
    """

    due_us: int
    segment: Segment
    spans: int
    ended: int
    ended_rows: int
    next_us: int | None = None

    @property
    def written(self) -> Segment:
        """The segment with the number of all its spans, by which it is read."""
        return replace(self.segment, rows=self.spans)

    def tightened(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Return segments with bounds that exclude spans already handled."""
        next_us = self.next_us
        if next_us is None:
            return tuple(segments)
        return tuple(
            replace(each, first_us=next_us) if each.first_us < self.due_us else each
            for each in segments
        )


def _least(seen: int | None, other: int) -> int:
    return other if seen is None else min(seen, other)
