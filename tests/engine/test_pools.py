"""Each query runs in a pool of Spark's scheduler of its own, unless the user has chosen one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate
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
