"""The table and the figures of entries that were measured in rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from bench.activity import Activity
from bench.report import Figure, Table, paired
from bench.rounds import Measurements, verdict

# Columns of what the cores did; docs are in README.md, "What the driver costs".
CORES: dict[str, Callable[[Activity], float]] = {
    "cpu s": lambda activity: activity.cpu,
    "task s": lambda activity: activity.run,
    "no task s": lambda activity: activity.no_task,
    "core idle s": lambda activity: activity.some_idle,
}

HEADER = ("seconds", "least", "most", *CORES)


def timing_table(
    title: str,
    measured: Mapping[str, Measurements],
    failures: Sequence[str],
    more: Mapping[str, Callable[[Measurements], str]] | None = None,
) -> Table:
    """Return a table with a line for each entry: times, what the cores did, columns of its own."""
    more = more or {}
    return Table(
        title=title,
        header=["", *HEADER, *more],
        rows=[
            [label, *times(measurements), *(column(measurements) for column in more.values())]
            for label, measurements in measured.items()
        ],
        notes=verdict(failures),
    )


def times(measurements: Measurements) -> list[str]:
    """Return the cells under ``HEADER``: medians over the rounds, with the least and most time."""
    seconds = measurements.seconds
    cores = (median(column(run.activity) for run in measurements.runs) for column in CORES.values())
    return [f"{value:.2f}" for value in (median(seconds), min(seconds), max(seconds), *cores)]


def slower(name: str, ours: Measurements, theirs: Measurements, *, target: str = "") -> Figure:
    """Return our time over theirs, round by round."""
    return paired(name, ours.seconds, theirs.seconds, target=target)


def faster(name: str, ours: Measurements, theirs: Measurements, *, target: str = "") -> Figure:
    """Return our throughput over theirs, round by round."""
    return paired(
        name,
        [_rate(ours, seconds) for seconds in ours.seconds],
        [_rate(theirs, seconds) for seconds in theirs.seconds],
        target=target,
    )


def _rate(measurements: Measurements, seconds: float) -> float:
    """Return the rows a second of a run that took so long."""
    return measurements.entry.question.workload.rows / seconds
