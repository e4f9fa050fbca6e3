"""The step: one micro-batch, ``step(state, rows, clock) -> (state', results, side output)``.

    prepare      (before the batch) event time, keys, arguments; here: the fate of each row
    ingest       job 1: rows become partials, written as this epoch's segment; the job counts
    advance      the watermark, from what job 1 observed
    emit         job 2, only when a window is due: read, merge, finish, write to the sink
    side output  a job only when the counts say there is something to write
    merge        segments of one size into the next, so that closing stays O(groups)
    commit       the manifest: from here on the batch has happened

Writes happen in this order, each replaces what an earlier attempt at the same epoch left, and
nothing is visible before the manifest names it. So a crash between any two of them is mended by
running the batch again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.engine.faults import fault_point
from tidegate.engine.ingest import Ingested, ingest
from tidegate.engine.observe import observed
from tidegate.engine.manifest import Manifest, Segment
from tidegate.engine.partials import END, Bounds, close, merge
from tidegate.engine.prepare import BatchStart
from tidegate.engine.report import BatchReport, Counts
from tidegate.engine.side import KINDS, side_output
from tidegate.engine.watermark import SINGLE_SHARD, WatermarkState, advance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.state import StateStore

# Segments of one level that are merged into one of the next: closing reads O(log batches) of them.
MERGE_FACTOR = 8
# Partials for which one task more is worth its start.
ROWS_PER_TASK = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a step is given: prepared rows (None when only time passes) and the clock if no row
    carries it."""

    batch_id: int
    rows: DataFrame | None
    clock_us: int | None = None
    drain: bool = False


def step(
    state: Manifest, batch: Batch, job: Job, store: StateStore
) -> tuple[Manifest, BatchReport]:
    """Run one micro-batch and return the state after it, already committed, and what it did."""
    started = time.monotonic()
    epoch = state.epoch + 1
    start = BatchStart(epoch=epoch, clock_us=state.clock_us, closed_us=state.closed_us)

    ingested = ingest(batch.rows, job, store, start) if batch.rows is not None else Ingested()
    clock_us = max(
        (c for c in (state.clock_us, batch.clock_us, ingested.clock_us) if c is not None),
        default=None,
    )

    segments = (*state.segments, *((ingested.segment,) if ingested.segment else ()))
    watermark = _advance(state, ingested, clock_us, job)
    if batch.drain:
        watermark = _past_everything(watermark, segments, job)
    closed_us = _closed(watermark, job)

    emitted = _emit(
        segments, Bounds(after_us=state.closed_us, upto_us=closed_us), job, store, epoch
    )
    fault_point("after_results", epoch)

    _write_side_output(batch.rows, ingested.counts, job, start, state)
    fault_point("after_side_output", epoch)

    live = tuple(segment for segment in segments if _is_live(segment, closed_us, job))
    merged = _merge_segments(live, closed_us, job, store, epoch)
    fault_point("after_merge", epoch)

    after = Manifest(
        epoch=epoch,
        batch_id=batch.batch_id,
        fingerprint=job.plan.fingerprint,
        plan_id=job.plan.plan_id,
        clock_us=clock_us,
        watermark=watermark,
        closed_us=closed_us,
        segments=merged,
        totals=state.totals + ingested.counts,
    )
    store.commit(after)
    fault_point("after_manifest", epoch)
    store.clean_up(replace(state, segments=segments), after)
    fault_point("after_clean_up", epoch)
    return after, _report(after, ingested.counts, emitted, started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What closed: distinct windows, and result rows."""

    windows: int = 0
    rows: int = 0


def _advance(state: Manifest, ingested: Ingested, clock_us: int | None, job: Job) -> WatermarkState:
    spec = job.plan.watermark.spec
    if clock_us is None:
        return state.watermark
    seen = {} if ingested.event_time_us is None else {SINGLE_SHARD: ingested.event_time_us}
    return advance(state.watermark, seen, clock_us, spec)


def _past_everything(
    watermark: WatermarkState, segments: tuple[Segment, ...], job: Job
) -> WatermarkState:
    """The watermark of a drain: past the end of every window, so that each closes and none
    reopens."""
    ends = [job.grid.last_end(segment.last_pane_us) for segment in segments]
    if not ends:
        return watermark
    last_us = max(ends) + job.plan.watermark.spec.lateness_us
    known = watermark.watermark_us
    return replace(watermark, watermark_us=last_us if known is None else max(known, last_us))


def _closed(watermark: WatermarkState, job: Job) -> int | None:
    """Windows with an end up to here are closed: a window is due when W >= end + lateness."""
    if watermark.watermark_us is None:
        return None
    return watermark.watermark_us - job.plan.watermark.spec.lateness_us


def _emit(
    segments: tuple[Segment, ...], bounds: Bounds, job: Job, store: StateStore, epoch: int
) -> Emitted:
    due = [segment for segment in segments if _has_due_window(segment, bounds, job)]
    if not due:
        return Emitted()
    _set_tasks(store, sum(segment.rows for segment in due), job)
    partials = store.read_segments(due, job.state_schema)
    groups, windows = observed(
        close(partials, job.aggregation, job.grid, bounds), {"windows": f"collect_set({END})"}
    )
    results, rows = observed(job.finisher.finish(groups, epoch), {"rows": "count(1)"})
    job.outlets.results(results, epoch)
    return Emitted(windows=len(windows()["windows"]), rows=rows()["rows"])


def _has_due_window(segment: Segment, bounds: Bounds, job: Job) -> bool:
    """Whether a window that holds a pane within the segment's bounds may close now."""
    if bounds.upto_us is None:
        return False
    after_us = segment.first_pane_us
    if bounds.after_us is not None:
        after_us = max(after_us, bounds.after_us)
    first_end_us = job.grid.next_end(after_us)
    return first_end_us <= min(bounds.upto_us, job.grid.last_end(segment.last_pane_us))


def _is_live(segment: Segment, closed_us: int | None, job: Job) -> bool:
    return closed_us is None or job.grid.last_end(segment.last_pane_us) > closed_us


def _merge_segments(
    live: tuple[Segment, ...], closed_us: int | None, job: Job, store: StateStore, epoch: int
) -> tuple[Segment, ...]:
    """Merge the segments of a level that has too many; at most one level a step."""
    for level in sorted({segment.level for segment in live}):
        crowd = [segment for segment in live if segment.level == level]
        if len(crowd) < MERGE_FACTOR:
            continue
        _set_tasks(store, sum(segment.rows for segment in crowd), job)
        partials = store.read_segments(crowd, job.state_schema)
        if closed_us is not None:
            partials = partials.where(f"{job.grid.last_end_sql('_pane')} > {closed_us}L")
        merged, numbers = observed(
            merge(partials, job.aggregation),
            {"rows": "count(1)", "first": "min(_pane)", "last": "max(_pane)"},
        )
        name = f"{epoch}-merged-{level + 1}"
        store.write_segment(name, merged)
        seen = numbers()
        rest = tuple(segment for segment in live if segment.level != level)
        if not seen["rows"]:
            store.delete_segment(name)
            return rest
        bigger = Segment(
            name=name,
            level=level + 1,
            first_pane_us=seen["first"],
            last_pane_us=seen["last"],
            rows=seen["rows"],
        )
        return (*rest, bigger)
    return live


def _write_side_output(
    rows: DataFrame | None, counts: Counts, job: Job, start: BatchStart, state: Manifest
) -> None:
    present = {"late": counts.late, "error": counts.error}
    for kind in KINDS:
        if rows is not None and present[kind] and kind in job.outlets.side:
            records = side_output(
                rows,
                job.plan,
                job.grid,
                start,
                watermark_us=state.watermark.watermark_us,
                kinds=(kind,),
            )
            job.outlets.side[kind](records, start.epoch)


def _set_tasks(store: StateStore, rows: int, job: Job) -> None:
    store.set_tasks(max(1, min(job.partitions, -(-rows // ROWS_PER_TASK))))


def _report(after: Manifest, counts: Counts, emitted: Emitted, started: float) -> BatchReport:
    return BatchReport(
        **{name: getattr(counts, name) for name in counts.__slots__},
        batch_id=after.batch_id,
        epoch=after.epoch,
        clock_us=after.clock_us,
        watermark_us=after.watermark.watermark_us,
        closed_windows=emitted.windows,
        rows_out=emitted.rows,
        state_rows=sum(segment.rows for segment in after.segments),
        segments=len(after.segments),
        open_from_us=min((segment.first_pane_us for segment in after.segments), default=None),
        duration_ms=round((time.monotonic() - started) * 1000),
    )
