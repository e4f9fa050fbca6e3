"""The same query over a table: one job, the final answers, no state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.job import FIRST
from tidegate.engine.partials import Bounds, accumulated, close, update
from tidegate.engine.prepare import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job

EVERYTHING = Bounds(after_us=None, upto_us=None)


def final_results(rows: DataFrame, job: Job) -> DataFrame:
    """Return the results of prepared rows as if every window had closed and nothing had been
    late."""
    classified = classify(rows, job.plan, job.grid, FIRST)
    partials = accumulated(update(classified, job.aggregation), job.aggregation)
    return job.finisher.finish(close(partials, job.aggregation, job.grid, EVERYTHING), epoch=0)
