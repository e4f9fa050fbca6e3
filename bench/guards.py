"""The cost of guards that never fire: expressions that could fail, with and without guards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import Question
from bench.report import Report
from bench.rounds import Entry, Harness, disagreements, measure
from bench.throughput import events
from bench.timings import slower, timing_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGGREGATES = {
    "ratio": "sum(value / (key + 1))",
    "whole": "max(CAST(value AS INT))",
    "rest": "sum(key % 7)",
    "next": "min(key + 1)",
    "n": "count(*)",
}


def guards(harness: Harness) -> Report:
    """Compare the times of the policies ``side_output`` and ``fail`` on rows that do not fail."""
    guarded = _question(harness)
    plain = replace(guarded, name="plain", settings={"error_policy": "fail"})
    measured = measure(
        harness,
        [
            Entry(label="guarded", contender="tidegate", question=guarded),
            Entry(label="plain", contender="tidegate", question=plain),
        ],
    )
    failures = disagreements(measured)
    title = f"guards: {guarded.workload.rows:,} rows, median of {harness.rounds}"
    table = timing_table(title, measured, failures)
    figure = slower("guards_vs_none", measured["guarded"], measured["plain"], target="<= 1.1")
    return Report(tables=[table], figures=[figure], failures=failures)


def _question(harness: Harness) -> Question:
    aggregates = ", ".join(f"{text} AS {column}" for column, text in AGGREGATES.items())

    def ask(rows: DataFrame) -> DataFrame:
        raise AssertionError("only Tidegate answers this question")

    return Question(
        name="guards",
        workload=events(harness),
        sql=(
            f"SELECT key, window_start() AS s, window_end() AS e, {aggregates} "
            "FROM events GROUP BY tumblingwindow('ss', 10), key"
        ),
        ask=ask,
        columns=("key", "s", "e", *AGGREGATES),
    )
