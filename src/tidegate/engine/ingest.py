"""Ingest: job 1 of a batch. Rows become partials, the partials a segment, and the job counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.engine.faults import fault_point
from tidegate.engine.manifest import Segment
from tidegate.engine.observe import observed
from tidegate.engine.panes import PANE
from tidegate.engine.partials import LAST_CLOCK, LAST_TIME, ROWS, accumulated, update
from tidegate.engine.prepare import FATE, UNTIMED, BatchStart, Fate, classify
from tidegate.engine.report import Counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.state import StateStore

_KEPT = f"{FATE} = {Fate.ACCUMULATED.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What job 1 did; ``event_time_us`` is the greatest valid event time, None when no row had
    one."""

    segment: Segment | None = None
    counts: Counts = field(default_factory=Counts)
    event_time_us: int | None = None
    clock_us: int | None = None


def ingest(rows: DataFrame, job: Job, store: StateStore, start: BatchStart) -> Ingested:
    """Write the segment of an epoch; a batch that accumulates nothing leaves none."""
    fault_point("before_segment", start.epoch)
    store.set_tasks(job.partitions)
    partials = update(classify(rows, job.plan, job.grid, start), job.aggregation)
    watched, numbers = observed(partials, _numbers(job, start))
    name = str(start.epoch)
    store.write_segment(name, accumulated(watched, job.aggregation))
    seen = numbers()
    if not seen["groups"]:
        store.delete_segment(name)
    fault_point("after_segment", start.epoch)
    return _ingested(name, seen)


def _numbers(job: Job, start: BatchStart) -> dict[str, str]:
    """What to observe on partials: few expressions, since each is computed for every partial.

    Rows that are not accumulated are at most one partial for each fate and task, so they come as a
    list.
    """
    other = (
        f"named_struct('fate', {FATE}, 'rows', {ROWS}, 'time', {LAST_TIME}, 'clock', {LAST_CLOCK})"
    )
    numbers = {
        "groups": f"count_if({_KEPT})",
        "rows": f"sum(IF({_KEPT}, {ROWS}, 0))",
        "time": f"max(IF({_KEPT}, {LAST_TIME}, NULL))",
        "clock": f"max({LAST_CLOCK})",
        "first": f"min({PANE})",
        "last": f"max({PANE})",
        "others": f"collect_list(IF({_KEPT}, NULL, {other}))",
    }
    if start.closed_us is not None and not job.grid.single:
        first_end = job.grid.first_end_sql(PANE)
        numbers["partial"] = f"sum(IF({_KEPT} AND {first_end} <= {start.closed_us}L, {ROWS}, 0))"
    return numbers


def _ingested(name: str, seen: dict[str, Any]) -> Ingested:
    others = {fate: 0 for fate in Fate}
    times = [seen["time"]]
    for row in seen["others"]:
        fate = Fate(row["fate"])
        others[fate] += row["rows"]
        if fate not in UNTIMED:
            times.append(row["time"])
    kept = seen["rows"] or 0
    counts = Counts(
        rows_in=kept + sum(others.values()),
        accumulated=kept,
        late=others[Fate.LATE],
        error=sum(others[fate] for fate in UNTIMED),
        filtered=others[Fate.FILTERED],
        outside_windows=others[Fate.OUTSIDE_WINDOWS],
        partial=seen.get("partial") or 0,
    )
    segment = None
    if seen["groups"]:
        segment = Segment(
            name=name,
            level=0,
            first_pane_us=seen["first"],
            last_pane_us=seen["last"],
            rows=seen["groups"],
        )
    return Ingested(
        segment=segment,
        counts=counts,
        event_time_us=max((t for t in times if t is not None), default=None),
        clock_us=seen["clock"],
    )
