"""Merging: segments of one level become one of the next, so that a step reads few of them.

Few rows are merged in the step. Many are merged *beside* the next steps, by one thread that leaves
them at least half of the cores: a step goes on with the segments as they are, and a later one puts
the merged segment in their place. Segments are never changed, so the state is the same either way,
and of a merge that a crash cuts short nothing is left but a folder that no manifest names.

    step        7    8    9   10   11
    segments  0..7  ..8  ..9  0..7, 8 to 10
    beside         [ 0..7 merged ]
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tidegate.engine.tasks import BYTES_PER_TASK, are_few, files_for
from tidegate.plan.time_columns import GREATEST_TIME_US
from tidegate.state.cleaning import epoch_of
from tidegate.state.manifest import Segment, Tables

if TYPE_CHECKING:
    from tidegate.engine.aside import Aside
    from tidegate.engine.job import Job
    from tidegate.engine.rows.duplicates import Duplicates
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Operator
    from tidegate.state.intents import Intent

_LOG = logging.getLogger("tidegate")

# This many segments of a level are merged into one of the next, so a close reads O(log batches).
MERGE_FACTOR = 8

# With so many times as many of a level, a step waits for the merge beside it.
MOST_CROWDED = 4

# A merge that leaves more than this part of the rows has saved next to nothing. Segments of a size
# that fills a task need no merge for their number, so the next merge of such waits until there are
# so many times as many: rows of a long window with ever new groups are not written again and again.
FEW_SAVED, PATIENCE = 0.9, 8


def merge_segments(tables: Tables, intent: Intent, job: Job, io: StateIO, merges: Merges) -> Tables:
    """Return the state after merging, per table at most one level; forgotten keys are dropped.

    Args:
        tables: the state after the close.
        intent: the step, and the bound up to which windows are closed.
        job: the job.
        io: the state.
        merges: does it, now or beside the next steps.
    """
    epoch, bound_us = intent.epoch, intent.bound_us
    some_behind = any(segment.came_behind(bound_us) for segment in tables.windows)
    of_rows = RowMerge(
        operator=job.operator, epoch=epoch, bound_us=bound_us, some_behind=some_behind
    )
    windows = merges.merged("windows", tables.windows, of_rows, io)
    keys = tables.duplicates
    if job.duplicates is not None:
        of_keys = KeyMerge(duplicates=job.duplicates, epoch=epoch, bound_us=bound_us)
        keys = job.duplicates.remembered(keys, bound_us)
        # The next batch may be reading these already, and no manifest would name what is merged.
        newest = tuple(each for each in keys if epoch_of(each.name) == epoch)
        older = tuple(each for each in keys if each not in newest)
        keys = (*merges.merged("duplicates", older, of_keys, io), *newest)
    quotas = tuple(s for s in tables.quotas if bound_us is None or s.last_us > bound_us)
    return replace(tables, windows=windows, duplicates=keys, quotas=quotas)


class Merge(Protocol):
    """How segments of a table are merged after a step."""

    @property
    def bound_us(self) -> int | None:
        """Windows with an end up to here have closed."""

    def is_worth(self, crowd: Sequence[Segment]) -> bool:
        """Whether it is worth merging some segments."""

    def apart_us(self) -> int | None:
        """See ``Operator.apart_us``."""

    def run(
        self, crowd: Sequence[Segment], io: StateIO, apart_us: int | None = None
    ) -> Segment | None:
        """Write the segment that they become; return None if no row is needed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMerge:
    """Merges what windows are made of; ``some_behind`` as in ``Operator.merge``."""

    operator: Operator
    epoch: int
    bound_us: int | None
    some_behind: bool

    def is_worth(self, crowd: Sequence[Segment]) -> bool:
        return True

    def apart_us(self) -> int | None:
        return self.operator.apart_us(self.bound_us)

    def run(
        self, crowd: Sequence[Segment], io: StateIO, apart_us: int | None = None
    ) -> Segment | None:
        operator = self.operator
        io.tasks.set_for(crowd)
        rows = operator.merge(
            io.read(crowd), self.bound_us, some_behind=self.some_behind, apart_us=apart_us
        )
        if self.some_behind or not operator.merges_rows:
            rows = rows.coalesce(files_for(crowd))
        if operator.file_order:
            rows = rows.sortWithinPartitions(*operator.file_order)
        merged = io.write_counted(self.epoch, "merged", rows, operator.bounds())
        behind_us = max((s.behind_us for s in crowd if s.behind_us is not None), default=None)
        return merged and replace(merged, behind_us=behind_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMerge:
    """Merges the keys of rows, by which duplicates are found."""

    duplicates: Duplicates
    epoch: int
    bound_us: int | None

    def is_worth(self, crowd: Sequence[Segment]) -> bool:
        return self.duplicates.is_worth_merging(crowd)

    def apart_us(self) -> int | None:
        return None

    def run(
        self, crowd: Sequence[Segment], io: StateIO, apart_us: int | None = None
    ) -> Segment | None:
        return self.duplicates.merged(crowd, self.epoch, self.bound_us, io)


class Merges:
    """Merges the segments of a query, step after step."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        # A merge beside the steps failed, so that the next one is done in its step, which reports
        # the error if it fails too; or it took too long to be of use.
        self._has_failed = False
        self._was_late = False
        # By table, which part of the rows the last merge has left.
        self._left: dict[str, float] = {}

    def merged(
        self, table: str, segments: tuple[Segment, ...], merge: Merge, io: StateIO
    ) -> tuple[Segment, ...]:
        """Return the segments of a table after merging at most one level of them.

        Args:
            table: its name.
            segments: its segments.
            merge: merges some of them.
            io: the state, in the session of the steps.
        """
        running = self._running
        if running is not None and running.table == table and running.work.is_done:
            self._running = None
            segments = self._with_result(running, segments, merge, io)
        busy = frozenset() if self._running is None else self._running.names
        idle = [segment for segment in segments if segment.name not in busy]
        crowds = (each for each in _crowds(idle, MERGE_FACTOR) if self._pays(table, each))
        crowd = next(filter(merge.is_worth, crowds), None)
        if crowd is None:
            return segments
        if self._has_failed or are_few(crowd):
            self._has_failed = False
            merged = merge.run(crowd, io)
            self._note(table, crowd, merged)
            return _with_merged(segments, crowd, merged)
        if self._running is None:
            # One thing after the other, so that the steps keep half of the cores; but what is done
            # again and again must not put off a merge for ever.
            if not io.asides.is_busy or len(crowd) >= 2 * MERGE_FACTOR:
                self._start(table, crowd, merge, io)
        elif len(crowd) >= MOST_CROWDED * MERGE_FACTOR:
            self._running.work.wait()
        return segments

    def wait(self) -> None:
        """Wait for the merge beside the steps, if there is one."""
        if self._running is not None:
            self._running.work.wait()

    def forget(self) -> None:
        """Forget the merge beside the steps, if there is one, which ``Asides`` has given up."""
        self._running = None

    def _pays(self, table: str, crowd: Sequence[Segment]) -> bool:
        """Whether merging some segments is likely to save rows, or is due for their number."""
        if self._left.get(table, 0.0) <= FEW_SAVED or len(crowd) >= PATIENCE * MERGE_FACTOR:
            return True
        return min(segment.bytes for segment in crowd) < BYTES_PER_TASK

    def _note(self, table: str, crowd: Sequence[Segment], merged: Segment | None) -> None:
        before = sum(segment.rows for segment in crowd)
        self._left[table] = 0.0 if merged is None else merged.rows / max(before, 1)

    def _start(self, table: str, crowd: Sequence[Segment], merge: Merge, io: StateIO) -> None:
        apart_us = merge.apart_us()
        if apart_us is not None and self._was_late:
            apart_us, self._was_late = GREATEST_TIME_US, False

        def run(aside: StateIO) -> Segment | None:
            return merge.run(crowd, aside, apart_us)

        self._running = _Running(
            table=table,
            names=frozenset(segment.name for segment in crowd),
            apart_us=apart_us,
            work=io.asides.start("merge", io, run),
        )

    def _with_result(
        self, running: _Running, segments: tuple[Segment, ...], merge: Merge, io: StateIO
    ) -> tuple[Segment, ...]:
        """Put a segment that was merged beside the steps in place of those that it was made of."""
        crowd = [segment for segment in segments if segment.name in running.names]
        # The windows of some may all have closed since, and their files may have been deleted; or
        # some are of a step that failed.
        is_whole = len(crowd) == len(running.names)
        try:
            merged = running.work.result()
        except Exception as error:
            _LOG.debug("merging beside the batches failed: %s", error)
            self._has_failed = is_whole
            running.work.clean_up(io, None)
            return segments
        running.work.clean_up(io, merged)
        self._note(running.table, crowd, merged)
        self._was_late = running.is_late(merge.bound_us)
        if self._was_late or not is_whole:
            if merged is not None:
                io.store.disown(merged.name)
            return segments
        if merged is not None:
            # Since then steps may have found that nothing before a later time is needed.
            first_us = max(merged.first_us, min(segment.first_us for segment in crowd))
            merged = replace(merged, first_us=min(first_us, merged.last_us))
        return _with_merged(segments, crowd, merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A merge beside the steps.

    Attributes:
        table: of which table.
        names: the segments that are merged.
        apart_us: see ``Operator.apart_us``.
        work: the merge.
    """

    table: str
    names: frozenset[str]
    apart_us: int | None
    work: Aside[Segment | None]

    def is_late(self, bound_us: int | None) -> bool:
        """Whether a close up to this bound may have rewritten rows that were merged."""
        return self.apart_us is not None and bound_us is not None and bound_us > self.apart_us


def _crowds(segments: Sequence[Segment], factor: int) -> Iterator[list[Segment]]:
    """The segments of each level that has too many, the lowest level first."""
    for level in sorted({segment.level for segment in segments}):
        crowd = [segment for segment in segments if segment.level == level]
        if len(crowd) >= factor:
            yield crowd


def _with_merged(
    segments: Sequence[Segment], crowd: Sequence[Segment], merged: Segment | None
) -> tuple[Segment, ...]:
    """The segments after some were merged into one, or None if nothing was left."""
    names = {segment.name for segment in crowd}
    rest = tuple(segment for segment in segments if segment.name not in names)
    return rest if merged is None else (*rest, replace(merged, level=crowd[0].level + 1))
