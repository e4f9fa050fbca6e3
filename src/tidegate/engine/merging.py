"""Merging: segments of one level become one of the next, so that a step reads few of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.engine.tasks import files_for
from tidegate.state.manifest import Segment, Tables

if TYPE_CHECKING:
    from tidegate.engine.job import Job
    from tidegate.engine.state_io import StateIO
    from tidegate.state.intents import Intent


def merge_segments(tables: Tables, intent: Intent, job: Job, io: StateIO, factor: int) -> Tables:
    """Return the state after merging, per table at most one level; forgotten keys are dropped.

    Args:
        tables: the state after the close.
        intent: the step, and the bound up to which windows are closed.
        job: the job.
        io: the state.
        factor: how many segments of a level are merged into one of the next.
    """
    windows, keys = tables.windows, tables.duplicates
    crowd = next(_crowds(windows, factor), None)
    if crowd is not None:
        some_behind = any(segment.came_behind(intent.bound_us) for segment in windows)
        windows = _with_merged(
            windows, crowd, _merged(crowd, intent, job, io, some_behind=some_behind)
        )
    if job.duplicates is not None:
        keys = job.duplicates.remembered(keys, intent.bound_us)
        crowd = next(filter(job.duplicates.is_worth_merging, _crowds(keys, factor)), None)
        if crowd is not None:
            merged = job.duplicates.merged(crowd, intent.epoch, intent.bound_us, io)
            keys = _with_merged(keys, crowd, merged)
    bound_us = intent.bound_us
    quotas = tuple(s for s in tables.quotas if bound_us is None or s.last_us > bound_us)
    return replace(tables, windows=windows, duplicates=keys, quotas=quotas)


def _crowds(segments: tuple[Segment, ...], factor: int) -> Iterator[list[Segment]]:
    """The segments of each level that has too many, the lowest level first."""
    for level in sorted({segment.level for segment in segments}):
        crowd = [segment for segment in segments if segment.level == level]
        if len(crowd) >= factor:
            yield crowd


def _with_merged(
    segments: tuple[Segment, ...], crowd: list[Segment], merged: Segment | None
) -> tuple[Segment, ...]:
    """The segments after those of a level were merged into one, or None if nothing was left."""
    level = crowd[0].level
    rest = tuple(segment for segment in segments if segment.level != level)
    return rest if merged is None else (*rest, replace(merged, level=level + 1))


def _merged(
    crowd: list[Segment], intent: Intent, job: Job, io: StateIO, *, some_behind: bool
) -> Segment | None:
    operator = job.operator
    io.tasks.set_for(crowd)
    rows = operator.merge(io.read(crowd), intent.bound_us, some_behind=some_behind)
    if some_behind or not operator.merges_rows:
        rows = rows.coalesce(files_for(crowd))
    if operator.file_order:
        rows = rows.sortWithinPartitions(*operator.file_order)
    merged = io.write_counted(intent.epoch, "merged", rows, operator.bounds())
    behind_us = max((s.behind_us for s in crowd if s.behind_us is not None), default=None)
    return merged and replace(merged, behind_us=behind_us)
