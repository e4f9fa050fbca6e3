"""Sliding windows equal the oracle, with accumulators and with stored rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laws.scripts import PROCESSING_TIME, Answers, Law, answers_of_spark, check, drawn
from side_by_side import Results, dealt, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = "count(*) AS n, sum(v) AS total, max(v) AS high, window_trigger() AS t, window_end() AS e"
LOOKBACK, LOOKAHEAD = drawn("lookback", 1, 6), drawn("lookahead", 1, 6)
# So early that some rows are out of reach of every window.
EARLY_SECONDS = 24
# At once with one group per window; waiting with one; waiting with a group for each page.
AGGREGATED = {
    "at once": Law(
        query=f"SELECT k, {VALUES} FROM r "
        f"GROUP BY slidingwindow('ss', {LOOKBACK}) OVER (PARTITION BY k), k",
        early_seconds=EARLY_SECONDS,
    ),
    "of all": Law(
        query=f"SELECT {VALUES} FROM r "
        f"GROUP BY slidingwindow('ss', {LOOKAHEAD}, {LOOKBACK}) OVER (WHEN v > 1)",
        rows=18,
        early_seconds=EARLY_SECONDS,
    ),
    "with groups": Law(
        query=f"SELECT page, {VALUES} FROM r "
        f"GROUP BY slidingwindow('ss', {LOOKBACK}, {LOOKAHEAD}) OVER (PARTITION BY k), page",
        early_seconds=EARLY_SECONDS,
    ),
    "by the clock": Law(
        query=f"SELECT k, {VALUES} FROM r "
        "GROUP BY slidingwindow('ss', 3, 2) OVER (PARTITION BY k WHEN v > 1), k",
        settings=PROCESSING_TIME,
    ),
}
LAWS = {
    **AGGREGATED,
    **{f"{name}, rows kept whole": replace(law, path="off") for name, law in AGGREGATED.items()},
    "rows": Law(
        query="SELECT *, window_trigger() AS t FROM r "
        f"GROUP BY slidingwindow('ss', {LOOKBACK}, 0) OVER (PARTITION BY k WHEN stop)",
        early_seconds=EARLY_SECONDS,
    ),
}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        # Two segments are enough for a merge, so that windows also consist of panes.
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 2)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


@pytest.mark.parametrize("name", dealt(LAWS, ("at once", "with groups", "rows")))
def test_frames_and_stored_rows_give_what_the_oracle_gives(
    name: str, found: Results[str, Answers]
) -> None:
    check(LAWS[name], found[name])
