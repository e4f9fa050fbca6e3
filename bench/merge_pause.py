"""The longest batch among its neighbours, where segments of many rows are merged."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bench.batches import batches_of
from bench.report import Report, Table, paired
from bench.rounds import Harness, progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.metrics.report import BatchReport

BATCHES, LEFT_OUT = 24, 3
ROWS = 500_000
# A batch brings rows of so many seconds of event time.
SECONDS = 10
STARTS = 1_767_225_600
SCHEMA = "ts TIMESTAMP, page INT, amount DOUBLE"
SQL = """
    SELECT page, sum(amount) AS total, window_trigger() AS at
    FROM events GROUP BY slidingwindow('mi', 30, 0) OVER (PARTITION BY page), page
"""


def merge_pause(harness: Harness) -> Report:
    """Compare the longest batch with the median one: sliding windows with a long lookback."""
    rows = harness.rows_or(ROWS)
    rounds = [_reports(harness, rows)[LEFT_OUT:] for _ in range(harness.rounds)]
    failures = [
        f"round {number}: no segments were merged"
        for number, reports in enumerate(rounds, start=1)
        if not any(report.merges for report in reports)
    ]
    table = Table(
        title=f"merge_pause: {rows:,} rows a batch, {len(rounds[0])} batches",
        header=["round", "median ms a batch", "least", "most", "merges"],
        rows=[_line(number, reports) for number, reports in enumerate(rounds, start=1)],
        notes=failures or ["segments were merged meanwhile"],
    )
    figure = paired(
        "worst_vs_median",
        [max(_durations_ms(reports)) for reports in rounds],
        [statistics.median(_durations_ms(reports)) for reports in rounds],
        target="<= 2.0",
    )
    return Report(tables=[table], figures=[figure], failures=failures)


def _durations_ms(reports: Sequence[BatchReport]) -> list[int]:
    return [report.duration_ms for report in reports]


def _line(number: int, reports: Sequence[BatchReport]) -> list[str]:
    durations = _durations_ms(reports)
    return [
        str(number),
        f"{statistics.median(durations):.0f}",
        str(min(durations)),
        str(max(durations)),
        str(sum(report.merges for report in reports)),
    ]


def _reports(harness: Harness, rows: int) -> Sequence[BatchReport]:
    def batches(spark: SparkSession) -> Iterator[DataFrame]:
        return _batches(spark, rows)

    settings = {"event_time_field": "ts", "watermark_lag": "2s"}
    reports = batches_of(harness, SQL, SCHEMA, settings, batches).reports
    progress(f"merge_pause: {[report.duration_ms for report in reports]} ms")
    return reports


def _batches(spark: SparkSession, rows: int) -> Iterator[DataFrame]:
    for number in range(BATCHES):
        second = f"{STARTS + number * SECONDS}000L"
        yield spark.range(number * rows, (number + 1) * rows).selectExpr(
            f"timestamp_millis({second} + pmod(hash(id), {SECONDS}000)) AS ts",
            "CAST(pmod(xxhash64(id), 10000) AS INT) AS page",
            "CAST(pmod(id, 100) AS DOUBLE) AS amount",
        )
