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
from tidegate.state.shard_map import SeenShards, Shard, ShardMap

# The shard of a query without a shard expression.
SINGLE_SHARD = ""


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
    before = shards = ShardMap.of(state.shards)
    if spec.shard_expiry_us is not None:
        # Those that have been silent for so long are gone for good.
        shards = before.active_since(clock_us - spec.shard_expiry_us)
    if shards is not before:
        # One may come back as a new one in this batch, which has no name for what was known.
        back = [id for id in seen.times if id in before and id not in shards]
        seen = replace(seen, names={**seen.names, **{id: before[id].name for id in back}})
    shards = shards.after(seen, clock_us).named(seen.names)
    has_begun = bool(shards) or state.watermark_us is not None
    candidate = _candidate(shards, clock_us, spec) if has_begun else None
    return replace(state, shards=shards, watermark_us=_later(state.watermark_us, candidate))


def _candidate(shards: ShardMap, clock_us: int, spec: WatermarkSpec) -> int | None:
    timeout_us = spec.idle_timeout_us
    least_us = shards.least_time(None if timeout_us is None else clock_us - timeout_us)
    if least_us is not None:
        return least_us - spec.lag_us
    return clock_us - spec.lag_us if spec.on_idle is OnIdle.ADVANCE else None


def _later(before: int | None, candidate: int | None) -> int | None:
    known = [value for value in (before, candidate) if value is not None]
    return max(known, default=None)
