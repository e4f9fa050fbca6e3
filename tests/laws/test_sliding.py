"""Sliding windows equal the oracle, on frames over accumulators and on rows kept whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.scripts import case_of, one_script
from oracle.adapter import OracleEngine
from tidegate.cases import Case, CaseEngine
from tidegate.cases.model import Column, Stream
from tidegate.cases.spark import SparkRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
STREAM = Stream(
    name="clicks",
    columns=(
        Column(name="ts", type="TIMESTAMP"),
        Column(name="k", type="STRING"),
        Column(name="page", type="STRING"),
        Column(name="v", type="BIGINT"),
    ),
)
VALUES = "count(*) AS n, sum(v) AS total, max(v) AS high, window_end() AS e"
# At once with a group a window; waiting with one; waiting with a group for each page in the window.
QUERIES = (
    f"SELECT k, {VALUES} FROM clicks GROUP BY slidingwindow('ss', 30) OVER (PARTITION BY k), k",
    f"SELECT {VALUES} FROM clicks GROUP BY slidingwindow('ss', 5, 25) OVER (WHEN v > 1)",
    f"SELECT page, {VALUES} FROM clicks "
    "GROUP BY slidingwindow('ss', 20, 4) OVER (PARTITION BY k), page",
)

SETTINGS = {"event_time_field": "ts", "watermark_lag": "2s", "allowed_lateness": "1s"}

Row = tuple[datetime, str | None, str, int | None]


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[Row, ...]]:
    """Batches five seconds apart, their rows up to six seconds early or late."""
    row = st.tuples(
        st.integers(-12, 12),
        st.sampled_from(["a", "b", None]),
        st.sampled_from("xy"),
        st.one_of(st.none(), st.integers(0, 4)),
    )
    batches = draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=5, max_size=6))
    return [
        tuple((START + timedelta(seconds=5 * i + half / 2), *rest) for half, *rest in batch)
        for i, batch in enumerate(batches)
    ]


@pytest.mark.parametrize("query", QUERIES)
@one_script
@given(script=scripts())
def test_frames_and_whole_rows_give_what_the_oracle_gives(
    query: str, script: list[tuple[Row, ...]], spark: SparkSession
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Every second segment is merged, so that windows are made of panes too.
        patch.setattr("tidegate.engine.step.MERGE_FACTOR", 2)
        expected = answers(OracleEngine(case(query)), script)
        for path in ("auto", "off"):
            engine = SparkRuns(spark=spark).factory()(case(query, streaming_aggregation=path))
            assert answers(engine, script) == expected, path


def case(query: str, **more: object) -> Case:
    return case_of(query, STREAM, {**SETTINGS, **more})


def answers(engine: CaseEngine, script: list[tuple[Row, ...]]) -> object:
    """What came out step by step, and the counters."""
    with closing(engine):
        steps = [engine.batch(rows, None) for rows in script]
        steps.append(engine.drain())
        emitted = [sorted(map(_text, step.emitted)) for step in steps]
        late = [sorted(_text(row.original) for row in step.side.get("late", ())) for step in steps]
        return emitted, late, dict(engine.counts())


def _text(row: Mapping[str, object]) -> str:
    return str({name: str(value) for name, value in sorted(row.items())})
