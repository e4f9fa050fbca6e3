"""Rows per second: a long stream in big micro-batches, against Spark streaming and batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.contenders import Question, per_window_and_key
from bench.report import Figure, Report, Table
from bench.rounds import Entry, Harness, Measurements, disagreements, entries, measure, verdict
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
    figures = [
        Figure(
            name=f"{question.name}_vs_{other}",
            value=ours.rows_per_second / measured[other].rows_per_second,
        )
        for other in against
    ]
    figures += [
        Figure(
            name=f"{question.name}_vs_{entry.question.name}",
            value=ours.median_seconds / measured[entry.label].median_seconds,
            target="<= 1.3",
        )
        for entry in beside
    ]
    failures = disagreements(measured)
    return Report(
        tables=[_table(harness, question, measured, failures)], figures=figures, failures=failures
    )


def _table(
    harness: Harness,
    question: Question,
    measured: dict[str, Measurements],
    failures: Sequence[str],
) -> Table:
    workload = question.workload
    return Table(
        title=(
            f"{question.name}: {workload.rows:,} rows, "
            f"{workload.rows // workload.files:,} a batch, median of {harness.rounds}"
        ),
        header=["", "M rows/s", "seconds", "least", "most", "results checked"],
        rows=[_line(label, measurements) for label, measurements in measured.items()],
        notes=verdict(failures),
    )


def _line(label: str, measurements: Measurements) -> list[str]:
    seconds = [run.seconds for run in measurements.runs]
    return [
        label,
        f"{measurements.rows_per_second / 1e6:.2f}",
        f"{measurements.median_seconds:.2f}",
        f"{min(seconds):.2f}",
        f"{max(seconds):.2f}",
        f"{measurements.runs[-1].digest.rows:,}",
    ]


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
