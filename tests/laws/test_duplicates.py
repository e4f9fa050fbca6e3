"""Duplicates are those of the oracle, for every kind of window: in a batch, across, forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from laws.scripts import EVENT_TIME, PROCESSING_TIME, Answers, Law, answers_of_spark, check
from side_by_side import Results, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A key has several rows in a batch, some within the horizon and some not; NULL where k or v is.
DEDUP = {"dedup_key": "concat(k, v)", "dedup_horizon": "3s"}
BY_TIME, BY_CLOCK = {**EVENT_TIME, **DEDUP}, {**PROCESSING_TIME, **DEDUP}
SHOWN = "count(*) AS n, sum(v) AS total, first(page) AS p, window_start() AS s"
LAWS = {
    "tumbling": Law(
        query=f"SELECT k, {SHOWN} FROM r GROUP BY tumblingwindow('ss', 4), k", settings=BY_TIME
    ),
    "hopping, rows kept whole": Law(
        query=f"SELECT {SHOWN} FROM r WHERE v <> 2 GROUP BY hoppingwindow('ss', 4, 2)",
        settings=BY_TIME,
        path="off",
    ),
    "session": Law(
        query=f"SELECT k, {SHOWN} FROM r GROUP BY sessionwindow('ms', 1500), k", settings=BY_TIME
    ),
    "sliding": Law(
        query=f"SELECT {SHOWN}, window_end() AS e FROM r GROUP BY slidingwindow('ss', 2, 1)",
        settings=BY_TIME,
        rows=12,
    ),
    "state": Law(
        query=f"SELECT {SHOWN} FROM r GROUP BY statewindow(v > 2, stop) OVER (PARTITION BY k)",
        settings=BY_TIME,
        early_seconds=6,
    ),
    "count, by the clock": Law(
        query="SELECT * FROM r GROUP BY countwindow(3)", settings=BY_CLOCK, batches=6, rows=20
    ),
}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 2)
        patch.setattr("tidegate.engine.rows.duplicates.MERGED_SPAN", 0)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


# The others are for ``make test-all``.
# For ``make test-all``; test_all_at_once has duplicates too.
QUICK: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.whole) for name in LAWS],
)
def test_duplicates_are_those_of_the_oracle(name: str, found: Results[str, Answers]) -> None:
    assert found[name].counts["duplicate"] > 0
    check(LAWS[name], found[name])
