"""Sliding windows of three lengths on the same stream: a long lookback must not cost more."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.contenders import AGGREGATES, Question
from bench.report import Report, paired
from bench.rounds import Entry, Harness, Measurements, disagreements, measure
from bench.timings import timing_table
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Lookbacks by their names in figures: unit and number in the statement, and microseconds.
LOOKBACKS = {
    "10s": ("'ss', 10", 10_000_000),
    "10min": ("'mi', 10", 600_000_000),
    "2h": ("'hh', 2", 7_200_000_000),
}
SPAN_SECONDS = 3 * 3600
FILES = 36
# The longest lookback is full after two of three hours; only later batches count.
COUNTED_FROM = 2 * FILES // 3


def sliding(harness: Harness) -> Report:
    """Compare the median duration of a batch with one window per row, in 1,000 partitions.

    Window frames in one batch job over all rows check the answers.
    """
    questions = {name: _question(harness, name) for name in LOOKBACKS}
    competing = [
        *(Entry(label=name, contender="tidegate", question=q) for name, q in questions.items()),
        *(
            Entry(label=f"{name} batch job", contender="batch", question=q, warms_up=False)
            for name, q in questions.items()
        ),
    ]
    measured = measure(harness, competing)
    failures = disagreements(measured)
    ours = {name: _medians_ms(measured[name]) for name in LOOKBACKS}
    workload = questions["2h"].workload
    rows_a_batch = workload.rows // workload.files
    table = timing_table(
        f"sliding: {workload.rows:,} rows, {rows_a_batch:,} a batch (five minutes of them), "
        f"{harness.rounds} rounds",
        measured,
        failures,
        {"ms a batch": _median_ms, "rows/s": _rate, "windows checked": _checked},
    )
    figures = [
        paired("sliding_10min_vs_10s", ours["10min"], ours["10s"]),
        paired("sliding_2h_vs_10s", ours["2h"], ours["10s"], target="<= 1.25"),
    ]
    return Report(tables=[table], figures=figures, failures=failures)


def _question(harness: Harness, name: str) -> Question:
    window, lookback_us = LOOKBACKS[name]
    aggregates = ", ".join(f"{text} AS {column}" for column, text in AGGREGATES.items())

    def ask(events: DataFrame) -> DataFrame:
        # Without it a batch job with a frame of two hours takes all day.
        events.sparkSession.conf.set("spark.sql.window.segmentTree.enabled", "true")
        over = (
            "OVER (PARTITION BY key ORDER BY unix_micros(ts) "
            f"RANGE BETWEEN {lookback_us}L PRECEDING AND CURRENT ROW)"
        )
        framed = (f"{text} {over} AS {column}" for column, text in AGGREGATES.items())
        return events.selectExpr("key", "ts AS e", *framed)

    return Question(
        name=f"sliding_{name}",
        # In order, so that a window emitted at once has the rows that the batch job sees.
        workload=Workload(
            name="sliding",
            rows=harness.rows_or(1_800_000),
            files=FILES,
            span_seconds=SPAN_SECONDS,
            key="pmod(xxhash64(id, 'key'), 1000)",
        ),
        sql=(
            f"SELECT key, window_end() AS e, {aggregates} "
            f"FROM events GROUP BY slidingwindow({window}) OVER (PARTITION BY key), key"
        ),
        ask=ask,
        columns=("key", "e", *AGGREGATES),
        lag=0,
    )


def _medians_ms(measurements: Measurements) -> list[float]:
    """Return the median duration of a batch in each round; nothing for a batch job."""
    counted = [run.batches_ms[COUNTED_FROM:] for run in measurements.runs]
    return [statistics.median(durations) for durations in counted if durations]


def _median_ms(measurements: Measurements) -> str:
    medians = _medians_ms(measurements)
    return f"{statistics.median(medians):.0f}" if medians else ""


def _rate(measurements: Measurements) -> str:
    medians, workload = _medians_ms(measurements), measurements.entry.question.workload
    rows = workload.rows // workload.files
    return f"{rows / statistics.median(medians) * 1000:,.0f}" if medians else ""


def _checked(measurements: Measurements) -> str:
    return f"{measurements.runs[-1].digest.rows:,}"
