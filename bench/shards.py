"""The cost of shards: the same query with a watermark for each of 1,000 and 10,000 shards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import per_window_and_key
from bench.report import Report
from bench.rounds import Entry, Harness, disagreements, measure
from bench.throughput import events
from bench.timings import slower, timing_table

if TYPE_CHECKING:
    from pyspark.sql import Column

# Every key is a shard, or ten of them are. Rows of all shards are in each batch.
SHARDS = {1_000: "key DIV 10", 10_000: "key"}


def shards(harness: Harness) -> Report:
    """Compare tumbling windows with shards to tumbling windows without."""
    plain = per_window_and_key(
        "shards", events(harness), sql="tumblingwindow('ss', 10)", window=_window
    )
    with_shards = {
        f"shards_{count}": replace(plain, settings={"shard": shard})
        for count, shard in SHARDS.items()
    }
    measured = measure(
        harness,
        [
            Entry(label=label, contender="tidegate", question=question)
            for label, question in {"none": plain, **with_shards}.items()
        ],
    )
    failures = disagreements(measured)
    title = f"shards: {plain.workload.rows:,} rows, median of {harness.rounds}"
    table = timing_table(title, measured, failures)
    figures = [
        slower(f"{label}_vs_none", of, measured["none"], target="<= 1.1")
        for label, of in measured.items()
        if label != "none"
    ]
    return Report(tables=[table], figures=figures, failures=failures)


def _window() -> Column:
    raise AssertionError("only Tidegate answers this question")
