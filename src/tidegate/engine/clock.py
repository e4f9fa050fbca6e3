"""The clock of the steps: it follows the machine's clock, and copes with its jumps.

The clock of a step is normally the timestamp of its batch. But a machine's clock may be set wrong,
and later be corrected:

    ahead by more than a day   the clock follows, since the query may have been stopped that long;
                               the gap is remembered
    back into such a gap       the jump ahead was wrong: the clock goes back to the machine's
    back in any other way      the clock runs at half speed until the machine's has caught up

So time never stands still, and it goes back only over a gap in which no batch has run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.plan.settings import TimeMode

if TYPE_CHECKING:
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.state.manifest import Manifest

MICROS_PER_DAY = 86_400_000_000
MICROS_PER_SECOND = 1_000_000

# A greater difference is not due to drift, or to a restart on another machine.
LEAP_US = MICROS_PER_DAY

# How many gaps are remembered.
_GAPS = 8


class Leap(Enum):
    """What a machine's clock did between two batches; the value is the text for the log."""

    AHEAD = "jumped ahead; if the query was not stopped for that long, it is wrong"
    BACK = "was set back; until it has caught up, the query's clock runs at half speed"
    RETURNED = "was set back to before it had jumped ahead; the query's clock follows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """An interval in which no batch ran: the clocks of the batches before and after it."""

    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a step.

    Attributes:
        us: the clock, microseconds since 1970.
        machine_us: the timestamp of the batch.
        gaps: the intervals over which the clock jumped ahead, oldest first.
    """

    us: int
    machine_us: int
    gaps: tuple[Gap, ...] = ()


def next_clock(
    before: Clock | None, machine_us: int, *, may_return: bool = True
) -> tuple[Clock, Leap | None]:
    """Return the clock of a batch, and the leap that is to be logged, if any.

    Args:
        before: the clock of the previous batch.
        machine_us: the timestamp of the batch.
        may_return: whether the clock may go back over a gap.
    """
    if before is None:
        return Clock(us=machine_us, machine_us=machine_us), None
    if machine_us >= before.us:
        return _ahead(before, machine_us)
    gap = _gap_of(before, machine_us) if may_return else None
    if gap is not None:
        us = max(machine_us, gap.from_us)
        gaps = tuple(each for each in before.gaps if each.to_us <= us)
        return Clock(us=us, machine_us=machine_us, gaps=gaps), Leap.RETURNED
    passed_us = min(max(0, machine_us - before.machine_us), LEAP_US)
    clock = Clock(us=before.us + passed_us // 2, machine_us=machine_us, gaps=before.gaps)
    return clock, Leap.BACK if before.machine_us - machine_us > MICROS_PER_SECOND else None


def with_clock(
    state: Manifest,
    machine_us: int | None,
    plan: PhysicalPlan,
    end_of: Callable[[int], int | None],
) -> tuple[Manifest, Leap | None]:
    """Return the state before a batch with the clock of the batch, and the leap to be logged.

    If the clock goes back, so does the bound up to which windows have closed: to the end of the
    last window that can contain a row from before the gap, because that window may have closed.

    Args:
        state: the state before the batch.
        machine_us: the timestamp of the batch; None where no batch comes.
        plan: the plan.
        end_of: returns the end of the last window that can contain a row with a given time.
    """
    if machine_us is None:
        return state, None
    before = _clock_of(state)
    spec = plan.watermark
    # In the other windows by the clock, rows come in the order of their times.
    may_return = spec.mode is TimeMode.EVENT or plan.close.window.waits_for_clock
    clock, leap = next_clock(before, machine_us, may_return=may_return)
    gaps = tuple((gap.from_us, gap.to_us) for gap in clock.gaps)
    after = replace(state, clock_us=clock.us, machine_us=machine_us, gaps=gaps)
    if leap is not Leap.RETURNED or before is None:
        return after, leap
    shards = {
        name: replace(shard, clock_us=min(shard.clock_us, clock.us))
        for name, shard in state.watermark.shards.items()
    }
    gap = _gap_of(before, machine_us)
    assert gap is not None, "the clock goes back only into a gap"
    times = [shard.event_time_us for shard in shards.values()]
    last_us = max(times, default=None) if spec.mode is TimeMode.EVENT else gap.from_us
    end_us = None if last_us is None else end_of(last_us)
    watermark_us, bound_us = state.watermark.watermark_us, state.bound_us
    if end_us is not None and bound_us is not None and end_us < bound_us:
        watermark_us, bound_us = end_us + spec.lateness_us, end_us
    watermark = replace(state.watermark, shards=shards, watermark_us=watermark_us)
    return replace(after, watermark=watermark, bound_us=bound_us), leap


def goes_back(state: Manifest, machine_us: int, plan: PhysicalPlan) -> bool:
    """Whether a batch sets the clock back over a gap while windows wait for the clock alone."""
    before = _clock_of(state)
    return (
        plan.watermark.mode is TimeMode.PROCESSING
        and plan.close.window.waits_for_clock
        and next_clock(before, machine_us)[1] is Leap.RETURNED
    )


def _clock_of(state: Manifest) -> Clock | None:
    if state.clock_us is None:
        return None
    return Clock(
        us=state.clock_us,
        machine_us=state.clock_us if state.machine_us is None else state.machine_us,
        gaps=tuple(Gap(from_us=first, to_us=last) for first, last in state.gaps),
    )


def _ahead(before: Clock, machine_us: int) -> tuple[Clock, Leap | None]:
    if machine_us - before.us <= LEAP_US:
        return Clock(us=machine_us, machine_us=machine_us, gaps=before.gaps), None
    gaps = (*before.gaps, Gap(from_us=before.us, to_us=machine_us))[-_GAPS:]
    return Clock(us=machine_us, machine_us=machine_us, gaps=gaps), Leap.AHEAD


def _gap_of(before: Clock, machine_us: int) -> Gap | None:
    """The gap into which the machine's clock went back; a small step back does not count."""
    if before.us - machine_us <= LEAP_US:
        return None
    return next(
        (gap for gap in before.gaps if gap.from_us - LEAP_US <= machine_us < gap.to_us), None
    )
