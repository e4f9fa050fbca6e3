"""The cost of ``dedup_key`` with a million live keys: the same rows with and without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import AGGREGATES, Question
from bench.report import Report
from bench.rounds import Entry, Harness, disagreements, measure
from bench.timings import slower, timing_table
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Two files a batch, so that two cores have as much to read: Spark splits a file of this size badly.
BATCHES, FILES_A_BATCH = 8, 2
LIVE_KEYS = 1_000_000

# A row of a thousand repeats the key of the row before.
KEY = "IF(id % 1000 = 999, id - 1, id)"


def dedup(harness: Harness) -> Report:
    """Compare the times of a query with ``dedup_key`` and without, on rows of which few repeat."""
    plain = _question(harness)
    # A key lives for the horizon and until the watermark, which is behind, has passed it.
    alive_seconds = plain.workload.span_seconds * LIVE_KEYS // plain.workload.rows
    horizon_seconds = max(1, alive_seconds - plain.lag)
    settings = {"dedup_key": "value", "dedup_horizon": f"{horizon_seconds}s"}
    checked = replace(plain, name="dedup", settings=settings)
    measured = measure(
        harness,
        [
            Entry(label="dedup", contender="tidegate", question=checked),
            Entry(label="none", contender="tidegate", question=plain),
        ],
    )
    failures = disagreements(measured)
    title = f"dedup: {plain.workload.rows:,} rows in {BATCHES} batches, median of {harness.rounds}"
    table = timing_table(title, measured, failures)
    figure = slower("dedup_vs_none", measured["dedup"], measured["none"], target="<= 2")
    return Report(tables=[table], figures=[figure], failures=failures)


def _question(harness: Harness) -> Question:
    aggregates = ", ".join(f"{text} AS {column}" for column, text in AGGREGATES.items())

    def ask(rows: DataFrame) -> DataFrame:
        raise AssertionError("only Tidegate answers this question")

    return Question(
        name="no dedup",
        workload=Workload(
            name="dedup",
            rows=harness.rows_or(8_000_000),
            files=BATCHES * FILES_A_BATCH,
            span_seconds=80,
            jitter_us=2_000_000,
            value=KEY,
        ),
        sql=(
            f"SELECT key, window_start() AS s, window_end() AS e, {aggregates} "
            "FROM events GROUP BY tumblingwindow('ss', 10), key"
        ),
        ask=ask,
        columns=("key", "s", "e", *AGGREGATES),
        files_a_batch=FILES_A_BATCH,
    )
