"""The cost of a small batch: 1,000 rows, one window closes in each, Parquet output."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import per_window_and_key
from bench.report import Figure, Report, Table
from bench.rounds import Harness, Measurements, disagreements, entries, measure, verdict
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column

LEFT_OUT = 5
WINDOW_SECONDS = 10


def floor(harness: Harness) -> Report:
    """Compare the median duration of a batch (``triggerExecution``), ours over Spark's own."""
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
    medians = {label: _median_ms(measurements) for label, measurements in measured.items()}
    table = Table(
        title=f"floor: 1,000 rows a batch, a window closing in each, {harness.rounds} rounds",
        header=["", "median ms a batch", "p90 ms", "batches measured"],
        rows=[_line(label, measurements) for label, measurements in measured.items()],
        notes=verdict(failures),
    )
    figure = Figure(name="floor_vs_spark", value=medians["tidegate"] / medians["spark"])
    return Report(tables=[table], figures=[figure], failures=failures)


def _window() -> Column:
    from pyspark.sql import functions

    return functions.window("ts", f"{WINDOW_SECONDS} seconds")


def _durations_ms(measurements: Measurements) -> list[float]:
    """Return the durations of batches with rows, without the first ones of each round."""
    return [ms for run in measurements.runs for ms in run.batches_ms[LEFT_OUT:]]


def _median_ms(measurements: Measurements) -> float:
    return statistics.median(_durations_ms(measurements))


def _line(label: str, measurements: Measurements) -> list[str]:
    durations = _durations_ms(measurements)
    return [
        label,
        f"{statistics.median(durations):.0f}",
        f"{statistics.quantiles(durations, n=10)[-1]:.0f}",
        str(len(durations)),
    ]
