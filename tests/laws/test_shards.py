"""With shards every kind of window equals the oracle step by step, across a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laws.scripts import EVENT_TIME, Answers, Law, answers_of_spark, check
from side_by_side import Results, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOUNDS = "window_start() AS s, window_end() AS e"
# It fails where v is 2, and then is NULL, as where v is NULL.
SHARDED = {
    **EVENT_TIME,
    "shard": "100 DIV (v - 2)",
    "idle_timeout": "2s",
    "on_idle": "advance",
    "shard_expiry": "1h",
}
LAWS = {
    "tumbling": Law(
        query=f"SELECT k, sum(v) AS v, {BOUNDS} FROM r GROUP BY tumblingwindow('ss', 3), k"
    ),
    "tumbling, shards of keys": Law(
        query=f"SELECT v, k, count(*) AS n, {BOUNDS} FROM r GROUP BY tumblingwindow('ss', 3), v, k"
    ),
    "hopping, rows": Law(
        query=f"SELECT page, count(DISTINCT k) AS n, {BOUNDS} FROM r "
        "GROUP BY hoppingwindow('ss', 4, 2), page",
        path="off",
    ),
    "session": Law(
        query=f"SELECT k, sum(v) AS v, {BOUNDS} FROM r GROUP BY sessionwindow('ss', 2), k"
    ),
    "session, shards of keys": Law(
        query=f"SELECT v, count(*) AS n, {BOUNDS} FROM r WHERE v <> 1 "
        "GROUP BY sessionwindow('ss', 2), v"
    ),
    "sliding": Law(
        query=f"SELECT sum(v) AS v, {BOUNDS} FROM r "
        "GROUP BY slidingwindow('ss', 3, 1) OVER (WHEN stop PARTITION BY k)"
    ),
    "state": Law(
        query=f"SELECT count(*) AS n, {BOUNDS} FROM r "
        "GROUP BY statewindow(v > 2, stop) OVER (PARTITION BY k)"
    ),
    "count": Law(
        query=f"SELECT count(*) AS n, {BOUNDS} FROM r GROUP BY countwindow(3) OVER (PARTITION BY k)"
    ),
}
LAWS = {name: replace(law, settings=SHARDED, batches=3) for name, law in LAWS.items()}
# For ``make test-all``: each kind observes its rows alike, and test_all_at_once has shards too.
QUICK: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        # Two shards are too many for a manifest.
        patch.setattr("tidegate.state.shards.MOST_SHARDS", 1)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.whole) for each in LAWS]
)
def test_windows_with_shards_are_those_of_the_oracle(
    name: str, found: Results[str, Answers]
) -> None:
    check(LAWS[name], found[name])
