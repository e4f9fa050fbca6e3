"""Batches run in pools of Spark's scheduler that let none of them wait for long."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.connectors.sinks import FileSink
from tidegate.spark.pools import OVERTAKES, POOL, POOLS, Turn, Turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_batch_has_its_own_pool_or_that_of_the_thread_which_starts_the_query(
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

    left, right = pool_of("left"), pool_of("right")
    assert left is not None
    assert right is not None
    assert left.rstrip("0123456789") == right.rstrip("0123456789") == "tidegate-"
    # The one that began later is behind the other, but for the lap in which names begin again.
    assert int(right[-3:]) == (int(left[-3:]) + 1) % (POOLS // 2)
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

    def pools_of(name: str) -> list[str | None]:
        found.clear()
        sink = Noted(format="json", path=str(tmp_path / f"out-{name}"))
        query.start(sink=sink, checkpoint=tmp_path / name, once=True).await_termination()
        assert [thread == "tidegate-finish" for thread, _ in found] == [True, False]
        return [pool for _, pool in found]

    first, second = pools_of("left")
    assert first is not None
    assert second is not None
    assert int(second[-3:]) == (int(first[-3:]) + 1) % (POOLS // 2)
    context.setLocalProperty(POOL, "mine")
    try:
        assert pools_of("other") == ["mine", "mine"]
    finally:
        context.setLocalProperty(POOL, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("has_long", [False, True])
@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("pools", [32, POOLS])
def test_no_query_waits_for_more_than_a_few_batches_of_each_other_one(
    pools: int, cores: int, has_long: bool
) -> None:
    """As Spark does among queries that have no running task: the first name gets a free core."""
    draw = random.Random(pools + cores)
    turns = Turns(pools)
    waiting = [turns.begin(f"query {number}") for number in range(16)]
    if has_long:
        turns.begin("long")
    running: list[Turn] = []
    begun: dict[Turn, Counter[str]] = {turn: Counter() for turn in waiting}
    last = 0
    for _ in range(3000):
        while len(running) < cores:
            running.append(waiting.pop(_first(waiting)))
            del begun[running[-1]]
        ended = running.pop(draw.randrange(cores))
        turns.end(ended)
        following = turns.begin(ended.query)
        for counts in begun.values():
            counts[ended.query] += 1
            assert counts[ended.query] <= OVERTAKES + 1
        waiting.append(following)
        begun[following] = Counter()
        last += following.place == pools - 1
    # There Spark takes one after the other, as without pools.
    assert last < 0.25 * 3000


def _first(waiting: list[Turn]) -> int:
    """The batch that Spark prefers: by the name of its pool, in a pool the one that came first."""
    return min(range(len(waiting)), key=lambda index: waiting[index].pool)


def test_a_batch_keeps_its_place_until_the_thread_that_finishes_it_has_ended() -> None:
    turns = Turns(8)
    first = [turns.begin("a") for _ in range(4)][-1]
    turns.share(first)
    turns.end(first)
    # Names begin again: each query goes before the one that is being finished a few times.
    # (In its own pool, 3, it goes behind.)
    assert [turns.begin("b").place for _ in range(6)] == [0, 1, 2, 3, 0, 4]
    turns.end(first)
    assert turns.begin("b").place == 1
