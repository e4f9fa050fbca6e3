"""A batch like the one before makes Spark compile nothing, however many queries share the session.

What differs between two batches is no part of the code, and Spark keeps the code of all queries.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from side_by_side import THREADS, selected
from tidegate.cases.stepper import CaseStepper

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "ts TIMESTAMP, k BIGINT, v BIGINT"
SPAN_SECONDS = 60
# The batch that is counted: segments are merged only later, and every kind has closed windows in
# two batches before.
ALIKE_FROM = 4

NUMBERS = "count(*) AS n, sum(v) AS s, first(v) AS f, window_end() AS e, emit_epoch() AS epoch"
STATEMENTS = {
    "tumbling": f"SELECT {NUMBERS}, k FROM r GROUP BY tumblingwindow('ss', 10), k",
    "hopping": f"SELECT {NUMBERS}, k FROM r GROUP BY hoppingwindow('ss', 20, 10), k",
    "cumulate": f"SELECT {NUMBERS}, k FROM r GROUP BY cumulatewindow('ss', 30, 10), k",
    "session": f"SELECT {NUMBERS}, k FROM r GROUP BY sessionwindow('ss', 3), k",
    "sliding at once": (
        f"SELECT {NUMBERS}, k FROM r GROUP BY slidingwindow('ss', 10) OVER (PARTITION BY k), k"
    ),
    "sliding far back": (
        f"SELECT {NUMBERS}, k FROM r GROUP BY slidingwindow('mi', 3) OVER (PARTITION BY k), k"
    ),
    "sliding ahead": (
        f"SELECT {NUMBERS}, k FROM r GROUP BY slidingwindow('ss', 10, 5) OVER (PARTITION BY k), k"
    ),
    "sliding, several groups": f"SELECT {NUMBERS}, k FROM r GROUP BY slidingwindow('ss', 10), k",
    "state": f"SELECT {NUMBERS} FROM r GROUP BY statewindow(v = 1, v = 5) OVER (PARTITION BY k)",
    "count": f"SELECT {NUMBERS} FROM r GROUP BY countwindow(4) OVER (PARTITION BY k)",
    "tumbling rows": "SELECT *, window_end() AS e FROM r GROUP BY tumblingwindow('ss', 10)",
    "sliding rows": "SELECT *, window_end() AS e FROM r GROUP BY slidingwindow('ss', 5)",
}
SETTINGS = {
    "event": {"event_time_field": "ts", "watermark_lag": "1s"},
    "processing": {"time": "processing"},
}
BY_THE_CLOCK = ("tumbling", "sliding ahead")


RUNS = [
    *((kind, "event") for kind in STATEMENTS),
    *((kind, "processing") for kind in BY_THE_CLOCK),
]
# One of each operator; the others run in the whole suite only.
QUICK = [
    ("hopping", "event"),
    ("session", "event"),
    ("sliding ahead", "processing"),
    ("state", "event"),
    ("tumbling rows", "event"),
]
assert set(QUICK) <= set(RUNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a batch compiled, and how many results it gave."""

    compiled: int
    results: int


class Steady:
    """A query and its batches, in a session of its own."""

    def __init__(self, spark: SparkSession, run: tuple[str, str], checkpoint: Path) -> None:
        kind, mode = run
        self._spark = spark.newSession()
        query = tidegate.sql(
            STATEMENTS[kind], streams={"r": SCHEMA}, settings=SETTINGS[mode], spark=self._spark
        )
        self._stepper = CaseStepper(query, checkpoint=str(checkpoint), partitions=2)

    def batch(self, number: int) -> int:
        """Run a batch like every other; return how many results it gave."""
        start = START + timedelta(seconds=number * SPAN_SECONDS)
        rows = [
            (start + timedelta(seconds=s), s % 2, s % 6) for s in range(SPAN_SECONDS) if s % 20 < 12
        ]
        frame = self._spark.createDataFrame(rows, SCHEMA)
        clock_us = int(start.timestamp() + SPAN_SECONDS) * 1_000_000
        return len(self._stepper.batch(frame, clock_us).rows)


@pytest.fixture(scope="module")
def counted(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Counted]:
    """The last batch of each query, after the first ones of all of them, which run side by side."""

    def started(run: tuple[str, str]) -> Steady:
        steady = Steady(spark, run, tmp_path_factory.mktemp("steady"))
        for number in range(ALIKE_FROM):
            steady.batch(number)
        return steady

    runs = selected(request, "run")
    with ThreadPoolExecutor(THREADS) as pool:
        queries = dict(zip(runs, pool.map(started, runs), strict=True))
    counted = {}
    for run, query in queries.items():
        before = _compiled(spark)
        results = query.batch(ALIKE_FROM)
        counted[run] = Counted(compiled=_compiled(spark) - before, results=results)
    return counted


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=[] if run in QUICK else pytest.mark.whole) for run in RUNS],
    ids=", ".join,
)
def test_a_batch_like_the_one_before_compiles_nothing(
    run: tuple[str, str], counted: dict[tuple[str, str], Counted]
) -> None:
    assert counted[run].results > 0
    assert counted[run].compiled == 0


def _compiled(spark: SparkSession) -> int:
    """How many classes Spark has compiled from generated code in this JVM."""
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())
