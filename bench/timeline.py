"""Where the time of a steady batch of ``tumbling_10s`` goes: a timeline, ours and Spark's own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.activity import Activity, TaskWatch, activity_of, ms_of
from bench.contenders import (
    CONTENDERS,
    Paths,
    Progress,
    Question,
    batches_with_rows,
    start_tidegate,
)
from bench.report import Report, Table
from bench.rounds import Harness, progress
from bench.throughput import tumbling
from bench.workload import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.engine.stream import Run
    from tidegate.metrics.report import BatchReport

# The first batches compile code and close no windows.
LEFT_OUT = 3

# What Spark does before it hands a batch over, in this order, and afterwards; by the names that
# ``StreamingQueryProgress.durationMs`` has for it.
BEFORE = ("latestOffset", "walCommit", "getBatch", "queryPlanning")
AFTER = ("commitOffsets",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From one time to another, in ms since 1970."""

    from_ms: float
    to_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(Interval):
    """A statement that Spark ran, and its jobs in the order of time."""

    jobs: Sequence[Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Interval):
    """A part of a batch."""

    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A batch: its parts, one after another, and what the cores did in each."""

    parts: Sequence[tuple[str, Activity]]

    @property
    def labels(self) -> tuple[str, ...]:
        """The parts in their order."""
        return tuple(label for label, _ in self.parts)


def timeline(harness: Harness) -> Report:
    """Print the parts of a steady batch, medians over all of ``--rounds`` runs."""
    warm_up, *rounds = (_round(harness, number) for number in range(harness.rounds + 1))
    ours = [batch for round_ in rounds for batch in round_.ours]
    theirs = [batch for round_ in rounds for batch in round_.theirs]
    reports = [report for round_ in rounds for report in round_.reports]
    del warm_up
    tables = [
        _table("timeline of a batch of tumbling_10s, Tidegate", ours),
        _table("timeline of a batch of tumbling_10s, Spark's own operator", theirs),
        _phases(reports),
    ]
    return Report(tables=tables, figures=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """The steady batches of one run of each."""

    ours: Sequence[Timeline]
    reports: Sequence[BatchReport]
    theirs: Sequence[Timeline]


def _round(harness: Harness, number: int) -> _Round:
    spark, question = harness.spark, tumbling(harness, 10)
    source = generate(spark, question.workload)
    folder = Path(tempfile.mkdtemp(prefix="timeline-", dir=harness.scratch))

    def paths(name: str) -> Paths:
        below = folder / name
        return Paths(source=source, results=below / "results", checkpoint=below / "checkpoint")

    try:
        with TaskWatch(spark) as watch:
            run = _fed(spark, question, paths("ours"))
        ours = _timelines(spark, batches_with_rows(run.query), watch)
        with TaskWatch(spark) as watch:
            batches = CONTENDERS["spark"](spark, question, paths("theirs"))
        theirs = _timelines(spark, batches, watch)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    progress(f"timeline: round {number} of {harness.rounds}")
    return _Round(ours=ours, reports=run.reports[LEFT_OUT:], theirs=theirs)


def _fed(spark: SparkSession, question: Question, paths: Paths) -> Run:
    """Hand one file after the other to a query of Tidegate, so that it never has a backlog."""
    folder = paths.results.parent / "fed"
    folder.mkdir(parents=True)
    run = start_tidegate(spark, question, replace(paths, source=folder), once=False)
    for path in sorted(paths.source.glob("*.parquet")):
        os.link(path, folder / path.name)
        run.query.processAllAvailable()
    run.stop()
    return run


def _timelines(
    spark: SparkSession, batches: Sequence[Progress], watch: TaskWatch
) -> list[Timeline]:
    """Return the timelines of batches that ran while their tasks were watched."""
    statements = [each for each in _statements(spark) if each.from_ms >= watch.started_ms]
    return [
        Timeline(
            parts=[
                (span.label, activity_of(watch.tasks, span.from_ms, span.to_ms, watch.cores))
                for span in spans_of(batch, statements)
            ]
        )
        for batch in batches[LEFT_OUT:]
    ]


def spans_of(batch: Progress, statements: Sequence[Statement]) -> list[Span]:
    """Return the parts of a batch, which follow each other without a gap.

    Spark tells how long its own parts take, but not when; they are put where they belong: those of
    ``BEFORE`` from the start of the batch on, those of ``AFTER`` at its end.
    """
    durations = batch["durationMs"]
    starts_ms = ms_of(batch["timestamp"].replace("Z", "GMT"))
    ends_ms = starts_ms + durations["triggerExecution"]
    borders = [("", float(starts_ms))]
    for name in BEFORE:
        borders.append((f"Spark: {name}", borders[-1][1] + durations.get(name, 0)))
    handed_back_ms = ends_ms - sum(durations.get(name, 0) for name in AFTER)
    handed_over_ms = max(borders[-1][1], handed_back_ms - durations.get("addBatch", 0))
    borders.append(("Spark: other", handed_over_ms))
    within = [each for each in statements if starts_ms <= each.from_ms < ends_ms]
    for number, statement in enumerate(sorted(within, key=lambda each: each.from_ms), start=1):
        borders += _borders(number, statement)
    borders.append(("driver: after the statements", handed_back_ms))
    borders += [(f"Spark: {name}", ends_ms) for name in AFTER]
    return _following(borders)


def _borders(number: int, statement: Statement) -> Iterator[tuple[str, float]]:
    yield f"driver: before statement {number}", statement.from_ms
    for index, job in enumerate(statement.jobs):
        planned = "driver: between its jobs" if index else "driver: plan it, set up its job"
        yield planned, job.from_ms
        yield "JOB", job.to_ms
    yield "driver: commit its files", statement.to_ms


def _following(borders: Sequence[tuple[str, float]]) -> list[Span]:
    """Return the spans between borders; a label belongs to the time before its border."""
    spans, from_ms = [], borders[0][1]
    for label, at in borders[1:]:
        to_ms = max(from_ms, at)
        spans.append(Span(label=label, from_ms=from_ms, to_ms=to_ms))
        from_ms = to_ms
    return spans


def _statements(spark: SparkSession) -> Iterator[Statement]:
    """Return the statements with jobs that Spark still knows."""
    context: Any = spark.sparkContext
    session: Any = spark._jsparkSession
    writer = context._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter()
    listed = context._jsc.sc().statusStore().jobsList(None)
    jobs = {
        job["jobId"]: Interval(
            from_ms=ms_of(job["submissionTime"]), to_ms=ms_of(job["completionTime"])
        )
        for job in json.loads(writer.mapper().writeValueAsString(listed))
        if "completionTime" in job
    }
    executions = session.sharedState().statusStore().executionsList()
    for execution in (executions.apply(number) for number in range(executions.size())):
        numbers = str(execution.jobs().keySet().mkString(",")).split(",")
        ran = [jobs[int(number)] for number in numbers if number and int(number) in jobs]
        if ran and execution.completionTime().isDefined():
            yield Statement(
                from_ms=execution.submissionTime(),
                to_ms=execution.completionTime().get().getTime(),
                jobs=sorted(ran, key=lambda job: job.from_ms),
            )


def _table(title: str, timelines: Sequence[Timeline]) -> Table:
    """Return the medians of each part, over the batches that have the parts that most have."""
    (labels, count), *_ = Counter(each.labels for each in timelines).most_common()
    alike = [each for each in timelines if each.labels == labels]
    rows = [
        [label, *_cells([each.parts[place][1] for each in alike])]
        for place, label in enumerate(labels)
    ]
    totals = [_total([part for _, part in each.parts]) for each in alike]
    return Table(
        title=f"{title}: medians of {count} of {len(timelines)} batches, in ms",
        header=["", "time", "cpu of tasks", "no task", "a core idle"],
        rows=[*rows, ["the batch", *_cells(totals)]],
    )


def _total(parts: Sequence[Activity]) -> Activity:
    return Activity(
        seconds=sum(part.seconds for part in parts),
        cpu=sum(part.cpu for part in parts),
        run=sum(part.run for part in parts),
        no_task=sum(part.no_task for part in parts),
        some_idle=sum(part.some_idle for part in parts),
    )


def _cells(parts: Sequence[Activity]) -> list[str]:
    columns = [(part.seconds, part.cpu, part.no_task, part.some_idle) for part in parts]
    return [f"{median(values) * 1000:.0f}" for values in zip(*columns, strict=True)]


def _phases(reports: Sequence[BatchReport]) -> Table:
    """Return how long the phases of a step take, by our own reports."""
    names = list(reports[0].phases_ms)
    return Table(
        title=f"phases of a step of Tidegate: medians of {len(reports)} batches, in ms",
        header=["", *names, "the step"],
        rows=[
            [
                "ms",
                *(f"{median(report.phases_ms[name] for report in reports):.0f}" for name in names),
                f"{median(report.duration_ms for report in reports):.0f}",
            ]
        ],
    )
