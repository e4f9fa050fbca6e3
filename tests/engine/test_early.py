"""EMIT EARLY: a sink keeps one row of each result, a replay gives the same, others are refused."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.engine.job import Outlets
from tidegate.engine.stepper import Stepper
from tidegate.errors import ConfigError
from tidegate.state.batch import SparkBatch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
SQL = """
    SELECT k, count(*) AS n, emit_epoch() AS epoch FROM r
    GROUP BY tumblingwindow('ss', 10), k ON ts EMIT EARLY EVERY INTERVAL '5' SECOND
"""

# Keys and times in seconds of each batch; batch N has the clock 10 N seconds.
BATCHES = ([("'a'", 1), ("'b'", 2)], [("'a'", 3)], [("'a'", 12), ("NULL", 13)], [("NULL", 14)])


def rows_of(spark: SparkSession, batch: list[tuple[str, int]]) -> DataFrame:
    values = ", ".join(f"(timestamp_seconds({time}), {key})" for key, time in batch)
    return spark.sql(f"SELECT ts, CAST(k AS STRING) AS k FROM VALUES {values} AS rows(ts, k)")


def test_a_sink_keeps_one_row_of_each_result_also_after_a_replay(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    query = tidegate.sql(SQL, streams={"r": "ts TIMESTAMP, k STRING"}, spark=interpreted)
    sink = tidegate.MemorySink()
    sink.replace_by(query.physical.finish.result_key)
    empty = query._prepare(query.given.empty(query.spark))

    def run(number: int, checkpoint: str) -> None:
        job = query._job(empty, Outlets(results=sink), 2)
        batch = SparkBatch(batch_id=number, clock_us=number * 10 * SECOND)
        rows = query._prepare({"r": rows_of(interpreted, BATCHES[number])})
        report = Stepper(job, str(tmp_path / checkpoint), query._session).run(batch, rows)
        assert report is not None
        early.append((report.rows_out, report.early_rows))

    def shown() -> set[tuple[object, ...]]:
        return {(row.k, row.n, row.is_final, row.epoch) for row in sink.rows()}

    early: list[tuple[int, int]] = []
    run(0, "checkpoint")
    assert shown() == set()
    run(1, "checkpoint")
    assert shown() == {("a", 2, False, 1), ("b", 1, False, 1)}
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    run(2, "checkpoint")
    final = {("a", 2, True, 2), ("b", 1, True, 2)}
    assert shown() == final | {("a", 1, False, 2), (None, 1, False, 2)}
    once = sink.rows()
    run(2, "copy")
    assert sorted(sink.rows(), key=repr) == sorted(once, key=repr)
    run(3, "copy")
    assert shown() == final | {("a", 1, False, 3), (None, 2, False, 3)}
    assert early == [(0, 0), (0, 2), (2, 2), (2, 2), (0, 2)]


def test_a_sink_that_only_adds_is_refused_and_a_function_may_say_that_it_replaces(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("ts TIMESTAMP, k STRING").json(str(tmp_path / "in"))
    query = tidegate.sql(SQL, r=stream)

    def function(frame: DataFrame, epoch: int) -> None:
        """Do nothing."""

    for sink in (tmp_path / "out", "console", function):
        with pytest.raises(ConfigError, match="cannot take the provisional results of EMIT EARLY"):
            query.start(sink=sink, checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()
    replacing = tidegate.CallbackSink(function, replaces_results=True)
    with query.start(sink=replacing, checkpoint=tmp_path / "checkpoint", once=True) as run:
        run.await_termination()
