"""The step: one micro-batch, ``step(state, rows, clock) -> (state', results, side output)``.

    prepare      (before the batch) event time, keys, arguments
    duplicates   only with dedup_key, a job before: finds duplicates, writes the keys that are new
    ingest       job 1: rows become state, written as a segment, and are counted
    advance      the watermark, from what job 1 observed
    announce     only when something is emitted: an intent with clock, watermark and bound
    emit         job 2, only when a window is due: read, merge, finish, write to the sink
    side output  a job only when the counts say there is something to write
    merge        segments of one level into one of the next, so that closing stays O(groups)
    commit       write the manifest
    clean up     delete what no kept manifest names

Writes happen in this order. State files have names that are used only once, and are not part of the
state until the manifest names them; writes to sinks replace what an earlier attempt at the same
epoch left. So after a crash between any two writes it is enough to run the batch again.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.engine.advance import advanced, bound, ingest, past_everything
from tidegate.engine.clock import Leap, with_clock
from tidegate.engine.early import early_groups, is_due, unshown_rows
from tidegate.engine.emission import Way, emit
from tidegate.engine.faults import fault_point
from tidegate.engine.handover import hand_out
from tidegate.engine.merging import Merges, merge_segments
from tidegate.engine.reporting import Stopwatch, report_of, summarized
from tidegate.engine.rows.fates import BatchStart
from tidegate.engine.samples import samples_due
from tidegate.engine.side_output.records import Judged
from tidegate.engine.side_output.routing import Unused, goes_out, write_side_output
from tidegate.engine.windows.operator import Arrival, Closing, Ingested
from tidegate.metrics.report import BatchReport, Counts, StepSummary
from tidegate.plan.logical import Authority
from tidegate.plan.settings import TimeMode
from tidegate.state.intents import Intent, StepKind
from tidegate.state.manifest import Manifest, Segment, Tables
from tidegate.state.watermark import SeenShards, WatermarkState
from tidegate.time import format_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.state_io import StateIO

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The input of a step.

    Attributes:
        kind: why it runs.
        batch_id: Spark's batch; for a drain or flush, the one before it.
        query_id, offsets_hash: identify the batch, see ``SparkBatch``.
        rows: prepared rows, None if only time passes.
        clock_us: the clock of the batch, the same when the batch is replayed. None at the end of a
            stream: the previous clock is used.
        watermark_us: the watermark that comes with the batch; None: it follows from the rows.
        decided: the intent of an earlier attempt, whose results may have been emitted; this step
            follows it.
    """

    kind: StepKind = StepKind.BATCH
    batch_id: int
    query_id: str | None = None
    offsets_hash: str | None = None
    rows: DataFrame | None = None
    clock_us: int | None = None
    watermark_us: int | None = None
    decided: Intent | None = None


def step(
    state: Manifest, batch: Batch, job: Job, io: StateIO, merges: Merges
) -> tuple[Manifest, BatchReport]:
    """Run one micro-batch; return the committed state after it, and a report."""
    stopwatch = Stopwatch()
    epoch = state.epoch + 1
    before = state
    state, leap = with_clock(state, batch.clock_us, job.plan, partial(_end_of, job))
    if leap is not None:
        _log_leap(leap, before, batch)
    clock_us = state.clock_us
    if batch.decided is not None:
        clock_us = batch.decided.clock_us
    start = BatchStart(epoch=epoch, clock_us=clock_us, bound_us=state.bound_us)

    tables, ingested, shards = state.tables, Ingested(), SeenShards()
    if batch.rows is not None:
        arrival = Arrival(rows=batch.rows, start=start, tables=tables)
        tables, ingested, shards = ingest(arrival, state, job, io)
    counts = _with_fallbacks(ingested.counts, job)
    stopwatch.ends("ingest")

    watermark = advanced(state, shards, clock_us, job, batch.watermark_us)
    intent = batch.decided or _decide(state, batch, _Seen(watermark, tables, clock_us), job)
    closing = Closing(
        epoch=epoch,
        before_us=state.bound_us,
        bound_us=intent.bound_us,
        tables=tables,
        fresh=tuple(segment.name for segment in ingested.segments),
        drain=batch.kind is StepKind.DRAIN,
        flush=batch.kind is StepKind.FLUSH,
    )
    closed = job.operator.close(closing, io)
    unshown, early = unshown_rows(state, ingested.segments, job), None
    if is_due(before.clock_us, clock_us, job):
        early, unshown = early_groups(unshown, closing, closed, job, io), None
    unused = Unused(
        ingested=ingested, judged=_judged(state, start, job), clock_before_us=before.clock_us
    )
    # Those who read the results follow the bound even if there are none.
    emits = closed.groups is not None or early is not None or bool(job.outlets.takers)
    if emits or goes_out(unused, job):
        _announce(intent, batch, io)
    way = Way(
        write=partial(hand_out, outlets=job.outlets, step=intent, owner=io.store.checkpoint_id),
        samples=samples_due(before.clock_us, clock_us, job.plan),
    )
    emitted = emit(closed, early, epoch, job, way)
    stopwatch.ends("close")
    fault_point("after_results", epoch)

    unused = replace(unused, failed=emitted.numbers.result_errors, closed=emitted.closed)
    written = write_side_output(unused, job)
    stopwatch.ends("side_output")
    fault_point("after_side_output", epoch)

    live = merge_segments(closed.tables, intent, job, io, merges)
    stopwatch.ends("merge")
    fault_point("after_merge", epoch)

    # The shards follow from the rows, so an intent does not have them.
    watermark = replace(watermark, watermark_us=intent.watermark_us)

    after = summarized(
        Manifest(
            epoch=epoch,
            checkpoint_id=io.store.checkpoint_id,
            batch_id=batch.batch_id,
            query_id=batch.query_id,
            offsets_hash=batch.offsets_hash,
            fingerprint=job.plan.fingerprint,
            plan_id=job.plan.plan_id,
            clock_us=clock_us,
            machine_us=state.machine_us,
            gaps=state.gaps,
            watermark=watermark,
            bound_us=intent.bound_us,
            unshown=unshown,
            writer=io.store.writer,
            schema=io.types,
            tables=replace(live, shards=io.store.put_shards(epoch, before, watermark.shards)),
            totals=state.totals + counts,
            dropped=state.dropped + written.dropped,
            emitted=state.emitted + emitted.numbers,
            reasons=written.added_to(state.reasons),
        ),
        StepSummary(kind=batch.kind.value, results=emitted.sample, side_output=written.sample),
        job,
        stopwatch,
    )
    io.store.check_claim()
    io.store.commit(after)
    stopwatch.ends("commit")
    fault_point("after_manifest", epoch)
    clean_up_failures = io.store.clean_up(after)
    fault_point("after_clean_up", epoch)
    report = replace(
        report_of(after, counts, job, stopwatch),
        kind=str(batch.kind),
        **asdict(emitted.numbers),
        dropped=written.dropped,
        reasons=written.reasons,
        merges=_merges(closed.tables, live),
        clock_leaps=int(leap is not None),
        clean_up_failures=clean_up_failures,
    )
    return after, report


def _announce(intent: Intent, batch: Batch, io: StateIO) -> None:
    """Write down the decisions of a step, before anything goes out."""
    io.store.check_claim()
    if batch.decided is None:
        io.store.put_intent(intent)
    io.store.check_turn(intent.epoch)
    fault_point("after_intent", intent.epoch)


def _merges(closed: Tables, live: Tables) -> int:
    """How many segments merging has brought."""
    return len({s.name for s in live.segments} - {s.name for s in closed.segments})


def _end_of(job: Job, time_us: int) -> int | None:
    """The end of the last window that can contain a row with this time."""
    row = Segment(name="", first_us=time_us, last_us=time_us, rows=1)
    return job.operator.end_of_all(Tables(windows=(row,)))


def _log_leap(leap: Leap, before: Manifest, batch: Batch) -> None:
    assert before.clock_us is not None, "a leap starts at a known clock"
    assert batch.clock_us is not None, "a leap ends at a known clock"
    _LOG.warning(
        "the machine's clock %s: it was %s and is now %s",
        leap.value,
        format_time(before.machine_us or before.clock_us),
        format_time(batch.clock_us),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """A batch after job 1: the watermark by its rows, the state with its rows, the clock."""

    watermark: WatermarkState
    tables: Tables
    clock_us: int | None


def _decide(state: Manifest, batch: Batch, seen: _Seen, job: Job) -> Intent:
    """Return the decisions of the step: the new watermark, and up to where windows close."""
    watermark_us = seen.watermark.watermark_us
    if batch.kind is StepKind.DRAIN:
        watermark_us = past_everything(watermark_us, seen.tables, job)
    return Intent(
        epoch=state.epoch + 1,
        kind=batch.kind,
        batch_id=batch.batch_id,
        query_id=batch.query_id,
        offsets_hash=batch.offsets_hash,
        clock_us=seen.clock_us,
        watermark_us=watermark_us,
        bound_us=bound(state, watermark_us, job),
    )


def _judged(state: Manifest, start: BatchStart, job: Job) -> Judged:
    return Judged(
        plan=job.plan,
        start=start,
        watermark_us=state.watermark.watermark_us,
        late_windows=job.operator.late_windows(),
        original=job.original,
    )


def _with_fallbacks(counts: Counts, job: Job) -> Counts:
    """If processing time is only the default, every row counts as a fallback to the clock."""
    spec = job.plan.watermark
    unasked = spec.mode is TimeMode.PROCESSING and spec.event_time.authority is Authority.DEFAULT
    return replace(counts, processing_time_fallback=counts.accumulated) if unasked else counts
