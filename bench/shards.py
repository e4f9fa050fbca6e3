"""The cost of shards: the same query with a watermark for each of 1,000 and 10,000 shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import per_window_and_key
from bench.report import Figure, Report, Table
from bench.rounds import Entry, Harness, Measurement, disagreements, measure, verdict
from bench.throughput import events

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
    table = Table(
        title=f"shards: {plain.workload.rows:,} rows, median of {harness.rounds}",
        header=["", "seconds", "least", "most"],
        rows=[
            [label, *(f"{seconds:.2f}" for seconds in (of.median_seconds, *_range(of.runs)))]
            for label, of in measured.items()
        ],
        notes=verdict(failures),
    )
    none = measured["none"].median_seconds
    figures = [
        Figure(name=f"{label}_vs_none", value=of.median_seconds / none, target="<= 1.1")
        for label, of in measured.items()
        if label != "none"
    ]
    return Report(tables=[table], figures=figures, failures=failures)


def _range(runs: Sequence[Measurement]) -> tuple[float, float]:
    seconds = [run.seconds for run in runs]
    return min(seconds), max(seconds)


def _window() -> Column:
    raise AssertionError("only Tidegate answers this question")
