"""The watermark: pure functions of what a batch observed.

``W = min over active shards of (greatest event time seen - lag)``; it never goes back. ``W`` says
that no further row with ``t < W`` is expected. A batch without event times does not move it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import OnIdle, TimeMode

# The shard of a query without a shard expression.
SINGLE_SHARD = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard: its greatest event time so far, and the clock of its last row."""

    event_time_us: int
    clock_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkState:
    """The shards and the watermark; ``watermark_us`` is None before the first timed row."""

    shards: Mapping[str, Shard] = field(default_factory=dict)
    watermark_us: int | None = None


def advance(
    state: WatermarkState, observed: Mapping[str, int], clock_us: int, spec: WatermarkSpec
) -> WatermarkState:
    """Return the state after a batch.

    Args:
        state: the state before the batch.
        observed: the greatest valid event time of the batch for each shard that had one,
            microseconds.
        clock_us: the batch's clock; in processing time the watermark depends on it alone.
        spec: lag and idle rules.
    """
    if spec.mode is TimeMode.PROCESSING:
        # Everything up to the clock has been seen, so the watermark is just after it.
        return WatermarkState(watermark_us=_later(state.watermark_us, clock_us + 1))
    shards = dict(state.shards)
    for name, event_time_us in observed.items():
        before = shards.get(name)
        greatest = event_time_us if before is None else max(before.event_time_us, event_time_us)
        shards[name] = Shard(event_time_us=greatest, clock_us=clock_us)
    candidate = _candidate(shards, clock_us, spec)
    return WatermarkState(shards=shards, watermark_us=_later(state.watermark_us, candidate))


def _candidate(shards: Mapping[str, Shard], clock_us: int, spec: WatermarkSpec) -> int | None:
    timeout_us = spec.idle_timeout_us
    active = [
        shard.event_time_us
        for shard in shards.values()
        if timeout_us is None or clock_us - shard.clock_us < timeout_us
    ]
    if active:
        return min(active) - spec.lag_us
    if shards and spec.on_idle is OnIdle.ADVANCE:
        return clock_us - spec.lag_us
    return None


def _later(before: int | None, candidate: int | None) -> int | None:
    known = [value for value in (before, candidate) if value is not None]
    return max(known, default=None)
