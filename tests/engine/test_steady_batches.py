"""A batch like the one before makes Spark compile nothing, however many queries share the session.

What differs between two batches is no part of the code, and Spark keeps the code of all queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.cases.stepper import CaseStepper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "ts TIMESTAMP, k BIGINT, v BIGINT"
SPAN_SECONDS = 60
# Fewer than are merged into one; by then every kind has closed windows in two batches.
BATCHES = 5
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


@dataclass(slots=True)
class Counted:
    """What the batches of a query compiled and gave, in their order."""

    compiled: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def counted(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Counted]:
    """All queries side by side in one session: a batch of each, then the next of each."""
    steppers = {
        (kind, mode): CaseStepper(
            tidegate.sql(
                STATEMENTS[kind], streams={"r": SCHEMA}, settings=SETTINGS[mode], spark=spark
            ),
            checkpoint=str(tmp_path_factory.mktemp("steady")),
            partitions=2,
        )
        for kind, mode in RUNS
    }
    counted = {run: Counted() for run in RUNS}
    for batch in range(BATCHES):
        start = START + timedelta(seconds=batch * SPAN_SECONDS)
        rows = [
            (start + timedelta(seconds=s), s % 2, s % 6) for s in range(SPAN_SECONDS) if s % 20 < 12
        ]
        frame = spark.createDataFrame(rows, SCHEMA)
        clock_us = int(start.timestamp() + SPAN_SECONDS) * 1_000_000
        for run, stepper in steppers.items():
            before = _compiled(spark)
            counted[run].results.append(len(stepper.batch(frame, clock_us).rows))
            counted[run].compiled.append(_compiled(spark) - before)
    return counted


@pytest.mark.parametrize(("kind", "mode"), RUNS)
def test_a_batch_like_the_one_before_compiles_nothing(
    kind: str, mode: str, counted: dict[tuple[str, str], Counted]
) -> None:
    run = counted[kind, mode]
    assert run.results[ALIKE_FROM] > 0
    assert run.compiled[ALIKE_FROM:] == [0] * (BATCHES - ALIKE_FROM), run.compiled


def _compiled(spark: SparkSession) -> int:
    """How many classes Spark has compiled from generated code in this JVM."""
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())
