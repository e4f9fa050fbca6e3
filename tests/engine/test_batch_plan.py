"""Job 1 of a batch reads its source by Spark's own plan where that is simple, else its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from chains import Kept
from sql_metrics import SqlMetrics
from tidegate.spark import batch_plan
from tidegate.spark.calls import calls_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, unused STRING"
SQL = "SELECT k, sum(v) AS v FROM r GROUP BY tumblingwindow('ss', 10), k ON ts"
ROWS = [(second, key, 1 << n) for n, (second, key) in enumerate([(1, "a"), (2, "b"), (25, "a")])]
RESULTS = {("a", 1), ("b", 2), ("a", 4)}


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows in two files."""
    folder = tmp_path_factory.mktemp("source") / "rows"
    rows = ", ".join(f"({second}, '{key}', {value})" for second, key, value in ROWS)
    spark.sql(
        f"SELECT timestamp_seconds(s) AS ts, k, v, 'x' AS unused FROM VALUES {rows} AS t(s, k, v)"
    ).repartition(2).write.parquet(str(folder))
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A stream over the source.

    Attributes:
        of: makes it.
        by_its_plan: whether job 1 takes Spark's plan of it.
    """

    of: Callable[[DataFrame], DataFrame]
    by_its_plan: bool = False


SHAPES = {
    "as it is": Shape(of=lambda stream: stream, by_its_plan=True),
    "projected": Shape(
        of=lambda stream: stream.selectExpr("ts", "k", "v + 0 AS v"), by_its_plan=True
    ),
    # Spark counts what its source brings, we what comes out of the filter.
    "filtered": Shape(of=lambda stream: stream.where("v > 0")),
    # Spark moves a watermark of its own by what its own plan has read.
    "with a watermark of Spark": Shape(of=lambda stream: stream.withWatermark("ts", "1 second")),
    "of two sources": Shape(of=lambda stream: stream.union(stream.where("v + 0 < 0"))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_is_read_once_and_spark_counts_its_rows(
    spark: SparkSession, folder: Path, tmp_path: Path, shape: str
) -> None:
    expected = SHAPES[shape]
    stream = expected.of(spark.readStream.schema(SCHEMA).parquet(str(folder)))
    kept = Kept()
    with SqlMetrics(spark) as counted:
        query = tg.sql(SQL, streams={"r": stream})
        run = query.start(sink=kept, checkpoint=tmp_path, once=True)
        run.await_termination()
        run.stop(drain=True)

    assert {row for rows in kept.epochs.values() for row in rows} == RESULTS
    counts = [progress["numInputRows"] for progress in run.query.recentProgress]
    if shape != "of two sources":  # How Spark counts these is its own affair.
        assert sum(counts) == len(ROWS)
    passed_on = [node for node, *_ in counted.found if node.startswith("Scan ExistingRDD")]
    assert bool(passed_on) is not expected.by_its_plan


def test_a_source_that_is_read_row_by_row_is_part_of_the_plan_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"rowsPerBatch": "7", "startTimestamp": "0", "advanceMillisPerBatch": "1000"}
    stream = spark.readStream.format("rate-micro-batch").options(**options).load()
    kept = Kept()
    query = tg.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 1) ON timestamp",
        streams={"r": stream},
    )
    with SqlMetrics(spark) as counted:
        run = query.start(sink=kept, checkpoint=tmp_path, once=True)
        run.await_termination()
        run.stop(drain=True)

    assert [progress["numInputRows"] for progress in run.query.recentProgress] == [7]
    assert kept.rows() == [(7,)]
    assert not [node for node, *_ in counted.found if node.startswith("Scan ExistingRDD")]


def test_in_a_spark_without_the_node_a_batch_takes_its_rows(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = spark._jvm.org.apache.spark.sql.execution.adaptive.NoSuchNode
    monkeypatch.setattr(calls_of(spark), "planned", missing)

    counts, results = run_once(spark, folder, tmp_path)

    assert (counts, results) == ([len(ROWS)], RESULTS)


def test_a_count_that_spark_does_not_take_never_stops_the_query(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_plan, "_ROWS_OF_SOURCE", "no such metric")

    counts, results = run_once(spark, folder, tmp_path)

    assert (counts, results) == ([0], RESULTS)


def run_once(spark: SparkSession, folder: Path, checkpoint: Path) -> tuple[list[int], set[object]]:
    """Run the query once; return the rows of each batch as Spark counts them, and the results."""
    kept = Kept()
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder))
    run = tg.sql(SQL, streams={"r": stream}).start(sink=kept, checkpoint=checkpoint, once=True)
    run.await_termination()
    run.stop(drain=True)
    counts = [progress["numInputRows"] for progress in run.query.recentProgress]
    return counts, set(kept.rows())
