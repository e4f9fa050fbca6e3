"""State and count windows: what stays in the state, what is refused and warned of at a start."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.errors import QueryError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.query import Query

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


def newest_manifest(checkpoint: Path) -> dict[str, Any]:
    manifests = (checkpoint / "tidegate" / "manifests").glob("*.json")
    return json.loads(max(manifests, key=lambda path: int(path.stem)).read_text())


def carried(checkpoint: Path) -> list[dict[str, Any]]:
    return [s for s in newest_manifest(checkpoint)["segments"] if s["name"].endswith("-carried")]


def test_finished_machines_leave_no_rows_and_waiting_rows_alone_rewrite_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = make_query(spark, "statewindow(v > 0, v = 9) OVER (PARTITION BY k)", ", k")
    stepper = query.stepper(checkpoint=str(tmp_path), partitions=2)

    stepper.batch(frame(spark, (0, "a", 1), (1, "b", 1), (2, "b", 3), (5, "c", 0)), CLOCK_US)
    # Released are a and b, both open; the row at W waits.
    before = carried(tmp_path)
    assert [(segment["rows"], segment["windows"]) for segment in before] == [(3, 2)]

    stepper.batch(frame(spark, (5, "c", 0)), CLOCK_US)
    assert carried(tmp_path) == before

    closed = stepper.batch(frame(spark, (6, "b", 9), (7, None, 1), (9, "c", 0)), CLOCK_US)
    assert [row["n"] for row in closed.rows] == [3]
    assert [(segment["rows"], segment["windows"]) for segment in carried(tmp_path)] == [(2, 2)]

    flushed = stepper.flush()
    assert sorted(row["n"] for row in flushed.rows) == [1, 1]
    assert flushed.report.closed_windows == 2
    assert carried(tmp_path) == []
    segments = {path.name for path in (tmp_path / "tidegate" / "segments").iterdir()}
    assert segments == {segment["name"] for segment in newest_manifest(tmp_path)["segments"]}


def test_a_partition_that_is_at_a_multiple_of_its_count_leaves_no_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = make_query(spark, "countwindow(2) OVER (PARTITION BY k)")
    stepper = query.stepper(checkpoint=str(tmp_path), partitions=2)
    # Equal bounds, in two partitions and in one: the windows have ids of their own all the same.
    rows = [(0.0, k, v) for k in "ab" for v in range(4)]
    outcome = stepper.batch(frame(spark, *rows, (1, "c", 0), (2, "c", 0), (3, "c", 0)), CLOCK_US)
    assert [row["n"] for row in outcome.rows] == [2, 2, 2, 2, 2]
    assert len({row["id"] for row in outcome.rows}) == 5
    assert outcome.report.closed_windows == 5
    assert carried(tmp_path) == []


def test_a_table_gives_all_windows_the_last_ones_too(spark: SparkSession) -> None:
    rows = frame(spark, *((second, "a", 0) for second in (3, 1, 2)))
    counts = make_query(spark, "countwindow(2)").batch(r=rows)
    assert sorted(row["n"] for row in counts.collect()) == [1, 2]
    states = make_query(spark, "statewindow(v = 0, v > 0)").batch(r=rows)
    assert [row["n"] for row in states.collect()] == [3]


@pytest.mark.parametrize(
    ("window", "condition", "kind"),
    [("statewindow(v, v = 1)", "v", "BIGINT"), ("statewindow(v = 1, k)", "k", "STRING")],
)
def test_a_condition_that_is_not_boolean_is_refused_with_its_type(
    spark: SparkSession, window: str, condition: str, kind: str
) -> None:
    with pytest.raises(QueryError) as refusal:
        _ = make_query(spark, window).schema
    assert f"the condition {condition} of a state window is {kind}" in str(refusal.value)
    assert f"GROUP BY {window}\n" in str(refusal.value)


def test_keys_that_do_not_split_the_machine_are_warned_of_once(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    split = make_query(spark, "statewindow(v = 7, v = 8) OVER (PARTITION BY k)", ", `K`")
    assert split.schema
    assert not caplog.records
    shared = make_query(spark, "statewindow(v = 7, v = 8)", ", k")
    assert shared.schema
    assert shared.batch(r=frame(spark)).schema
    (record,) = caplog.records
    assert "GROUP BY k does not split the state window" in record.message
    assert "statewindow(v = 7, v = 8) OVER (PARTITION BY k)" in record.message
