"""Sessions equal the oracle, as accumulators and as rows kept whole, with and without a key."""

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
    columns=(Column(name="ts", type="TIMESTAMP"), Column(name="k", type="STRING")),
)
SHOWN = "count(*) AS n, first(k) AS entry, window_start() AS s, window_end() AS e"
# The first by accumulators and by rows, with a key; the second on the one line of all rows.
QUERIES = (
    (f"SELECT k, {SHOWN} FROM clicks GROUP BY sessionwindow('ss', 3), k", "auto"),
    (f"SELECT k, {SHOWN} FROM clicks GROUP BY sessionwindow('ss', 3), k", "off"),
    (f"SELECT {SHOWN} FROM clicks GROUP BY sessionwindow('ss', 3)", "auto"),
)
SETTINGS = {"event_time_field": "ts", "watermark_lag": "2s", "allowed_lateness": "1s"}

Row = tuple[datetime, str | None]


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[Row, ...]]:
    """Batches four seconds apart, their rows from twelve seconds early to four late."""
    row = st.tuples(st.integers(-24, 8), st.sampled_from(["a", "b", "c", None]))
    batches = draw(st.lists(st.lists(row, min_size=1, max_size=5), min_size=7, max_size=8))
    return [
        tuple((START + timedelta(seconds=4 * i + half / 2), key) for half, key in batch)
        for i, batch in enumerate(batches)
    ]


@pytest.mark.parametrize(("query", "path"), QUERIES)
@one_script
@given(script=scripts())
def test_sessions_are_those_of_the_oracle(
    query: str, path: str, script: list[tuple[Row, ...]], spark: SparkSession
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Every third segment is merged, so that sessions are made of merged spans too.
        patch.setattr("tidegate.engine.step.MERGE_FACTOR", 3)
        engine = SparkRuns(spark=spark).factory()(case(query, streaming_aggregation=path))
        assert answers(engine, script) == answers(OracleEngine(case(query)), script)


def case(query: str, **more: object) -> Case:
    return case_of(query, STREAM, {**SETTINGS, **more})


def answers(engine: CaseEngine, script: list[tuple[Row, ...]]) -> object:
    """What came out step by step, who was late and by how much, and the counters."""
    with closing(engine):
        steps = [engine.batch(rows, None) for rows in script]
        steps.append(engine.drain())
        emitted = [sorted(map(_text, step.emitted)) for step in steps]
        late = [
            sorted((_text(row.original), row.late_by_ms) for row in step.side.get("late", ()))
            for step in steps
        ]
        return emitted, late, dict(engine.counts())


def _text(row: Mapping[str, object]) -> str:
    return str({name: str(value) for name, value in sorted(row.items())})
