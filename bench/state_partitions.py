"""State windows open in a million partitions at once, then all closed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.batches import batches_of
from bench.report import Figure, Report, Table
from bench.rounds import Harness, progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.metrics.report import BatchReport

SQL = """
    SELECT device, count(*) AS n, window_end() AS e
    FROM events GROUP BY statewindow(level > 80, level < 60) OVER (PARTITION BY device), device
"""
SCHEMA = "device BIGINT, level INT"
# One of so many partitions gets a row in the batches between opening and closing.
TOUCHED_ONE_IN = 1_000
# The batches of a run; the first has one row and warms up.
BATCHES = ("warm-up", "open all", "touch some", "touch some again", "close all", "nothing left")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """The reports of a run, by the names of its batches."""

    partitions: int
    reports: dict[str, BatchReport]

    def failures(self) -> list[str]:
        """Return a sentence for each wrong number."""
        opened, closed, left = (self.reports[name] for name in BATCHES if name in _CHECKED)
        expected = {
            "state rows once all are open": (opened.state_rows, self.partitions),
            "windows closed": (closed.closed_windows, self.partitions),
            "results": (closed.rows_out, self.partitions),
            "state rows at the end": (left.state_rows, 0),
        }
        return [
            f"{self.partitions:,} partitions: {found:,} {what}, not {wanted:,}"
            for what, (found, wanted) in expected.items()
            if found != wanted
        ]


_CHECKED = ("open all", "close all", "nothing left")


def state_partitions(harness: Harness) -> Report:
    """Compare the cost of each batch with a tenth of the partitions and with all of them."""
    most = harness.rows_or(1_000_000)
    few, many = (_lifetime(harness, partitions) for partitions in (most // 10, most))
    failures = [*few.failures(), *many.failures()]
    table = Table(
        title=f"state_partitions: {few.partitions:,} and {most:,} partitions, a window in each",
        header=["batch", "rows", "ms of few", "ms of many", "state rows of many"],
        rows=[_line(name, few.reports[name], many.reports[name]) for name in BATCHES],
        notes=failures or ["every window closed, and no state is left"],
    )
    figure = Figure(
        name="state_partitions_1m_vs_100k",
        value=_whole_ms(many) / _whole_ms(few) * few.partitions / many.partitions,
        target="<= 1.5",
    )
    return Report(tables=[table], figures=[figure], failures=failures)


def _line(name: str, few: BatchReport, many: BatchReport) -> list[str]:
    numbers = (many.rows_in, few.duration_ms, many.duration_ms, many.state_rows)
    return [name, *(f"{number:,}" for number in numbers)]


def _whole_ms(lifetime: Lifetime) -> int:
    """Return the time of the batches with a row for every partition."""
    return sum(lifetime.reports[name].duration_ms for name in ("open all", "close all"))


def _lifetime(harness: Harness, partitions: int) -> Lifetime:
    def batches(spark: SparkSession) -> Iterator[DataFrame]:
        statements = _statements(partitions)
        return (spark.sql(statements[name]) for name in BATCHES)

    reports = batches_of(harness, SQL, SCHEMA, {"time": "processing"}, batches).reports
    progress(f"{partitions:,} partitions: {sum(r.duration_ms for r in reports)} ms")
    return Lifetime(partitions=partitions, reports=dict(zip(BATCHES, reports, strict=True)))


def _statements(partitions: int) -> dict[str, str]:
    """Return the statement of the rows of each batch."""
    devices = f"range(0, {partitions})"
    touched = f"SELECT id AS device, 70 AS level FROM {devices} WHERE id % {TOUCHED_ONE_IN} = 7"
    return {
        "warm-up": "SELECT -1L AS device, 0 AS level",
        "open all": f"SELECT id AS device, 90 AS level FROM {devices}",
        "touch some": touched,
        "touch some again": touched,
        "close all": f"SELECT id AS device, 50 AS level FROM {devices}",
        "nothing left": "SELECT -1L AS device, 0 AS level",
    }
