"""A day of one-second batches: does anything grow with the number of batches?

The first batches of a query are run, then the day passes for the checkpoint alone, then the last
batches of the day are run. In between every epoch goes through the state store as a step would
take it (``bench.day_store``); only rows and Spark's jobs are left out.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg
from bench.day_files import file_source
from bench.day_store import advance
from bench.report import Report, Table, format_bytes, paired
from bench.rounds import Harness, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.engine.stream import Run
    from tidegate.metrics.report import BatchReport

DAY = 86_400
# Of each end of the day so many batches are run, after some to warm up; and so many restarts.
BATCHES, WARM_UP, RESTARTS = 1_000, 100, 5
ROWS = 1_000
SQL = """
    SELECT value % 100 AS k, count(*) AS n, sum(value) AS total
    FROM r GROUP BY TUMBLE(timestamp, INTERVAL '10' SECOND), value % 100
"""


@dataclass(slots=True, kw_only=True)
class End:
    """What was measured at one end of the day; times in ms."""

    name: str
    steps_ms: list[int] = field(default_factory=list)
    batches_ms: list[int] = field(default_factory=list)
    restarts_ms: list[float] = field(default_factory=list)
    store_ms: Sequence[float] = ()
    files: int = 0
    bytes: int = 0


def day(harness: Harness) -> Report:
    """Compare the first batches of a day with the last ones; ``--rows`` is how many of each."""
    batches = harness.rows_or(BATCHES)
    folder = Path(tempfile.mkdtemp(prefix="day-", dir=harness.scratch))
    first, last = End(name="the first"), End(name="the last")
    try:
        query = _Query(harness.spark, folder)
        query.measure(first, batches)
        passed = advance(harness.spark, folder / "checkpoint", folder / "results", DAY - batches)
        first.store_ms, last.store_ms = passed[:batches], passed[-batches:]
        query.measure(last, batches)
        epoch = query.newest_epoch
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failures = [] if epoch >= DAY else [f"the day ended at epoch {epoch}, not {DAY}"]
    table = Table(
        title=f"day: a query of one-second batches, the first {batches:,} and the last {batches:,} "
        f"of {DAY:,}; medians",
        header=[
            "",
            "ms a batch",
            "p99 ms",
            "ms a step",
            "store ms",
            "restart ms",
            "files",
            "size",
        ],
        rows=[_line(first), _line(last)],
        notes=failures or [f"the query went on to epoch {epoch:,}"],
    )
    figures = [
        paired("day_batch_last_vs_first", last.batches_ms, first.batches_ms, target="<= 1.1"),
        paired("day_restart_last_vs_first", last.restarts_ms, first.restarts_ms, target="<= 1.1"),
        paired("day_store_last_vs_first", last.store_ms, first.store_ms, target="<= 1.1"),
    ]
    tables = [table, file_source(harness, DAY)]
    return Report(tables=tables, figures=figures, failures=failures)


def _line(end: End) -> list[str]:
    return [
        end.name,
        f"{statistics.median(end.batches_ms):.0f}",
        f"{statistics.quantiles(end.batches_ms, n=100)[-1]:.0f}",
        f"{statistics.median(end.steps_ms):.0f}",
        f"{statistics.median(end.store_ms):.2f}",
        f"{statistics.median(end.restarts_ms):.0f}",
        str(end.files),
        format_bytes(end.bytes),
    ]


class _Query:
    """The query of the day, started again and again on its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        rows = (
            spark.readStream.format("rate-micro-batch")
            .options(rowsPerBatch=ROWS, numPartitions=1, advanceMillisPerBatch=1_000)
            .load()
        )
        self._query = tg.sql(SQL, streams={"r": rows})
        self._folder = folder
        self.newest_epoch = -1

    def measure(self, end: End, batches: int) -> None:
        """Run batches and restarts, and weigh the checkpoint."""
        reports: list[BatchReport] = []
        run = self._run(WARM_UP + batches, reports)
        end.steps_ms = [report.duration_ms for report in reports[WARM_UP:][:batches]]
        end.batches_ms = [
            each["durationMs"]["triggerExecution"]
            for each in run.query.recentProgress
            if "addBatch" in each["durationMs"]
        ][-batches:]
        for _ in range(RESTARTS):
            started = time.perf_counter()
            self._run(1, [])
            end.restarts_ms.append((time.perf_counter() - started) * 1000)
        files = [path for path in (self._folder / "checkpoint").rglob("*") if path.is_file()]
        end.files, end.bytes = len(files), sum(path.stat().st_size for path in files)
        progress(
            f"day: {end.name} batches, until epoch {self.newest_epoch}: "
            f"{statistics.median(end.batches_ms):.0f} ms a batch, "
            f"{statistics.median(end.restarts_ms):.0f} ms a restart, {end.files} files"
        )

    def _run(self, batches: int, reports: list[BatchReport]) -> Run:
        done = threading.Event()

        def on_batch(report: BatchReport) -> None:
            reports.append(report)
            self.newest_epoch = report.epoch
            if len(reports) == batches:
                done.set()

        run = self._query.start(
            sink=str(self._folder / "results"),
            checkpoint=str(self._folder / "checkpoint"),
            on_batch=on_batch,
        )
        while not done.wait(timeout=1):
            assert run.query.isActive, run.query.exception()
        run.stop()
        return run
