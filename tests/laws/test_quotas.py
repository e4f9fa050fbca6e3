"""Quotas evict the rows that the oracle evicts: in a batch, across batches, from some windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from laws.scripts import EVENT_TIME, Answers, Law, answers_of_spark, check
from side_by_side import Results, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = "count(*) AS n, sum(v) AS total, first(page) AS p, window_start() AS s, window_end() AS e"
LISTED = "collect_list(v) AS all_v, window_start() AS s"
LAWS = {
    "groups of tumbling windows": Law(
        query=f"SELECT k, {SHOWN} FROM r GROUP BY tumblingwindow('ss', 4), k",
        settings={**EVENT_TIME, "max_groups": 4},
    ),
    "groups of hopping windows": Law(
        query=f"SELECT k, {SHOWN} FROM r GROUP BY hoppingwindow('ss', 4, 2), k",
        settings={**EVENT_TIME, "max_groups": 4},
    ),
    "groups and rows of cumulating windows": Law(
        query=f"SELECT k, {LISTED} FROM r GROUP BY cumulatewindow('ss', 6, 2), k",
        settings={**EVENT_TIME, "max_groups": 5, "max_rows_per_group": 2},
    ),
    "rows of tumbling windows": Law(
        query="SELECT *, window_end() AS e FROM r GROUP BY tumblingwindow('ss', 4)",
        settings={**EVENT_TIME, "max_rows_per_group": 5},
    ),
    "rows of sessions": Law(
        query=f"SELECT k, {LISTED}, window_end() AS e FROM r GROUP BY sessionwindow('ms', 1000), k",
        settings={**EVENT_TIME, "max_rows_per_group": 2},
    ),
    "rows of sessions of all keys": Law(
        query="SELECT *, window_end() AS e FROM r GROUP BY sessionwindow('ms', 500)",
        settings={**EVENT_TIME, "max_rows_per_group": 3},
    ),
    "keys with an open session, and rows of sessions": Law(
        query=f"SELECT k, {LISTED}, window_end() AS e FROM r GROUP BY sessionwindow('ms', 1000), k",
        settings={**EVENT_TIME, "max_groups": 5, "max_rows_per_group": 2},
    ),
    "keys with an open session": Law(
        query=f"SELECT k, {SHOWN} FROM r GROUP BY sessionwindow('ms', 1000), k",
        settings={**EVENT_TIME, "max_groups": 5},
    ),
}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 2)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


# For ``make test-all``; test_all_at_once has quotas too.
QUICK: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.whole) for name in LAWS],
)
def test_what_is_evicted_is_what_the_oracle_evicts(name: str, found: Results[str, Answers]) -> None:
    assert found[name].counts["evicted"] > 0
    check(LAWS[name], found[name])
