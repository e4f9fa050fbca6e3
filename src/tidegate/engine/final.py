"""The same query over a table: one job that returns final results, without state."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from tidegate.engine.rows.fates import BatchStart, fate_case, judge
from tidegate.engine.side_output.records import Judged, failed_results, side_output
from tidegate.engine.windows.operator import Arrival, LateWindows
from tidegate.plan.columns import TIME
from tidegate.state.manifest import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job


def final_results(rows: DataFrame, job: Job) -> DataFrame:
    """Return the results of prepared rows: all are one batch, after which every window closes."""
    return job.finisher.finish(job.operator.final_groups(*within_limits(rows, job)), epoch=0)


def final_errors(rows: DataFrame, job: Job) -> DataFrame:
    """Return one side output record for each row and each result that fails.

    Args:
        rows: prepared rows, with the original rows if the records are to show them.
        job: the job.
    """
    start = at_present()
    no_windows = LateWindows(windows=_NO_WINDOWS, last_end=TIME)
    judged = Judged(
        plan=job.plan,
        start=start,
        watermark_us=None,
        late_windows=no_windows,
        original=job.original,
    )
    fates = judge(rows, job.plan, start, fate_case(job.plan, start, late=None))
    records = side_output(fates, judged, ["error"])
    if not job.finisher.can_fail:
        return records
    closed = job.finisher.closed(job.operator.final_groups(*within_limits(rows, job)), epoch=0)
    return records.unionByName(failed_results(closed, judged))


# A placeholder: failed rows are not late for any window.
_NO_WINDOWS = "array(named_struct('start', 0L, 'end', 0L))"


def within_limits(rows: DataFrame, job: Job) -> tuple[DataFrame, BatchStart, DataFrame | None]:
    """Return rows with duplicates and evicted ones marked, and what they are judged by.

    Also the windows and groups that a quota keeps out, None if there are none.
    """
    start, hidden = at_present(), None
    if job.duplicates is not None:
        rows, start = job.duplicates.of_table(rows, start)
    if job.quotas is not None:
        arrival = Arrival(rows=rows, start=start, state=Tables, early=Tables())
        rows, start, hidden = job.quotas.of_table(arrival)
    return rows, start, hidden


def at_present() -> BatchStart:
    """Return the start of a batch that is judged by the time of day, and has no watermark."""
    return BatchStart(epoch=0, clock_us=time_ns() // 1000)
