"""The step: one micro-batch, ``step(state, rows, clock) -> (state', results, side output)``.

    prepare      (before the batch) event time, keys, arguments
    ingest       job 1: rows become state, written as this epoch's segment; the job counts
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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.engine.faults import fault_point
from tidegate.engine.rows.prepare import BatchStart
from tidegate.engine.side_output.records import Judged
from tidegate.engine.side_output.routing import Unused, write_side_output
from tidegate.engine.windows.operator import Closing, Ingested
from tidegate.metrics.report import BatchReport, Counts
from tidegate.plan.columns import ERROR
from tidegate.plan.logical import Authority
from tidegate.plan.settings import TimeMode
from tidegate.spark.observe import observed
from tidegate.state.manifest import Manifest, Segment
from tidegate.state.watermark import SINGLE_SHARD, WatermarkState, advance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.state.store import StateStore

# Segments of one level that are merged into one of the next: closing reads O(log batches) of them.
MERGE_FACTOR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a step is given.

    Attributes:
        rows: prepared rows, None when only time passes.
        clock_us: the clock of the batch: an instant that is the same when the batch is replayed.
            None at the end of a stream: then it is the one before.
        drain: the end of the stream: every window closes.
        flush: open state windows are emitted.
    """

    batch_id: int
    rows: DataFrame | None
    clock_us: int | None = None
    drain: bool = False
    flush: bool = False


def step(
    state: Manifest, batch: Batch, job: Job, store: StateStore
) -> tuple[Manifest, BatchReport]:
    """Run one micro-batch; return the state after it, already committed, and what it did."""
    started = time.monotonic()
    epoch = state.epoch + 1
    # The clock never goes back, whatever the machine's clock does.
    clock_us = _latest(state.clock_us, batch.clock_us)
    start = BatchStart(epoch=epoch, clock_us=clock_us, bound_us=state.bound_us)

    ingested = Ingested()
    if batch.rows is not None:
        ingested = job.operator.ingest(batch.rows, start, state.segments, store)
    counts = _with_fallbacks(ingested.counts, job)
    segments = (*state.segments, *ingested.segments)

    watermark = _advance(state, ingested, clock_us, job)
    if batch.drain:
        watermark = _past_everything(watermark, segments, job)
    bound_us = _bound(state, watermark, job)

    closing = Closing(
        epoch=epoch,
        before_us=state.bound_us,
        bound_us=bound_us,
        segments=segments,
        fresh=tuple(segment.name for segment in ingested.segments),
        drain=batch.drain,
        flush=batch.flush,
    )
    emitted = _emit(closing, job, store)
    fault_point("after_results", epoch)

    judged = Judged(
        plan=job.plan,
        start=start,
        watermark_us=state.watermark.watermark_us,
        late_windows=job.operator.late_windows(),
    )
    unused = Unused(
        rows=batch.rows,
        ingested=ingested,
        judged=judged,
        failed=emitted.failed,
        closed=emitted.closed,
    )
    side_dropped = write_side_output(unused, job, store)
    fault_point("after_side_output", epoch)

    live = _merge_segments(emitted.segments, bound_us, job, store, epoch)
    fault_point("after_merge", epoch)

    after = Manifest(
        epoch=epoch,
        batch_id=batch.batch_id,
        fingerprint=job.plan.fingerprint,
        plan_id=job.plan.plan_id,
        clock_us=clock_us,
        watermark=watermark,
        bound_us=bound_us,
        segments=live,
        totals=state.totals + counts,
    )
    store.commit(after)
    fault_point("after_manifest", epoch)
    store.clean_up(replace(state, segments=(*segments, *emitted.segments, *emitted.spent)), after)
    fault_point("after_clean_up", epoch)
    return after, replace(_report(after, counts, emitted, started), side_dropped=side_dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What closed: distinct windows, result rows; the state that is left, and what is not.

    ``failed`` results are errors; they are among ``closed`` (see ``Finisher.closed``).
    """

    segments: tuple[Segment, ...]
    spent: tuple[Segment, ...] = ()
    windows: int = 0
    rows: int = 0
    failed: int = 0
    closed: DataFrame | None = None


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _with_fallbacks(counts: Counts, job: Job) -> Counts:
    """In processing time that nobody asked for every row falls back on the clock."""
    spec = job.plan.watermark
    unasked = spec.mode is TimeMode.PROCESSING and spec.event_time.authority is Authority.DEFAULT
    return replace(counts, processing_time_fallback=counts.accumulated) if unasked else counts


def _advance(state: Manifest, ingested: Ingested, clock_us: int | None, job: Job) -> WatermarkState:
    if clock_us is None:
        return state.watermark
    seen = {} if ingested.event_time_us is None else {SINGLE_SHARD: ingested.event_time_us}
    return advance(state.watermark, seen, clock_us, job.plan.watermark)


def _past_everything(
    watermark: WatermarkState, segments: tuple[Segment, ...], job: Job
) -> WatermarkState:
    """The watermark of a drain: past the end of every window, so that each closes, none reopens."""
    last_us = job.operator.end_of_all(segments)
    if last_us is None:
        return watermark
    past_us = last_us + job.plan.watermark.lateness_us
    return replace(watermark, watermark_us=_latest(watermark.watermark_us, past_us))


def _bound(state: Manifest, watermark: WatermarkState, job: Job) -> int | None:
    """What ends up to here is closed: a window is due when W >= end + lateness.

    It never goes back, also when a restart brings a greater lateness: a window closes once.
    """
    if watermark.watermark_us is None:
        return state.bound_us
    return _latest(state.bound_us, watermark.watermark_us - job.plan.watermark.lateness_us)


def _emit(closing: Closing, job: Job, store: StateStore) -> Emitted:
    closed = job.operator.close(closing, store)
    if closed.groups is None:
        return Emitted(segments=closed.segments, spent=closed.spent)
    failing: DataFrame | None = None
    failed: Callable[[], dict[str, int]] = dict
    if job.finisher.can_fail:
        failing = job.finisher.closed(closed.groups, closing.epoch)
        watched, failed = observed(failing, {"failed": f"count_if({ERROR} IS NOT NULL)"})
        results = job.finisher.results(watched)
    else:
        results = job.finisher.finish(closed.groups, closing.epoch)
    count = closed.rows
    if count is None or job.finisher.drops_rows:
        results, numbers = observed(results, {"rows": "count(1)"})
        count = partial(_rows, numbers)
    job.outlets.results(results, closing.epoch)
    return Emitted(
        segments=closed.segments,
        spent=closed.spent,
        windows=closed.windows(),
        rows=count(),
        failed=failed().get("failed", 0),
        closed=failing,
    )


def _rows(numbers: Callable[[], dict[str, int]]) -> int:
    return numbers()["rows"]


def _merge_segments(
    live: tuple[Segment, ...], bound_us: int | None, job: Job, store: StateStore, epoch: int
) -> tuple[Segment, ...]:
    """Merge the segments of the lowest level that has too many; at most one level a step."""
    levels = [segment.level for segment in live]
    crowded = sorted(level for level in set(levels) if levels.count(level) >= MERGE_FACTOR)
    if not crowded:
        return live
    level = crowded[0]
    crowd = [segment for segment in live if segment.level == level]
    rest = tuple(segment for segment in live if segment.level != level)
    store.set_tasks_for(crowd)
    operator = job.operator
    state = operator.merge(store.read_segments(crowd, operator.state_schema), bound_us)
    segment = store.write_counted(
        f"{epoch}-merged-{level + 1}", level + 1, state, operator.bounds()
    )
    return (*rest, segment) if segment is not None else rest


def _report(after: Manifest, counts: Counts, emitted: Emitted, started: float) -> BatchReport:
    return BatchReport(
        **{name: getattr(counts, name) for name in counts.__slots__},
        result_errors=emitted.failed,
        batch_id=after.batch_id,
        epoch=after.epoch,
        clock_us=after.clock_us,
        watermark_us=after.watermark.watermark_us,
        closed_windows=emitted.windows,
        rows_out=emitted.rows,
        state_rows=sum(segment.rows for segment in after.segments),
        segments=len(after.segments),
        open_from_us=min((segment.first_us for segment in after.segments), default=None),
        duration_ms=round((time.monotonic() - started) * 1000),
    )
