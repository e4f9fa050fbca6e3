"""State and count windows: what stays in the state, what is refused and warned of at a start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.engine.windows.operator import Closing
from tidegate.engine.windows.ordered.log import (
    MOST_SEGMENTS,
    SMALL_ROWS,
    OrderedState,
    ordered_state,
)
from tidegate.errors import QueryError
from tidegate.state.manifest import Segment, Tables
from tidegate.state.reader import StateReader

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.api.query import Query
    from tidegate.metrics.report import BatchReport

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT"
CLOCK_US = 4_000_000_000_000_000


def make_query(spark: SparkSession, window: str, keys: str = "") -> Query:
    return tidegate.sql(
        f"SELECT count(*) AS n, window_id() AS id FROM r GROUP BY {window}{keys}",
        streams={"r": SCHEMA},
        settings={"event_time_field": "ts"},
        spark=spark,
    )


def frame(spark: SparkSession, *rows: tuple[float, str | None, int]) -> DataFrame:
    timed = [(START + timedelta(seconds=second), k, v) for second, k, v in rows]
    return spark.createDataFrame(timed, SCHEMA)


def carried(checkpoint: Path) -> list[Segment]:
    return list(StateReader(checkpoint).manifest().tables.log)


def test_finished_machines_leave_no_rows_and_waiting_rows_are_not_rewritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = make_query(spark, "statewindow(v > 0, v = 9) OVER (PARTITION BY k)", ", k")
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)

    stepper.batch(frame(spark, (0, "a", 1), (1, "b", 1), (2, "b", 3), (5, "c", 0)), CLOCK_US)
    # Released are a and b, both open; the row at W waits.
    before = carried(tmp_path)
    assert [(segment.rows, segment.windows) for segment in before] == [(3, 2)]

    stepper.batch(frame(spark, (5, "c", 0)), CLOCK_US)
    assert carried(tmp_path) == before

    closed = stepper.batch(frame(spark, (6, "b", 9), (7, None, 1), (9, "c", 0)), CLOCK_US)
    assert [row["n"] for row in closed.rows] == [3]
    assert [(segment.rows, segment.windows) for segment in carried(tmp_path)] == [(2, 2)]

    flushed = stepper.flush()
    assert sorted(row["n"] for row in flushed.rows) == [1, 1]
    assert flushed.report.closed_windows == 2
    assert carried(tmp_path) == []
    segments = {path.name for path in (tmp_path / "tidegate" / "segments").iterdir()}
    reader = StateReader(tmp_path)
    kept = [reader.manifest(epoch) for epoch in reader.epochs()]
    assert segments == {segment.name for manifest in kept for segment in manifest.segments}


def test_a_hundred_thousand_partitions_open_and_close_and_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    # `python -m bench state_partitions` does it with a million.
    query = tidegate.sql(
        "SELECT k, count(*) AS n FROM r "
        "GROUP BY statewindow(v > 0, v = 0) OVER (PARTITION BY k), k HAVING count(*) > 2",
        streams={"r": "k BIGINT, v BIGINT"},
        settings={"time": "processing"},
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)

    def batch(rows: str) -> tuple[list[tuple[int, int]], BatchReport]:
        outcome = stepper.batch(spark.sql(f"SELECT id AS k, {rows}"), CLOCK_US)
        return [tuple(row) for row in outcome.rows], outcome.report

    once, again = "1L AS v FROM range(100000)", "SELECT 7L AS k, 2L AS v"
    assert batch(f"{once} UNION ALL {again}")[1].state_rows == 100_001
    three_rows, report = batch("0L AS v FROM range(100000)")
    assert three_rows == [(7, 3)]
    assert report.closed_windows == 100_000
    assert report.state_rows == 0
    assert StateReader(tmp_path).manifest().segments == ()


def test_a_partition_that_is_at_a_multiple_of_its_count_leaves_no_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = make_query(spark, "countwindow(2) OVER (PARTITION BY k)")
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    # Equal bounds, in two partitions and in one: the windows have ids of their own all the same.
    rows = [(0.0, k, v) for k in "ab" for v in range(4)]
    outcome = stepper.batch(frame(spark, *rows, (1, "c", 0), (2, "c", 0), (3, "c", 0)), CLOCK_US)
    assert [row["n"] for row in outcome.rows] == [2, 2, 2, 2, 2]
    assert len({row["id"] for row in outcome.rows}) == 5
    assert outcome.report.closed_windows == 5
    assert carried(tmp_path) == []


def test_over_a_table_all_windows_are_emitted(spark: SparkSession) -> None:
    rows = frame(spark, *((second, "a", 0) for second in (3, 1, 2)))
    counts = make_query(spark, "countwindow(2)").batch(r=rows)
    assert sorted(row["n"] for row in counts.collect()) == [1, 2]
    states = make_query(spark, "statewindow(v = 0, v > 0)").batch(r=rows)
    assert [row["n"] for row in states.collect()] == [3]


@pytest.mark.parametrize(
    "joined",
    [
        "r JOIN names USING (v)",
        "(SELECT o, v FROM r WHERE v >= 0) s JOIN most AS m ON s.v = m.v",
    ],
)
def test_rows_keep_their_arrival_order_through_a_join(
    joined: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = tidegate.sql(
        "WITH most AS (SELECT v, max(name) AS name FROM names GROUP BY v) "
        f"SELECT first(o) AS f, last(o) AS l FROM {joined} GROUP BY countwindow(4)",
        streams={"r": "o BIGINT, v BIGINT"},
        tables={"names": spark.sql("SELECT id AS v, 'n' || id AS name FROM range(7)")},
        settings={"time": "processing"},
        spark=spark,
    )
    # No table is small enough for Spark now: by itself it would move both sides.
    threshold = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(threshold)
    spark.conf.set(threshold, "-1")
    try:
        stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=3)
        rows = spark.sql("SELECT id AS o, id % 7 AS v FROM range(0, 12, 1, 2)")
        outcome = stepper.batch(rows, CLOCK_US)
    finally:
        spark.conf.set(threshold, before)
    assert sorted(map(tuple, outcome.rows)) == [(0, 3), (4, 7), (8, 11)]


@pytest.mark.parametrize(
    ("window", "condition", "kind"),
    [("statewindow(v, v = 1)", "v", "BIGINT"), ("statewindow(v = 1, k)", "k", "STRING")],
)
def test_a_condition_that_is_not_boolean_is_refused_with_its_type(
    spark: SparkSession, window: str, condition: str, kind: str
) -> None:
    with pytest.raises(QueryError) as refusal:
        _ = make_query(spark, window).schema
    assert f"the condition {condition} of statewindow is {kind}" in str(refusal.value)
    assert f"GROUP BY {window}\n" in str(refusal.value)


def segment(name: str, *, rows: int, times: tuple[int, int] = (0, 9)) -> Segment:
    first_us, last_us = times
    return Segment(name=name, first_us=first_us, last_us=last_us, rows=rows)


@pytest.mark.parametrize(
    ("log", "batch", "anew"),
    [
        ([], 1, True),
        ([SMALL_ROWS], 1, True),
        ([SMALL_ROWS + 1], 1, False),
        ([3 * SMALL_ROWS, SMALL_ROWS], 1, False),
        ([3 * SMALL_ROWS, SMALL_ROWS], 2 * SMALL_ROWS, True),
        ([3 * SMALL_ROWS, SMALL_ROWS, 2 * SMALL_ROWS], 1, True),
        ([3 * SMALL_ROWS, *[1] * (MOST_SEGMENTS - 1)], 1, True),
    ],
    ids=["none", "small", "large", "some", "large batch", "as much again", "many pieces"],
)
def test_the_log_is_rewritten_when_that_is_cheap(log: list[int], batch: int, anew: bool) -> None:
    carried = tuple(segment(f"{i}-log", rows=n) for i, n in enumerate(log))
    state = OrderedState(carried=carried, due=(segment("9", rows=batch),), waiting=())
    assert state.is_small is anew


def test_a_segment_is_due_while_the_bound_passes_it_and_waits_until_then() -> None:
    names = {
        bound_us: ordered_state(
            Closing(
                epoch=1,
                before_us=before_us,
                bound_us=bound_us,
                tables=Tables(
                    windows=(
                        segment("0", rows=3, times=(10, 19)),
                        segment("1", rows=3, times=(15, 29)),
                    ),
                    log=(segment("0-log", rows=1, times=(1, 5)),),
                ),
            ),
            event_time=True,
        )
        for before_us, bound_us in ((None, 10), (10, 15), (15, 20))
    }
    assert {bound: [s.name for s in state.due] for bound, state in names.items()} == {
        10: [],
        15: ["0"],
        20: ["0", "1"],
    }
    assert {bound: [s.name for s in state.waiting] for bound, state in names.items()} == {
        10: ["0", "1"],
        15: ["0", "1"],
        20: ["1"],
    }
