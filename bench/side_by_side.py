"""Sixteen queries in one session: what they do together, and whether one of them starves."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg
from bench.activity import Activity, TaskWatch
from bench.report import Report, Table, paired
from bench.rounds import Harness, in_turn, progress
from bench.timings import CORES
from bench.workload import Workload, generate, read_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.engine.stream import Run
    from tidegate.metrics.report import BatchReport

QUERIES = 16
# Batches of each query.
BATCHES = 8
SQL = """
    SELECT key, count(*) AS n, sum(value) AS total, min(value) AS low, max(value) AS high
    FROM events GROUP BY tumblingwindow('ss', 10), key
"""

# The query that could take all cores: each of its batches has many tasks.
HEAVY_TASKS, HEAVY_ROWS = 64, 8_000_000
HEAVY_SQL = """
    SELECT value % 1000 AS key, count(*) AS n, sum(value) AS total, max(sqrt(value)) AS high
    FROM heavy GROUP BY TUMBLE(timestamp, INTERVAL '10' SECOND), value % 1000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Queries that ran side by side over all rows, each over its part.

    Attributes:
        seconds: from when there is something to read until all of it is read.
        activity: what the cores did.
        batches: how many batches each query had committed when the first one had all of its own.
        rows: how many rows the results of all count.
    """

    seconds: float
    activity: Activity
    batches: Sequence[int]
    rows: int

    @property
    def slowest_share(self) -> float:
        """The batches of the slowest query over the mean of all."""
        return min(self.batches) / statistics.mean(self.batches)


def side_by_side(harness: Harness) -> Report:
    """Compare sixteen queries with one that has all of their rows, and with a heavy one beside."""
    workload = Workload(
        name="side-by-side",
        rows=harness.rows_or(16_000_000),
        files=QUERIES * BATCHES,
        span_seconds=160,
        jitter_us=2_000_000,
    )
    source = generate(harness.spark, workload)
    competing = ("one query", f"{QUERIES} queries", f"{QUERIES} beside a heavy one")
    found: dict[str, list[Together]] = {label: [] for label in competing}
    for number in range(harness.rounds + 1):
        for label in in_turn(competing, number + 1):
            together = _run(
                harness,
                source,
                queries=1 if label == competing[0] else QUERIES,
                heavy=label == competing[2],
            )
            progress(f"side_by_side: round {number}: {label} {together.seconds:.1f} s")
            if number:  # the first warms up
                found[label].append(together)
    one, sixteen, beside = (found[label] for label in competing)
    failures = [
        f"{label}: results count {each.rows:,} rows of {workload.rows:,}"
        for label, runs in found.items()
        for each in runs
        if each.rows != workload.rows
    ]
    table = Table(
        title=f"side_by_side: {workload.rows:,} rows, {BATCHES} batches a query, median of "
        f"{harness.rounds}",
        header=["", "M rows/s", "seconds", "slowest's share", *CORES],
        rows=[_line(label, runs, workload.rows) for label, runs in found.items()],
        notes=failures or ["every row is in the results"],
    )
    figures = [
        paired("sixteen_vs_one", _seconds(one), _seconds(sixteen)),
        paired("slowest_share", [each.slowest_share for each in sixteen], [1.0] * len(sixteen)),
        paired("beside_heavy_vs_without", _seconds(beside), _seconds(sixteen)),
    ]
    return Report(tables=[table], figures=figures, failures=failures)


def _seconds(runs: Sequence[Together]) -> list[float]:
    return [each.seconds for each in runs]


def _line(label: str, runs: Sequence[Together], rows: int) -> list[str]:
    seconds = statistics.median(_seconds(runs))
    cores = (statistics.median(column(each.activity) for each in runs) for column in CORES.values())
    return [
        label,
        f"{rows / seconds / 1e6:.2f}",
        f"{seconds:.1f}",
        f"{statistics.median(each.slowest_share for each in runs):.2f}",
        *(f"{value:.1f}" for value in cores),
    ]


def _run(harness: Harness, source: Path, *, queries: int, heavy: bool) -> Together:
    spark = harness.spark
    folder = Path(tempfile.mkdtemp(prefix="side-by-side-", dir=harness.scratch))
    done: list[int] = [0] * queries
    at_first_end: list[int] = []

    def tell(query: int) -> None:
        done[query] += 1
        if done[query] == BATCHES and not at_first_end:
            at_first_end.extend(done)

    try:
        for number in range(queries):
            (folder / str(number) / "in").mkdir(parents=True)
            _share(source, folder / str(number), number, queries)
        with _heavy(spark, folder / "heavy", wanted=heavy), TaskWatch(spark) as watch:
            runs = [
                _start(spark, folder / str(number), QUERIES // queries, number, tell)
                for number in range(queries)
            ]
            # Only now have they anything to read: starting sixteen takes longer than a batch.
            started = time.perf_counter()
            for number in range(queries):
                (folder / str(number) / "share").replace(folder / str(number) / "in")
            for run in runs:
                run.query.processAllAvailable()
            seconds = time.perf_counter() - started
        for run in runs:
            run.stop(drain=True)
        rows = sum(_rows(spark, folder / str(number) / "out") for number in range(queries))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Together(
        seconds=seconds, activity=watch.activity(), batches=tuple(at_first_end), rows=rows
    )


def _share(source: Path, folder: Path, number: int, queries: int) -> None:
    """Link the files of a query: each has some of every part of the time."""
    (folder / "share").mkdir()
    for index, file in enumerate(sorted(source.glob("events-*.parquet"))):
        if index % queries == number:
            os.link(file, folder / "share" / file.name)


def _start(
    spark: SparkSession, folder: Path, files: int, number: int, tell: Callable[[int], None]
) -> Run:
    def on_batch(report: BatchReport) -> None:
        if report.kind == "batch":
            tell(number)

    query = tg.sql(
        SQL,
        settings={"event_time_field": "ts", "watermark_lag": "5s"},
        streams={"events": read_stream(spark, folder / "in", files)},
    )
    return query.start(
        sink=str(folder / "out"),
        checkpoint=str(folder / "checkpoint"),
        on_batch=on_batch,
    )


@contextmanager
def _heavy(spark: SparkSession, folder: Path, *, wanted: bool) -> Iterator[None]:
    """Run a query with large batches meanwhile."""
    if not wanted:
        yield
        return
    rows = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=HEAVY_ROWS, numPartitions=HEAVY_TASKS, advanceMillisPerBatch=5_000)
        .load()
    )
    run = tg.sql(HEAVY_SQL, streams={"heavy": rows}).start(
        sink=str(folder / "out"), checkpoint=str(folder / "checkpoint")
    )
    try:
        yield
    finally:
        run.stop()


def _rows(spark: SparkSession, folder: Path) -> int:
    found = spark.read.parquet(str(folder)).selectExpr("sum(n)").first()
    assert found is not None
    return int(found[0])
