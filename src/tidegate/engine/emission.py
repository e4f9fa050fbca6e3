"""Emission: the results of a step on their way out, counted and sampled while they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.engine.samples import counted_results
from tidegate.engine.windows.operator import Closed
from tidegate.metrics.report import Emissions
from tidegate.plan.columns import ERROR
from tidegate.spark.observe import observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What was emitted; failed results are in ``closed`` (see ``Finisher.closed``)."""

    numbers: Emissions = field(default_factory=Emissions)
    closed: DataFrame | None = None
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What takes the results of a step, and how many of them its manifest keeps."""

    write: Callable[[DataFrame | None], None]
    samples: int


def emit(closed: Closed, early: DataFrame | None, epoch: int, job: Job, way: Way) -> Emitted:
    """Write the results of a step.

    Args:
        closed: what closed; where nothing did, only early results are written.
        early: provisional results of open windows, None without.
        epoch: the step.
        job: what runs.
        way: where they go.
    """
    provisional: DataFrame | None = None
    provisional_rows: Callable[[], dict[str, int]] = dict
    if early is not None:
        provisional, provisional_rows = observed(
            job.finisher.finish(early, epoch, final=False), {"rows": "count(1)"}
        )
    if closed.groups is None:
        way.write(provisional)
        if provisional is None:
            return Emitted()
        return Emitted(numbers=Emissions(early_rows=_rows(provisional_rows)))
    failing: DataFrame | None = None
    failed: Callable[[], dict[str, int]] = dict
    if job.finisher.can_fail:
        failing = job.finisher.closed(closed.groups, epoch)
        watched, failed = observed(failing, {"failed": f"count_if({ERROR} IS NOT NULL)"})
        results = job.finisher.results(watched)
    else:
        results = job.finisher.finish(closed.groups, epoch)
    known = None if job.finisher.drops_rows else closed.rows
    results, count, sample = counted_results(results, job.plan, known, way.samples)
    if provisional is not None:
        results = results.unionByName(provisional)
    way.write(results)
    emitted = Emissions(
        closed_windows=closed.windows(),
        rows_out=count(),
        early_rows=provisional_rows().get("rows", 0),
        result_errors=failed().get("failed", 0),
    )
    return Emitted(numbers=emitted, closed=failing, sample=sample())


def _rows(numbers: Callable[[], dict[str, int]]) -> int:
    return numbers()["rows"]
