"""The watermark: pure functions on the numbers that a batch observed.

``W = min over active shards of (greatest event time seen - lag)``, and it never goes back. ``W``
says that no further row with ``t < W`` is expected. A batch without timed rows leaves it where it
is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import OnIdle, TimeMode

# What is counted of the rows of a shard besides how many it had, by the names of ``Counts``.
SHARD_COUNTS = ("late", "partial", "error", "duplicate", "evicted")

# The shard of a query without a shard expression.
SINGLE_SHARD = ""


# Never changed, but not frozen: a batch may make thousands, and that would take twice as long.
@dataclass(slots=True, kw_only=True)
class Shard:
    """What is known of a shard.

    Attributes:
        event_time_us: the greatest event time seen.
        clock_us: the clock of its last row.
        name: the value of the shard expression as text; None for NULL, and for the single shard of
            a query without a shard expression.
        rows: how many rows it has had; 0 in a query without a shard expression.
        counts: how many of them were late and so on, by the names of ``SHARD_COUNTS``. As the
            other rows, these are counted as far as the batch told them by shard.
    """

    event_time_us: int
    clock_us: int
    name: str | None = None
    rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkState:
    """The shards and the watermark; ``watermark_us`` is None before the first timed row.

    Attributes:
        shards: by their id, a hash of the shard's value.
        watermark_us: W.
        by: the expression that divides the stream into these shards, with its type; None: it is
            one shard.
    """

    shards: Mapping[str, Shard] = field(default_factory=dict)
    watermark_us: int | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenShards:
    """What a batch has seen.

    Attributes:
        times: the greatest valid event time of each shard that had one, microseconds, by its id.
        names: the names of shards, those that the state does not know yet among them.
        rows, counts: as those of ``Shard``, of this batch alone, by the id of the shard.
    """

    times: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str | None] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def advance(
    state: WatermarkState, seen: SeenShards, clock_us: int, spec: WatermarkSpec
) -> WatermarkState:
    """Return the state after a batch.

    Args:
        state: the state before the batch.
        seen: the shards of the batch.
        clock_us: the batch's clock; in processing time it is all that matters.
        spec: lag, idle rules, and when a shard is forgotten.
    """
    if spec.mode is TimeMode.PROCESSING:
        # Everything up to the clock has been seen, so the watermark is just after it.
        return WatermarkState(watermark_us=_later(state.watermark_us, clock_us + 1))
    shards = _remembered(state.shards, clock_us, spec)
    for id, event_time_us in seen.times.items():
        before = shards.get(id)
        # There may be thousands, and ``replace`` takes twice as long.
        shards[id] = (
            Shard(
                event_time_us=event_time_us,
                clock_us=clock_us,
                name=seen.names.get(id),
                rows=seen.rows.get(id, 0),
            )
            if before is None
            else Shard(
                event_time_us=max(event_time_us, before.event_time_us),
                clock_us=clock_us,
                name=before.name,
                rows=before.rows + seen.rows.get(id, 0),
                counts=before.counts,
            )
        )
    untimed = seen.rows.keys() - seen.times.keys() if len(seen.rows) != len(seen.times) else set()
    for id in seen.counts.keys() | untimed:
        if id in shards:
            rows = seen.rows[id] if id in untimed else 0
            shards[id] = _with_rows(shards[id], rows, seen.counts.get(id, {}))
    has_begun = bool(shards) or state.watermark_us is not None
    candidate = _candidate(shards, clock_us, spec) if has_begun else None
    return replace(state, shards=shards, watermark_us=_later(state.watermark_us, candidate))


def _with_rows(shard: Shard, rows: int, counts: Mapping[str, int]) -> Shard:
    added = {name: shard.counts.get(name, 0) + counts.get(name, 0) for name in SHARD_COUNTS}
    known = {name: number for name, number in added.items() if number}
    return replace(shard, rows=shard.rows + rows, counts=known)


def _remembered(
    shards: Mapping[str, Shard], clock_us: int, spec: WatermarkSpec
) -> dict[str, Shard]:
    """The shards without those that have been silent for so long that they are gone for good."""
    expiry_us = spec.shard_expiry_us
    if expiry_us is None:
        return dict(shards)
    return {name: shard for name, shard in shards.items() if clock_us - shard.clock_us < expiry_us}


def _candidate(shards: Mapping[str, Shard], clock_us: int, spec: WatermarkSpec) -> int | None:
    timeout_us = spec.idle_timeout_us
    active = [
        shard.event_time_us
        for shard in shards.values()
        if timeout_us is None or clock_us - shard.clock_us < timeout_us
    ]
    if active:
        return min(active) - spec.lag_us
    return clock_us - spec.lag_us if spec.on_idle is OnIdle.ADVANCE else None


def _later(before: int | None, candidate: int | None) -> int | None:
    known = [value for value in (before, candidate) if value is not None]
    return max(known, default=None)
