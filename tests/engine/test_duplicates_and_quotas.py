"""``dedup_key`` and quotas over a table, and what Spark refuses of them at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from tidegate.cases.model import FAR_AHEAD_US
from tidegate.cases.stepper import CaseStepper
from tidegate.errors import QueryError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = """
    SELECT timestamp_seconds(s) AS ts, id, named_struct('a', id, 'b', NULL) AS pair
    FROM VALUES (1, 'p'), (2, 'q'), (5, 'p'), (12, 'p'), (12, 'r'), (13, 'p') AS v(s, id)
"""
COUNTED = "SELECT id, count(*) AS n FROM r GROUP BY tumblingwindow('mi', 1), id"


def query(spark: SparkSession, sql: str, **settings: object) -> tg.Query:
    return tg.sql(
        sql, settings={"event_time_field": "ts", **settings}, spark=spark, r=spark.sql(ROWS)
    )


@pytest.mark.parametrize("key", ["id", "pair", "array(id)", "hash(id) / 7"])
def test_a_table_is_without_its_duplicates(interpreted: SparkSession, key: str) -> None:
    found = query(interpreted, COUNTED, dedup_key=key, dedup_horizon="10s").batch()
    assert {tuple(row) for row in found.collect()} == {("p", 2), ("q", 1), ("r", 1)}


def test_keys_that_a_collation_takes_for_equal_are_duplicates(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    counted = tg.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('mi', 1)",
        settings={
            "event_time_field": "ts",
            "dedup_key": "id COLLATE UTF8_LCASE",
            "dedup_horizon": "1h",
        },
        streams={"r": "ts TIMESTAMP, id STRING"},
        spark=interpreted,
    )
    stepper = CaseStepper(counted, checkpoint=str(tmp_path), partitions=2)
    rows = (
        "SELECT timestamp_seconds(s) AS ts, id FROM VALUES (1, 'p'), (2, 'P'), (3, 'q') AS v(s, id)"
    )
    assert stepper.batch(interpreted.sql(rows), FAR_AHEAD_US).report.duplicate == 1


def test_a_table_is_within_its_quotas(interpreted: SparkSession) -> None:
    found = query(interpreted, COUNTED, max_groups=2).batch()
    assert {tuple(row) for row in found.collect()} == {("p", 4), ("q", 1)}


# Of windows that overlap, one has room for a row or its group and the other has not.
CROWDED = """
    SELECT timestamp_seconds(s) AS ts, id FROM VALUES
    (1, 'p'), (2, 'q'), (12, 'q'), (7, 'q'), (8, 'p'), (12, 'p'), (13, 'p'), (4, 'p') AS v(s, id)
"""
LISTED = "SELECT id, collect_list(ts) AS ts, window_end() AS e FROM r GROUP BY {}, id"


@pytest.mark.parametrize(
    ("window", "quotas"),
    [
        ("hoppingwindow('ss', 10, 5)", {"max_groups": 1}),
        ("cumulatewindow('ss', 20, 10)", {"max_rows_per_group": 2}),
        ("sessionwindow('ss', 9)", {"max_rows_per_group": 2}),
    ],
)
def test_quotas_hold_for_a_table_as_for_a_stream(
    interpreted: SparkSession, tmp_path: Path, window: str, quotas: dict[str, object]
) -> None:
    table = interpreted.sql(CROWDED)
    settings = {"event_time_field": "ts", "watermark_lag": "1m"}
    asked = tg.sql(LISTED.format(window), settings={**settings, **quotas}, r=table)
    stepper = CaseStepper(asked, checkpoint=str(tmp_path), partitions=2)
    stepper.batch(table, 4_000_000_000_000_000)
    drained = sorted(map(str, stepper.drain().rows))
    assert sorted(map(str, asked.batch().collect())) == drained
    unlimited = tg.sql(LISTED.format(window), settings=settings, r=table).batch()
    assert sorted(map(str, unlimited.collect())) != drained


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("map(id, 1)", "dedup_key is MAP<STRING,INT>, and values of the type MAP have no order"),
        ("pair + 1", r"pair \+ 1"),
    ],
)
def test_a_key_that_spark_cannot_compare_is_refused_at_the_start(
    interpreted: SparkSession, key: str, told: str
) -> None:
    with pytest.raises(QueryError, match=told):
        _ = query(interpreted, COUNTED, dedup_key=key, dedup_horizon="10s").schema
