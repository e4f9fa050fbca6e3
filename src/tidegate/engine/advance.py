"""The advance of the watermark in a step, from what job 1 observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.engine.rows.duplicates import sort_out
from tidegate.engine.rows.lateness import SeenBefore
from tidegate.engine.rows.shard_rows import without
from tidegate.engine.windows.operator import Arrival, Ingested
from tidegate.state.shard_map import SeenShards, Shard, ShardMap
from tidegate.state.watermark import SINGLE_SHARD, WatermarkState, advance

if TYPE_CHECKING:
    from tidegate.engine.job import Job
    from tidegate.engine.state_io import StateIO
    from tidegate.state.manifest import Manifest, Tables


def ingest(
    arrival: Arrival, state: Manifest, job: Job, io: StateIO
) -> tuple[Tables, Ingested, SeenShards]:
    """Take in prepared rows; return the state with them, what was done, and the shards."""
    found = sort_out(arrival, partial(_seen_before, SeenShards(), state, job), job, io)
    ingested, shards = _within_quotas(found.arrival, state, job, io)
    return found.taken_in(ingested), ingested, shards


def _within_quotas(
    arrival: Arrival, state: Manifest, job: Job, io: StateIO
) -> tuple[Ingested, SeenShards]:
    """Run job 1 over prepared rows; return what it did, and the shards that it saw.

    Quotas are checked before, if the state alone says that a row may exceed one; else after, if the
    batch with the state does. Then rows that are evicted are rare, and the batch is taken in again.
    With lateness exact to the record they are checked after it is known which rows are behind.
    """
    quotas = job.quotas
    if quotas is not None and job.lateness is None and quotas.may_exceed(arrival.tables):
        admitted = quotas.admit(arrival, io)
        ingested, shards, _ = _ingest(admitted.arrival, state, job, io)
        return admitted.counted(ingested), shards
    ingested, shards, arrival = _ingest(arrival, state, job, io)
    if quotas is None or not quotas.may_exceed(arrival.tables, ingested.segments):
        return ingested, shards
    admitted = quotas.admit(arrival, io)
    if admitted.evicts:
        ingested = job.operator.ingest(admitted.arrival, io)
        shards = without(shards, ("partial",))
    return admitted.counted(ingested), shards


def _ingest(
    arrival: Arrival, state: Manifest, job: Job, io: StateIO
) -> tuple[Ingested, SeenShards, Arrival]:
    """Run job 1 over prepared rows; return what it did, the shards that it saw, and the rows.

    If some rows are behind, they are marked.
    """
    if job.shards is None:
        ingested = job.operator.ingest(arrival, io)
        event_time_us = ingested.event_time_us
        times = {} if event_time_us is None else {SINGLE_SHARD: event_time_us}
        shards = SeenShards(times=times)
    else:
        known = ShardMap.of(_known(state, job))
        ingested, shards = job.shards.ingest(arrival, job.operator, known, state.totals, io)
    if job.lateness is None:
        return ingested, shards, arrival
    seen = _seen_before(shards, state, job)
    ingested, judged = job.lateness.exact(ingested, arrival, seen, io)
    if judged is not arrival:
        # They were counted as judged by the watermark before the batch.
        shards = without(shards, ("late", "partial"))
    return ingested, shards, judged


def _seen_before(shards: SeenShards, state: Manifest, job: Job) -> SeenBefore:
    """The greatest times of the shards before a batch, and the greatest after it."""
    known = ShardMap.of(_known(state, job))
    return SeenBefore(
        known={name: time_us for _, time_us, _, name, _, _ in known.entries()},
        greatest_us=latest(known.greatest_time_us, *shards.times.values()),
        sharded=job.shard_by is not None,
    )


def advanced(
    state: Manifest, seen: SeenShards, clock_us: int | None, job: Job, given_us: int | None = None
) -> WatermarkState:
    """Return the watermark and the shards after a batch; without a clock they stay.

    A watermark that follows from another query is the one that comes with the batch, ``given_us``.
    """
    if job.plan.watermark.follows is not None:
        watermark_us = latest(state.watermark.watermark_us, given_us)
        return replace(state.watermark, watermark_us=watermark_us)
    if clock_us is None:
        return state.watermark
    before = replace(state.watermark, shards=_known(state, job), by=job.shard_by)
    return advance(before, seen, clock_us, job.plan.watermark)


def past_everything(watermark_us: int | None, tables: Tables, job: Job) -> int | None:
    """The watermark of a drain: past the end of every window, so that all close for good."""
    last_us = job.operator.end_of_all(tables)
    if last_us is None:
        return watermark_us
    return latest(watermark_us, last_us + job.plan.watermark.lateness_us)


def bound(state: Manifest, watermark_us: int | None, job: Job) -> int | None:
    """The bound up to which windows are closed: a window is due when W >= end + lateness.

    It never goes back, even if a restart sets a greater lateness: a window closes only once.
    """
    if watermark_us is None:
        return state.bound_us
    return latest(state.bound_us, watermark_us - job.plan.watermark.lateness_us)


def latest(*times: int | None) -> int | None:
    """The latest of the times that are known."""
    return max((time for time in times if time is not None), default=None)


def _known(state: Manifest, job: Job) -> Mapping[str, Shard]:
    """The shards of the state, none if another expression made them: then they say nothing."""
    return state.watermark.shards if state.watermark.by == job.shard_by else {}
