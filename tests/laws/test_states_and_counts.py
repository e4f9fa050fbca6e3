"""State and count windows equal the oracle step by step: late rows, NULLs, a flush and a drain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.scripts import case_of, one_script
from oracle.adapter import OracleEngine
from tidegate.cases import Case, CaseEngine, Observed
from tidegate.cases.model import Column, Stream
from tidegate.cases.spark import SparkRuns
from tidegate.time import from_datetime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
STREAM = Stream(
    name="readings",
    columns=(
        Column(name="ts", type="TIMESTAMP"),
        Column(name="k", type="STRING"),
        Column(name="v", type="BIGINT"),
        Column(name="stop", type="BOOLEAN"),
    ),
)
EVENT_TIME = {"event_time_field": "ts", "watermark_lag": "3s", "allowed_lateness": "2s"}
BOUNDS = "window_start() AS s, window_end() AS e"
VALUES = f"count(*) AS n, sum(v) AS total, first(v) AS f, last(v) AS l, {BOUNDS}"
# Conditions that often hold at once, so that machines set, reset and toggle.
STATE = "statewindow(v > 2, stop OR v = 4)"
QUERIES = {
    "a machine for each key": (
        f"SELECT k, {VALUES} FROM readings GROUP BY {STATE} OVER (PARTITION BY k), k",
        EVENT_TIME,
    ),
    "one machine, its rows": (f"SELECT k, v, stop, {BOUNDS} FROM readings GROUP BY {STATE}", {}),
    "three rows of a key": (
        f"SELECT {VALUES} FROM readings GROUP BY countwindow(3) OVER (PARTITION BY k)",
        EVENT_TIME,
    ),
    "five rows, on every second, grouped": (
        f"SELECT k, {VALUES} FROM readings GROUP BY countwindow(5, 2), k",
        {},
    ),
    "two rows, on every third": (
        f"SELECT k, {VALUES} FROM readings GROUP BY countwindow(2, 3) OVER (PARTITION BY k), k",
        EVENT_TIME,
    ),
}

Row = tuple[datetime, str | None, int | None, bool | None]


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[Row, ...]]:
    """Batches two seconds apart, their rows up to six seconds early or late."""
    row = st.tuples(
        st.integers(-12, 12),
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(1, 4)),
        st.sampled_from([True, False, False, None]),
    )
    batches = draw(st.lists(st.lists(row, min_size=1, max_size=7), min_size=4, max_size=5))
    return [
        tuple((START + timedelta(seconds=2 * i + half / 2), *rest) for half, *rest in batch)
        for i, batch in enumerate(batches)
    ]


@pytest.mark.parametrize("query", QUERIES)
@one_script
@given(script=scripts())
def test_windows_by_the_order_of_rows_are_those_of_the_oracle(
    query: str, script: list[tuple[Row, ...]], spark: SparkSession
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Waiting rows are merged as soon as two batches have brought some, and what is carried is
        # appended to its log however small that is.
        patch.setattr("tidegate.engine.step.MERGE_FACTOR", 2)
        patch.setattr("tidegate.engine.carried.SMALL_ROWS", 0)
        patch.setattr("tidegate.engine.carried.SMALL_TIMES", 0)
        expected = answers(OracleEngine(case(query)), script)
        assert answers(SparkRuns(spark=spark).factory()(case(query)), script) == expected


def case(name: str) -> Case:
    query, of_case = QUERIES[name]
    return case_of(query, STREAM, of_case)


def answers(engine: CaseEngine, script: Sequence[tuple[Row, ...]]) -> list[object]:
    """What each step gave: every batch, a flush before the last one, a drain after it."""
    with closing(engine):
        seen = []
        for i, rows in enumerate(script):
            if i == len(script) - 1:
                engine.stop()
                seen.append(shown(engine.flush()))
            # Two batches at each instant: the clock may stand still.
            clock = START + timedelta(seconds=10 * (i // 2))
            seen.append(shown(engine.batch(rows, from_datetime(clock))))
        return [*seen, shown(engine.drain()), engine.counts()]


def shown(observed: Observed) -> tuple[object, ...]:
    late = observed.side.get("late", ())
    return (
        sorted(repr([(name, row[name]) for name in observed.columns]) for row in observed.emitted),
        sorted(repr((sorted(row.original.items()), row.late_by_ms)) for row in late),
        observed.watermark_us,
    )
