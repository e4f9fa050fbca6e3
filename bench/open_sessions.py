"""The cost of a close beside many open sessions: what is due and may go on, not what is open."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.batches import batches_of
from bench.report import Report, Table, paired
from bench.rounds import Harness, progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.metrics.report import BatchReport

FEW, MANY = 10_000, 3_000_000
SCHEMA = "ts TIMESTAMP, user BIGINT, amount DOUBLE"
# Sessions are opened in so many batches, then closed in these; the first closes are not counted.
FILLS, CLOSES, LEFT_OUT = 10, 20, 5
ENDING = 500
ROWS = 1_000
# Longer than the time over which sessions are opened, so that all of them are open at once.
GAP_SECONDS = 7_200
STARTS = 1_767_225_600
SQL = f"""
    SELECT user, count(*) AS n, sum(amount) AS total, window_end() AS e
    FROM events GROUP BY sessionwindow('ss', {GAP_SECONDS}), user
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """The batches that close, in one run beside so many open sessions.

    Attributes:
        open_sessions: how many are open.
        closes: the reports.
        durations_ms: from the end of the batch before to the end of each.
    """

    open_sessions: int
    closes: Sequence[BatchReport]
    durations_ms: Sequence[float]

    def failures(self) -> list[str]:
        """Return a sentence for each batch that closed a wrong number of sessions."""
        return [
            f"{self.open_sessions:,} open: epoch {report.epoch} closed {report.closed_windows}, "
            f"not {ENDING}"
            for report in self.closes
            if report.closed_windows != ENDING
        ]


def open_sessions(harness: Harness) -> Report:
    """Compare batches of 1,000 rows that end 500 sessions, beside few open ones and many."""
    most = harness.rows_or(MANY)
    for _ in range(harness.warm_ups):
        _lifetime(harness, most // 10)
    rounds = [[_lifetime(harness, count) for count in (FEW, most)] for _ in range(harness.rounds)]
    failures = [text for each in rounds for lifetime in each for text in lifetime.failures()]
    table = Table(
        title=f"open_sessions: {ROWS:,} rows a batch, {ENDING} sessions end, "
        f"{CLOSES - LEFT_OUT} batches in each of {harness.rounds} rounds",
        header=["open", "median ms a batch", "least", "most"],
        rows=[_line(lifetime) for each in rounds for lifetime in each],
        notes=failures or ["every batch closed the sessions that it had to"],
    )
    few, many = ([statistics.median(each[n].durations_ms) for each in rounds] for n in (0, 1))
    figure = paired("open_3m_vs_10k", many, few, target="<= 1.3")
    return Report(tables=[table], figures=[figure], failures=failures)


def _line(lifetime: Lifetime) -> list[str]:
    durations = lifetime.durations_ms
    return [
        f"{lifetime.open_sessions:,}",
        f"{statistics.median(durations):.0f}",
        f"{min(durations):.0f}",
        f"{max(durations):.0f}",
    ]


def _lifetime(harness: Harness, open_at_once: int) -> Lifetime:
    def batches(spark: SparkSession) -> Iterator[DataFrame]:
        return _batches(spark, open_at_once)

    run = batches_of(harness, SQL, SCHEMA, {"event_time_field": "ts"}, batches)
    counted = FILLS + LEFT_OUT
    lifetime = Lifetime(
        open_sessions=open_at_once,
        closes=run.reports[counted:],
        durations_ms=run.intervals_ms[counted - 1 :],
    )
    progress(f"{open_at_once:,} open: {[round(ms) for ms in run.intervals_ms]} ms")
    return lifetime


def _batches(spark: SparkSession, open_at_once: int) -> Iterator[DataFrame]:
    """Return the rows of each batch: the fills in the order of time, then the closes."""
    # ENDING of the opened sessions are due in each second after the gap.
    opened = f"timestamp_millis({STARTS}000L + id * {1_000 // ENDING}L)"
    share = open_at_once // FILLS
    for number in range(FILLS):
        rows = spark.range(number * share, (number + 1) * share)
        mixed = rows.selectExpr(
            f"{opened} AS ts", "id AS user", "1D AS amount", "hash(id) AS place"
        )
        yield mixed.orderBy("place").drop("place")
    for number in range(CLOSES):
        # A session ends just after the gap.
        at = f"timestamp_millis({STARTS + GAP_SECONDS + number + 1}000L - 1)"
        first = open_at_once + number * ROWS
        yield spark.range(first, first + ROWS).selectExpr(
            f"{at} AS ts", "id AS user", "1D AS amount"
        )
