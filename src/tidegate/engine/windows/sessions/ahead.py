"""Looking ahead: with what spans that end soon go on, found once for many closes.

A close must know whether the sessions of due spans go on, so it needs the other spans of their
keys, which may be anywhere among those that are open. To look through all of them for each close
would cost what is open, not what is due. So this is done for many closes at once, beside the steps,
with the keys of all spans that end within a longer time. Until it is done, each close looks itself.

    gap 100, spans before 50 are due, looked ahead to 80
    key a   [40 46]         [90 95] [99 120]     found: [90 120], as both reach 80
    key b   [55 60] [70 75]                      found: both; either may be due with the other not
    key c   [60 66]                              alone
    key d           [81 88] [95 99]              not looked for: no span ends before 80

Then closes of spans that end before 80 read those that are due, what was found, and the segments
that have been written since.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from math import inf
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidegate.engine.tasks import GROWTH, are_few, few_rows_of
from tidegate.engine.windows.sessions.chains import FIRST, LAST
from tidegate.engine.windows.sessions.due import DueSpans
from tidegate.engine.windows.sessions.ranges import before, between, of_same_keys, open_from
from tidegate.errors import StateError
from tidegate.spark.observe import observed
from tidegate.spark.statements import by_reference, over_all
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.engine.aside import Aside
    from tidegate.engine.state_io import StateIO

_LOG = logging.getLogger("tidegate")

# A close looks ahead for this many closes as long as its own time, if what ends then are few spans;
# else for so many; else not at all.
CLOSES_AHEAD = (64, 8)

# What has been written since may be this part of what was looked through, or few rows.
PART_SINCE = 1 / 8

# The first closes of a process do not look ahead, since there may be no more.
FIRST_CLOSES = 1

# If it did not serve this many closes, for which a merge is enough, the next two do not look ahead;
# if that happens again and again, the next four, eight, at most so many.
WORTH_CLOSES, LONGEST_PAUSE = 2, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """A close of few due spans beside many that are not due.

    Attributes:
        epoch: the step.
        due: the due spans.
        may_touch: the segments with spans that are not due.
        keys: the columns that separate sessions at the same time.
        gap_us: the gap of sessions.
    """

    epoch: int
    due: DueSpans
    may_touch: Sequence[Segment]
    keys: Sequence[str]
    gap_us: int


@dataclass(slots=True, kw_only=True)
class Ahead:
    """What spans go on with that end before ``until_us``.

    Attributes:
        writer: the id of the process's claim; another one may delete what was found.
        names: the segments that were looked through.
        from_us, until_us: it holds for closes of spans that end between them; ``until_us`` is None
            until that is known.
        found: a segment with what spans that end before ``until_us`` may touch: other such spans
            of their keys; and, at most one row for each key, the times of all those that end later
            and begin less than the gap after ``until_us``. None if there is nothing.
        since: segments in which closes have written due spans again, all from segments of which it
            knew. They end with spans whose keys were looked for, or not before ``until_us``.
        closes: how many closes it has served.
    """

    writer: str
    names: frozenset[str]
    from_us: int
    until_us: int | None = None
    found: Segment | None = None
    since: set[str] = field(default_factory=set)
    closes: int = 0

    def knows(self, due: DueSpans) -> bool:
        """Whether the keys of due spans were looked for."""
        return all(each.name in self.names or each.name in self.since for each in due.segments)

    def serves(self, due: DueSpans, may_touch: Sequence[Segment]) -> bool:
        """Whether a close of due spans, beside segments that they may touch, can use it."""
        # What was due when it began to look is not found.
        is_after = due.from_us is not None and due.from_us >= self.from_us
        is_within = is_after and self.until_us is not None and due.due_us <= self.until_us
        return is_within and self.knows(due) and self._part_since(may_touch) <= PART_SINCE

    def is_half_used(self, due: DueSpans, may_touch: Sequence[Segment]) -> bool:
        """Whether it is time to look ahead again, though it serves."""
        is_late = self.until_us is not None and 2 * due.due_us > self.from_us + self.until_us
        return is_late or 2 * self._part_since(may_touch) > PART_SINCE

    def _part_since(self, may_touch: Sequence[Segment]) -> float:
        """How many spans have been written since, of those that it knows; few count as none."""
        covered = sum(each.rows for each in may_touch if each.name in self.names)
        rest = self.rest(may_touch)
        if not covered:
            return inf
        return 0 if are_few(rest) else sum(each.rows for each in rest) / covered

    def rest(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments that have been written since."""
        return [segment for segment in segments if segment.name not in self.names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Spans that due ones may touch, and when the next ones are due.

    Attributes:
        due: the due spans.
        spans: keys, ``_first`` and ``_last`` of spans that they may touch, None if there are none.
        watched: the segments with spans that are due; those of them that are not due, but end
            before ``until_us``, are counted by the job.
        until_us: see ``watched``.
        ends: returns, after the job, the least end of those (``next``), None if there are none, and
            their number (``rows``).
    """

    due: DataFrame
    spans: DataFrame | None
    watched: Sequence[Segment]
    until_us: int
    ends: Callable[[], Mapping[str, int | None]]


class Outlook:
    """Looks ahead for the closes of a query. What it has found is lost with the process."""

    def __init__(self) -> None:
        self._ahead: Ahead | None = None
        self._coming: tuple[Ahead, Aside[_Found | None]] | None = None
        # How many closes do not look ahead now, and how many will not next time.
        self._pause, self._next_pause = FIRST_CLOSES, 2

    def note(self, due: DueSpans, written: Segment) -> None:
        """Note a segment in which a close has written due spans with the times of sessions."""
        for ahead in (self._ahead, self._coming and self._coming[0]):
            if ahead is not None and ahead.knows(due):
                ahead.since.add(written.name)

    def near(self, close: Close, io: StateIO) -> Near | None:
        """Return the spans that due ones may touch; None if they have to be looked for in all."""
        self._take_over(io)
        due, may_touch = close.due, close.may_touch
        ahead = self._ahead
        if ahead is not None and not (
            ahead.writer == io.store.writer.id and ahead.serves(due, may_touch)
        ):
            self._forget(ahead, io)
            ahead = None
        if ahead is None or ahead.is_half_used(due, may_touch):
            self._look(close, io)
        if ahead is None:
            return None
        columns, to_us = (*close.keys, FIRST, LAST), due.due_us + close.gap_us
        near = []
        if ahead.found is not None:
            schema = StructType([io.schema[name] for name in columns])
            try:
                found = io.store.read_segments([ahead.found], schema).coalesce(1)
            except StateError as error:
                # It is no part of the state: what is lost is found again.
                _LOG.debug("what was found ahead cannot be read: %s", error)
                self._forget(ahead, io)
                return None
            near.append(between(found, due.due_us, to_us, (), time=FIRST))
        ahead.closes += 1
        until_us = due.due_us + min(GROWTH * due.interval_us, close.gap_us)
        soon = due.ending_before(until_us, io)
        if are_few([segment for segment in due.segments if not segment.level]):
            soon = soon.coalesce(1)  # Merged segments are sorted: few pages have such spans.
        is_due = f"{LAST} < {by_reference(due.due_us, LAST)}"
        numbers = {"next": f"min(IF({is_due}, NULL, {LAST}))", "rows": f"count_if(NOT {is_due})"}
        watched, ends = observed(soon, numbers)
        rest = ahead.rest(may_touch)
        if rest:
            since = between(io.read(rest), due.due_us, to_us, rest, time=FIRST).select(*columns)
            near.append(since if are_few(rest) else of_same_keys(since, due.spans, close.keys))
        return Near(
            due=watched.where(is_due),
            spans=reduce(DataFrame.unionByName, near) if near else None,
            watched=due.segments,
            until_us=until_us,
            ends=ends,
        )

    def _look(self, close: Close, io: StateIO) -> None:
        """Begin to look through all segments, unless that is going on or does not pay."""
        if self._coming is not None or io.asides.is_busy:
            return
        if self._pause:
            self._pause -= 1
            return
        due, may_touch = close.due, close.may_touch
        names = frozenset(segment.name for segment in (*due.segments, *may_touch))
        ahead = Ahead(writer=io.store.writer.id, names=names, from_us=due.due_us)
        self._coming = ahead, io.asides.start("look through", io, partial(_look_through, close))

    def _take_over(self, io: StateIO) -> None:
        """Use what has been found, if looking through all segments is done."""
        if self._coming is None or not self._coming[1].is_done:
            return
        (ahead, work), self._coming = self._coming, None
        try:
            found = work.result()
        except Exception as error:
            # Files may have been merged and deleted meanwhile.
            _LOG.debug("looking ahead beside the batches failed: %s", error)
            found = None
        work.clean_up(io, found.segment if found else None)
        if found is None:
            self._rest_after(is_worth=False)
            return
        if self._ahead is not None:
            self._forget(self._ahead, io)
        ahead.until_us, ahead.found = found.until_us, found.segment
        self._ahead = ahead

    def _forget(self, ahead: Ahead, io: StateIO) -> None:
        self._ahead = None
        if ahead.found is not None:
            io.store.disown(ahead.found.name)
        self._rest_after(is_worth=ahead.closes >= WORTH_CLOSES)

    def _rest_after(self, *, is_worth: bool) -> None:
        self._pause = 0 if is_worth else self._next_pause
        self._next_pause = 2 if is_worth else min(LONGEST_PAUSE, 2 * self._next_pause)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for closes of spans that end before ``until_us``."""

    until_us: int
    segment: Segment | None


def _look_through(close: Close, io: StateIO) -> _Found | None:
    """Look through all segments; return None if many spans end within a few closes."""
    until_us = _until(close, io)
    if until_us is None:
        return None
    io.tasks.set(1)
    due_us, may_touch = close.due.due_us, close.may_touch
    columns = (*close.keys, FIRST, LAST)
    spans = io.read(may_touch).select(*columns)
    ending = between(spans, due_us, until_us, may_touch)
    later = open_from(spans, until_us, may_touch)
    later = before(later, until_us + close.gap_us, may_touch, time=FIRST)
    later = of_same_keys(later, ending, close.keys)
    group = ", ".join(close.keys)
    statement = (
        f"SELECT {group}, {FIRST}, {LAST} FROM"
        f" (SELECT *, count(1) OVER (PARTITION BY {group}) AS _spans FROM {{ending}})"
        " WHERE _spans > 1 UNION ALL "
        f"SELECT {group}, min({FIRST}), max({LAST}) FROM {{later}} GROUP BY {group}"
    )
    may_go_on = over_all({"ending": ending, "later": later}, statement)
    bounds = (f"min({LAST})", f"max({LAST})")
    return _Found(until_us, io.write_counted(close.epoch, "ahead", may_go_on, bounds))


def _until(close: Close, io: StateIO) -> int | None:
    """The time up to which to look ahead; None if many spans end within a few closes."""
    due, may_touch = close.due, close.may_touch
    most = few_rows_of(may_touch)
    ends = open_from(io.read(may_touch).select(LAST), due.due_us, may_touch)
    for closes in CLOSES_AHEAD:
        until_us = due.due_us + min(closes * due.interval_us, close.gap_us)
        if before(ends, until_us, may_touch).limit(most + 1).count() <= most:
            return until_us
    return None
