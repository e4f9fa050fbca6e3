"""The intake: the first half of a step, which brings the rows of a batch into the state.

After it the step has decided up to where windows close, but none has. So it can be finished later,
beside the intake of the next batch, once its intent has what was taken in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.engine.advance import advanced, bound, ingest, past_everything
from tidegate.engine.clock import Leap, with_clock
from tidegate.engine.faults import fault_point
from tidegate.engine.reporting import Stopwatch
from tidegate.engine.rows.fates import BatchStart
from tidegate.engine.side_output.records import Judged
from tidegate.engine.side_output.routing import Unused
from tidegate.engine.windows.operator import Arrival, Ingested
from tidegate.metrics.report import Counts
from tidegate.plan.logical import Authority
from tidegate.plan.settings import TimeMode
from tidegate.state.intents import Intent, StepKind
from tidegate.state.manifest import Manifest, Segment, Tables
from tidegate.state.shard_map import SeenShards
from tidegate.state.watermark import WatermarkState
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A batch whose rows are in the state, before any window closes.

    Attributes:
        before: the state before the batch, with its clock.
        state: the state with its rows; without what the rest of the step adds.
        intent: the decisions of the step.
        is_announced: whether the intent has been written down.
        unused: the rows that could not be used.
        clock_before_us: the clock of the step before.
        counts: the rows by fate.
        leap: what the machine's clock did.
        stopwatch: started with the step.
    """

    before: Manifest
    state: Manifest
    intent: Intent
    is_announced: bool
    unused: Unused
    clock_before_us: int | None
    counts: Counts
    leap: Leap | None = None
    stopwatch: Stopwatch


def take_in(
    early: Manifest, before: Callable[[], Manifest], batch: Batch, job: Job, io: StateIO
) -> Taken:
    """Take in the rows of a batch, and decide up to where its step closes windows.

    Args:
        early: the state before the batch as far as it is known: the windows that the step before
            closes may still be in it.
        before: returns the state before the batch; waits for the step before.
        batch: the batch.
        job: what runs.
        io: the state.
    """
    stopwatch = Stopwatch()
    epoch = early.epoch + 1
    end_of = partial(_end_of, job)
    state, leap = with_clock(early, batch.clock_us, job.plan, end_of)
    if leap is not None:
        _log_leap(leap, early, batch)
    clock_us = state.clock_us if batch.decided is None else batch.decided.clock_us
    start = BatchStart(epoch=epoch, clock_us=clock_us, bound_us=state.bound_us)

    taken_in: tuple[Tables, Ingested, SeenShards] | None = None
    if batch.rows is not None:
        # If the clock went back, keys that the step before forgets would be remembered.
        known = early if leap is None else before()
        arrival = Arrival(
            rows=batch.rows, start=start, state=lambda: before().tables, early=known.tables
        )
        taken_in = ingest(arrival, state, job, io)
    settled = before()
    state, _ = with_clock(settled, batch.clock_us, job.plan, end_of)
    tables, ingested, shards = taken_in or (state.tables, Ingested(), SeenShards())
    counts = _with_fallbacks(ingested.counts, job)
    stopwatch.ends("ingest")

    watermark = advanced(state, shards, clock_us, job, batch.watermark_us)
    intent = batch.decided or _decide(state, batch, _Seen(watermark, tables, clock_us), job)
    # The shards follow from the rows, so an intent does not have them.
    watermark = replace(watermark, watermark_us=intent.watermark_us)
    taken = replace(
        state,
        epoch=epoch,
        checkpoint_id=io.store.checkpoint_id,
        batch_id=batch.batch_id,
        query_id=batch.query_id,
        offsets_hash=batch.offsets_hash,
        fingerprint=job.plan.fingerprint,
        plan_id=job.plan.plan_id,
        clock_us=clock_us,
        watermark=watermark,
        bound_us=intent.bound_us,
        writer=io.store.writer,
        schema=io.types,
        tables=replace(tables, shards=io.store.put_shards(epoch, settled, watermark.shards)),
        totals=state.totals + counts,
        step=None,
    )
    return Taken(
        before=state,
        state=taken,
        intent=intent,
        is_announced=batch.decided is not None,
        unused=Unused(
            ingested=ingested,
            judged=_judged(state, start, job),
            clock_before_us=settled.clock_us,
        ),
        clock_before_us=settled.clock_us,
        counts=counts,
        leap=leap,
        stopwatch=stopwatch,
    )


def taken_before(before: Manifest, intent: Intent, job: Job) -> Taken:
    """Return what an earlier process has taken in, from the intent that it left.

    Args:
        before: the state before the batch.
        intent: the intent, which has the state with the rows of the batch.
        job: what runs.
    """
    state = intent.taken
    assert state is not None, "only what has been taken in is finished from an intent"
    known = {segment.name for segment in before.tables.windows}
    counts = state.totals - before.totals
    ingested = Ingested(
        segments=tuple(each for each in state.tables.windows if each.name not in known),
        counts=counts,
    )
    start = BatchStart(epoch=state.epoch, clock_us=state.clock_us, bound_us=before.bound_us)
    return Taken(
        before=before,
        state=state,
        intent=intent,
        is_announced=True,
        unused=Unused(
            ingested=ingested, judged=_judged(before, start, job), clock_before_us=before.clock_us
        ),
        clock_before_us=before.clock_us,
        counts=counts,
        stopwatch=Stopwatch(),
    )


def announced(taken: Taken, io: StateIO) -> Taken:
    """Write down what was taken in: from now on the batch need not be run again.

    Raises:
        StateError: another process has claimed the checkpoint. It may have looked for intents
            before this one was there, so Spark must not take the batch for done.
    """
    intent = replace(taken.intent, taken=taken.state)
    io.store.check_claim()
    io.store.put_intent(intent)
    io.store.check_turn(intent.epoch)
    fault_point("after_taken", intent.epoch)
    return replace(taken, intent=intent, is_announced=True)


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
