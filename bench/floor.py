"""The cost of a small batch: 1,000 rows, one window closes in each, Parquet output."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import per_window_and_key
from bench.report import Report, paired
from bench.rounds import Harness, Measurements, disagreements, entries, measure
from bench.timings import timing_table
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column

LEFT_OUT = 5
WINDOW_SECONDS = 10


def floor(harness: Harness) -> Report:
    """Compare the median time from one batch to the next, ours over Spark's own."""
    batches = LEFT_OUT + 40
    question = replace(
        per_window_and_key(
            "floor",
            Workload(
                name="floor",
                rows=batches * 1_000,
                files=batches,
                span_seconds=batches * WINDOW_SECONDS,
                key="pmod(xxhash64(id, 'key'), 100)",
            ),
            sql=f"tumblingwindow('ss', {WINDOW_SECONDS})",
            window=_window,
            lag=0,
        ),
        changelog=True,
    )
    measured = measure(
        harness,
        entries(question, ("tidegate", "spark")),
    )
    failures = disagreements(measured)
    table = timing_table(
        f"floor: 1,000 rows a batch, a window closing in each, {harness.rounds} rounds",
        measured,
        failures,
        {"ms a batch": _median_ms, "p90 ms": _p90_ms, "batches": _batches},
    )
    ours, theirs = (_medians_ms(measured[label]) for label in ("tidegate", "spark"))
    figure = paired("floor_vs_spark", ours, theirs)
    return Report(tables=[table], figures=[figure], failures=failures)


def _window() -> Column:
    from pyspark.sql import functions

    return functions.window("ts", f"{WINDOW_SECONDS} seconds")


def _durations_ms(measurements: Measurements) -> list[float]:
    """Return the durations of batches with rows, without the first ones of each round."""
    return [ms for run in measurements.runs for ms in run.batches_ms[LEFT_OUT:]]


def _medians_ms(measurements: Measurements) -> list[float]:
    """Return the median duration of a batch in each round."""
    return [statistics.median(run.batches_ms[LEFT_OUT:]) for run in measurements.runs]


def _median_ms(measurements: Measurements) -> str:
    return f"{statistics.median(_durations_ms(measurements)):.0f}"


def _p90_ms(measurements: Measurements) -> str:
    return f"{statistics.quantiles(_durations_ms(measurements), n=10)[-1]:.0f}"


def _batches(measurements: Measurements) -> str:
    return str(len(_durations_ms(measurements)))
