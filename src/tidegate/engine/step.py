"""The step: one micro-batch, ``step(state, rows, clock) -> (state', results, side output)``.

    prepare      (before the batch) event time, keys, arguments
    duplicates   only with dedup_key, a job before: finds duplicates, writes the keys that are new
    ingest       job 1: rows become state, written as a segment, and are counted
    advance      the watermark, from what job 1 observed
    announce     only when something is emitted: an intent with clock, watermark and bound
    emit         job 2, only when a window is due: read, merge, finish, write to the sink
    side output  a job only when the counts say there is something to write
    merge        segments of one level into one of the next, so that closing stays O(groups)
    names        only with new shards that intake left without: a job over the segment of the batch
    commit       write the manifest
    clean up     delete what no kept manifest names

Writes happen in this order. State files have names that are used only once, and are not part of the
state until the manifest names them; writes to sinks replace what an earlier attempt at the same
epoch left. So after a crash between any two writes it is enough to run the batch again.

The first half is ``intake.py``. ``finish`` is the second, which may run beside the next batch: see
``finishing.py``.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.engine.early import early_groups, is_due, unshown_rows
from tidegate.engine.emission import Way, emit
from tidegate.engine.faults import fault_point
from tidegate.engine.handover import hand_out
from tidegate.engine.intake import Batch, Taken, take_in
from tidegate.engine.merging import Merges, merge_segments
from tidegate.engine.reporting import report_of, summarized
from tidegate.engine.samples import samples_due
from tidegate.engine.side_output.routing import goes_out, write_side_output
from tidegate.engine.windows.operator import Closing
from tidegate.metrics.report import BatchReport, StepSummary
from tidegate.state.intents import StepKind
from tidegate.state.manifest import Manifest, Tables

if TYPE_CHECKING:
    from tidegate.engine.job import Job
    from tidegate.engine.state_io import StateIO


def step(
    state: Manifest, batch: Batch, job: Job, io: StateIO, merges: Merges
) -> tuple[Manifest, BatchReport]:
    """Run one micro-batch; return the committed state after it, and a report."""
    return finish(take_in(state, lambda: state, batch, job, io), job, io, merges)


def finish(taken: Taken, job: Job, io: StateIO, merges: Merges) -> tuple[Manifest, BatchReport]:
    """Close windows after a batch was taken in; return the committed state, and a report."""
    state, intent, stopwatch = taken.state, taken.intent, taken.stopwatch
    epoch, clock_us, ingested = state.epoch, state.clock_us, taken.unused.ingested
    closing = Closing(
        epoch=epoch,
        before_us=taken.before.bound_us,
        bound_us=intent.bound_us,
        tables=state.tables,
        fresh=tuple(segment.name for segment in ingested.segments),
        drain=intent.kind is StepKind.DRAIN,
        flush=intent.kind is StepKind.FLUSH,
    )
    closed = job.operator.close(closing, io)
    unshown, early = unshown_rows(taken.before, ingested.segments, job), None
    if is_due(taken.clock_before_us, clock_us, job):
        early, unshown = early_groups(unshown, closing, closed, job, io), None
    # Those who read the results follow the bound even if there are none.
    emits = closed.groups is not None or early is not None or bool(job.outlets.takers)
    if emits or goes_out(taken.unused, job):
        _announce(taken, io)
    way = Way(
        write=partial(hand_out, outlets=job.outlets, step=intent, owner=io.store.checkpoint_id),
        samples=samples_due(taken.clock_before_us, clock_us, job.plan),
    )
    emitted = emit(closed, early, epoch, job, way)
    stopwatch.ends("close")
    fault_point("after_results", epoch)

    unused = replace(taken.unused, failed=emitted.numbers.result_errors, closed=emitted.closed)
    written = write_side_output(unused, job)
    stopwatch.ends("side_output")
    fault_point("after_side_output", epoch)

    live = merge_segments(closed.tables, intent, job, io, merges)
    stopwatch.ends("merge")
    fault_point("after_merge", epoch)

    state = _with_names(taken, job, io)
    after = summarized(
        replace(
            state,
            writer=io.store.writer,
            checkpoint_id=io.store.checkpoint_id,
            plan_id=job.plan.plan_id,
            unshown=unshown,
            tables=replace(live, shards=state.tables.shards),
            dropped=state.dropped + written.dropped,
            emitted=state.emitted + emitted.numbers,
            reasons=written.added_to(state.reasons),
        ),
        StepSummary(kind=intent.kind.value, results=emitted.sample, side_output=written.sample),
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
        report_of(after, taken.counts, job, stopwatch),
        kind=str(intent.kind),
        **asdict(emitted.numbers),
        dropped=written.dropped,
        reasons=written.reasons,
        merges=_merges(closed.tables, live),
        clock_leaps=int(taken.leap is not None),
        clean_up_failures=clean_up_failures,
    )
    return after, report


def _announce(taken: Taken, io: StateIO) -> None:
    """Write down the decisions of a step, before anything goes out."""
    io.store.check_claim()
    if not taken.is_announced:
        io.store.put_intent(taken.intent)
    io.store.check_turn(taken.intent.epoch)
    fault_point("after_intent", taken.intent.epoch)


def _with_names(taken: Taken, job: Job, io: StateIO) -> Manifest:
    """The state with the rows of a batch, in which its new shards have names."""
    state = taken.state
    if job.shards is None or state.watermark.by != job.shard_by:
        return state
    fresh = taken.unused.ingested.segments
    shards = job.shards.named(taken.before.watermark, state.watermark, fresh, io)
    if shards is None:
        return state
    # Instead of the one without names, which the intent has until this one is committed.
    table = io.store.put_shards(state.epoch, taken.before, shards)
    return replace(
        state,
        watermark=replace(state.watermark, shards=shards),
        tables=replace(state.tables, shards=table),
    )


def _merges(closed: Tables, live: Tables) -> int:
    """How many segments merging has brought."""
    return len({s.name for s in live.segments} - {s.name for s in closed.segments})
