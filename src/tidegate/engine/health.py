"""What a started query says of its health."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.metrics.health import Probe, QueryHealth, State
from tidegate.time import format_time

if TYPE_CHECKING:
    from tidegate.engine.batches import Batches


def health_of(
    name: str, batches: Batches, failure: Exception | None, *, is_active: bool
) -> QueryHealth:
    """Return what a query does now, or one that runs with it.

    Args:
        name: its name.
        batches: the batches of the query that was started.
        failure: why it has failed, None if it has not.
        is_active: whether Spark's query is running.
    """
    now = time.monotonic()
    steppers = batches.steppers
    first = (steppers.first, batches.watch)
    stepper, watch = first if name == batches.name else steppers.by_name()[name]
    state = stepper.state
    watermark_us = state.watermark.watermark_us
    last, busy = watch.last_step, batches.busy_since
    ended = State.ENDED if failure is None else State.FAILED
    return QueryHealth(
        state=State.RUNNING if is_active else ended,
        failure=None if failure is None else str(failure).split("\n", 1)[0],
        batch_id=None if state.batch_id < 0 else state.batch_id,
        watermark=None if watermark_us is None else format_time(watermark_us),
        last_batch_age_seconds=None if last is None else round(now - last, 3),
        batch_running_seconds=None if busy is None else round(now - busy, 3),
    )


def probe_of(health: Callable[[str], QueryHealth], name: str) -> Probe:
    """Return what asks a method of a handle as long as the handle exists, then returns None."""
    found = weakref.WeakMethod(health)

    def probe() -> QueryHealth | None:
        method = found()
        return None if method is None else method(name)

    return probe
