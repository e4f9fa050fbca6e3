"""Sessions equal the oracle, with accumulators and with stored rows, with and without a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laws.scripts import PROCESSING_TIME, Answers, Law, answers_of_spark, check, drawn
from side_by_side import Results, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = (
    "count(*) AS n, sum(v) AS total, first(page) AS entry, window_start() AS s, window_end() AS e"
)
GAP_MS = drawn("of a key", 1, 5) * 500
BY_KEY = Law(query=f"SELECT k, {SHOWN} FROM r GROUP BY sessionwindow('ms', {GAP_MS}), k")
# Without a key and with many rows, sessions would never end.
SPARSE_GAP_MS = drawn("of all", 1, 3) * 500
LAWS = {
    "by key": BY_KEY,
    "by key, rows kept whole": replace(BY_KEY, path="off"),
    "by key, rows that are not grouped": replace(
        BY_KEY, query=BY_KEY.query.replace("first", "max")
    ),
    "of all": Law(
        query=f"SELECT {SHOWN} FROM r GROUP BY sessionwindow('ms', {SPARSE_GAP_MS})", rows=6
    ),
    "rows": Law(
        query=f"SELECT *, window_end() AS e FROM r GROUP BY sessionwindow('ms', {SPARSE_GAP_MS})",
        rows=6,
    ),
    "by the clock": Law(
        query=f"SELECT k, {SHOWN} FROM r GROUP BY sessionwindow('ss', 1), k",
        settings=PROCESSING_TIME,
        rows=8,
    ),
}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        # Three segments are enough for a merge, so that sessions also consist of merged spans.
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 3)
        # After the first batch rows are spans, unless an aggregate depends on their order.
        patch.setattr("tidegate.engine.tasks.UNGROUPED_FROM", 0)
        patch.setattr("tidegate.engine.tasks.UNGROUPED_UP_TO", 1_000)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


@pytest.mark.parametrize("name", LAWS)
def test_sessions_are_those_of_the_oracle(name: str, found: Results[str, Answers]) -> None:
    check(LAWS[name], found[name])
