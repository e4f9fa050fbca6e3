"""Early results: what EMIT EARLY shows of windows that are still open.

The clock is divided into periods. In the first step of a period, results of open windows go out
with ``is_final()`` false, of those windows only that lie between the first and the last pane that
rows have come for since the results before; the manifest keeps these two panes. So what goes out
follows from the state, the rows and the clock alone, and a replay gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.engine.windows.panes.operator import PaneOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Closed, Closing
    from tidegate.state.manifest import Manifest, Segment

# The first and the last pane of rows, microseconds.
Range = tuple[int, int]


def unshown_rows(state: Manifest, segments: Iterable[Segment], job: Job) -> Range | None:
    """Return the panes of rows that no provisional result shows, those of a batch among them.

    Args:
        state: the state before the batch.
        segments: what the batch brought.
        job: the job; without EMIT EARLY nothing is remembered.
    """
    if job.plan.close.early_us is None:
        return None
    ranges = [(segment.first_us, segment.last_us) for segment in segments]
    ranges += [] if state.unshown is None else [state.unshown]
    if not ranges:
        return None
    return min(first for first, _ in ranges), max(last for _, last in ranges)


def is_due(before_us: int | None, clock_us: int | None, job: Job) -> bool:
    """Return whether provisional results go out: whether a step is the first one of its period.

    Args:
        before_us: the clock of the step before, None where there was none.
        clock_us: the clock of the step.
        job: the job.
    """
    every_us = job.plan.close.early_us
    if every_us is None or before_us is None or clock_us is None:
        return False
    return before_us // every_us != clock_us // every_us


def early_groups(
    unshown: Range | None, closing: Closing, closed: Closed, job: Job, io: StateIO
) -> DataFrame | None:
    """Return the groups of open windows with rows that no provisional result shows, None without.

    Args:
        unshown: the first and the last pane of such rows.
        closing: what the step closes.
        closed: the state after that.
        job: the job.
        io: the state.
    """
    if unshown is None or closing.bound_us is None:
        return None
    operator = job.operator
    assert isinstance(operator, PaneOperator), "EMIT EARLY is refused for other kinds"
    return operator.open_groups(closed.tables, unshown, closing.bound_us, io)
