"""The same query over a table: one job, the final answers, no state."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from tidegate.engine.frames import over
from tidegate.engine.ordered import OrderedOperator
from tidegate.engine.paned import PaneOperator
from tidegate.engine.prepare import BatchStart
from tidegate.engine.sessions import SessionOperator
from tidegate.engine.sliding import SlidingOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job


def final_results(rows: DataFrame, job: Job) -> DataFrame:
    """Return the results of prepared rows: all come in one batch, and every window closes."""
    operator = job.operator
    start = BatchStart(epoch=0, clock_us=time_ns() // 1000)
    match operator:
        case PaneOperator():
            placed = operator.shape.place(rows, job.plan, operator.grid, start)
            windows = operator.due_windows("{frame}", None, None)
            groups = over(
                operator.shape.kept(placed), operator.shape.groups(windows, operator.grid)
            )
        case SessionOperator() | OrderedOperator() | SlidingOperator():
            groups = operator.final_groups(rows, start)
        case _:
            raise AssertionError("the planner keeps other windows out")
    return job.finisher.finish(groups, epoch=0)
