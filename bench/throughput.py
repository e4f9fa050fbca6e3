"""Rows per second: a long stream in big micro-batches, against Spark streaming and batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.contenders import Question, per_window_and_key
from bench.report import Report
from bench.rounds import Entry, Harness, Measurements, disagreements, entries, measure
from bench.timings import faster, slower, timing_table
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column


def tumbling_10s(harness: Harness) -> Report:
    """Tumbling windows of 10 s: many rows a group."""
    return compare(harness, tumbling(harness, 10))


def tumbling_1s(harness: Harness) -> Report:
    """Tumbling windows of 1 s: ten rows a group, so results and state weigh more."""
    return compare(harness, tumbling(harness, 1))


def hopping(harness: Harness) -> Report:
    """Hopping windows of 60 s every 10 s: each row is in six windows."""
    question = per_window_and_key(
        "hopping",
        events(harness),
        sql="hoppingwindow('ss', 60, 10)",
        window=lambda: _window("60 seconds", "10 seconds"),
    )
    beside = Entry(
        label="tidegate tumbling_10s", contender="tidegate", question=tumbling(harness, 10)
    )
    return compare(harness, question, beside=[beside])


def compare(
    harness: Harness,
    question: Question,
    *,
    against: Sequence[str] = ("spark", "batch"),
    beside: Sequence[Entry] = (),
) -> Report:
    """Ask Tidegate and the others a question, and only Tidegate the questions ``beside``.

    Figures: ``<question>_vs_spark`` and ``<question>_vs_batch`` are our throughput over theirs,
    ``<question>_vs_<question beside>`` is our time over our time.
    """
    measured = measure(harness, [*entries(question, ("tidegate", *against)), *beside])
    ours = measured["tidegate"]
    figures = [faster(f"{question.name}_vs_{other}", ours, measured[other]) for other in against]
    figures += [
        slower(
            f"{question.name}_vs_{entry.question.name}",
            ours,
            measured[entry.label],
            target="<= 1.3",
        )
        for entry in beside
    ]
    failures = disagreements(measured)
    workload = question.workload
    table = timing_table(
        f"{question.name}: {workload.rows:,} rows, "
        f"{workload.rows // workload.files:,} a batch, median of {harness.rounds}",
        measured,
        failures,
        {"M rows/s": _millions, "results checked": _checked},
    )
    return Report(tables=[table], figures=figures, failures=failures)


def _millions(measurements: Measurements) -> str:
    return f"{measurements.rows_per_second / 1e6:.2f}"


def _checked(measurements: Measurements) -> str:
    return f"{measurements.runs[-1].digest.rows:,}"


def events(harness: Harness) -> Workload:
    """100,000 rows a second of event time for 320 s, 10,000 keys, out of order by up to 2 s."""
    return Workload(
        name="events",
        rows=harness.rows_or(32_000_000),
        files=8,
        span_seconds=320,
        jitter_us=2_000_000,
    )


def tumbling(harness: Harness, seconds: int) -> Question:
    """Return the question of tumbling windows of so many seconds."""
    return per_window_and_key(
        f"tumbling_{seconds}s",
        events(harness),
        sql=f"tumblingwindow('ss', {seconds})",
        window=lambda: _window(f"{seconds} seconds"),
    )


def _window(size: str, slide: str | None = None) -> Column:
    from pyspark.sql import functions

    return functions.window("ts", size, slide)
