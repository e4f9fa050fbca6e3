"""State and count windows equal the oracle step by step: late rows, NULLs, a flush and a drain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import tidegate
from laws.scripts import PROCESSING_TIME, STREAM, Answers, Law, answers_of_spark, check, drawn
from side_by_side import Results, side_by_side
from tidegate.plan.stages import IngestRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOUNDS = "window_start() AS s, window_end() AS e"
VALUES = f"count(*) AS n, sum(v) AS total, first(v) AS f, last(v) AS l, {BOUNDS}"
# Conditions that often hold at once, so that machines set, reset and toggle.
STATE = "statewindow(v > 2, stop OR v = 4)"
COUNT, FEW, MANY = drawn("count", 2, 4), drawn("fewer", 2, 3), drawn("many", 4, 7)
LAWS = {
    "a machine for each key": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY {STATE} OVER (PARTITION BY k), k",
        early_seconds=6,
    ),
    "one machine, its rows": Law(
        query=f"SELECT *, {BOUNDS} FROM r GROUP BY {STATE}", settings=PROCESSING_TIME
    ),
    "so many rows of a key": Law(
        query=f"SELECT {VALUES} FROM r GROUP BY countwindow({COUNT}) OVER (PARTITION BY k)",
        early_seconds=6,
    ),
    "many rows, every few, grouped": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY countwindow({MANY}, {FEW}), k",
        settings=PROCESSING_TIME,
    ),
    "few rows, every many, as they are": Law(
        query=f"SELECT *, {BOUNDS} FROM r "
        f"GROUP BY countwindow({FEW}, {MANY}) OVER (PARTITION BY k)",
        early_seconds=6,
    ),
}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        # Two segments of waiting rows are enough for a merge, and carried rows are appended to
        # their log however small it is.
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 2)
        patch.setattr("tidegate.engine.windows.ordered.log.SMALL_ROWS", 0)
        patch.setattr("tidegate.engine.windows.ordered.log.SMALL_TIMES", 0)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


@pytest.mark.parametrize("name", LAWS)
def test_state_and_count_windows_are_those_of_the_oracle(
    name: str, found: Results[str, Answers]
) -> None:
    check(LAWS[name], found[name])


@pytest.mark.parametrize("name", LAWS)
def test_rows_are_stored_whatever_streaming_aggregation_says(name: str) -> None:
    law = LAWS[name]
    auto, off = (
        tidegate.sql(
            law.query,
            settings={**law.settings, "streaming_aggregation": path},
            streams={"r": ", ".join(f"{column.name} {column.type}" for column in STREAM.columns)},
        ).physical
        for path in ("auto", "off")
    )
    assert isinstance(auto.ingest, IngestRows)
    assert isinstance(off.ingest, IngestRows)
    assert auto.fingerprint == off.fingerprint
