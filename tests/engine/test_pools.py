"""Each query runs in a pool of Spark's scheduler of its own, unless the user has chosen one."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate
from tidegate.connectors.sinks import FileSink
from tidegate.spark.pools import POOL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_query_has_its_own_pool_or_that_of_the_thread_which_starts_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    context = spark.sparkContext
    (tmp_path / "in").mkdir()
    rows = [{"ts": "2026-01-01 00:00:00"}, {"ts": "2026-01-01 00:01:00"}]
    (tmp_path / "in" / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)",
        settings={"event_time_field": "ts"},
        r=spark.readStream.schema("ts TIMESTAMP").json(str(tmp_path / "in")),
    )

    def pool_of(name: str) -> str | None:
        pools: list[str | None] = []

        def sink(frame: DataFrame, epoch: int) -> None:
            frame.collect()
            pools.append(context.getLocalProperty(POOL))

        run = query.start(sink=sink, checkpoint=tmp_path / name, once=True)
        run.await_termination()
        (pool,) = pools
        return pool

    assert pool_of("left") == str(tmp_path / "left")
    assert pool_of("right") == str(tmp_path / "right")
    assert context.getLocalProperty(POOL) is None
    context.setLocalProperty(POOL, "mine")
    try:
        assert pool_of("other") == context.getLocalProperty(POOL) == "mine"
    finally:
        context.setLocalProperty(POOL, None)  # type: ignore[arg-type]
    assert context.getConf().get("spark.scheduler.mode") == "FAIR"


def test_results_that_are_written_beside_the_next_batch_are_in_the_same_pool(
    spark: SparkSession, tmp_path: Path
) -> None:
    context = spark.sparkContext
    (tmp_path / "in").mkdir()
    for minute in range(3):
        row = json.dumps({"ts": f"2026-01-01 00:0{minute}:00"})
        (tmp_path / "in" / f"{minute}.json").write_text(row)
        os.utime(tmp_path / "in" / f"{minute}.json", (1_700_000_000 + minute,) * 2)
    stream = spark.readStream.schema("ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)",
        settings={"event_time_field": "ts"},
        r=stream.json(str(tmp_path / "in")),
    )
    found: list[tuple[str, str | None]] = []

    class Noted(FileSink):
        def write(self, frame: DataFrame, epoch: int) -> None:
            found.append((threading.current_thread().name, context.getLocalProperty(POOL)))
            super().write(frame, epoch)

    def pools_of(name: str) -> set[str | None]:
        found.clear()
        sink = Noted(format="json", path=str(tmp_path / f"out-{name}"))
        query.start(sink=sink, checkpoint=tmp_path / name, once=True).await_termination()
        assert [thread == "tidegate-finish" for thread, _ in found] == [True, False]
        return {pool for _, pool in found}

    assert pools_of("left") == {str(tmp_path / "left")}
    context.setLocalProperty(POOL, "mine")
    try:
        assert pools_of("other") == {"mine"}
    finally:
        context.setLocalProperty(POOL, None)  # type: ignore[arg-type]
