"""``dedup_key`` and quotas over a table, and what Spark refuses of them at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from tidegate.errors import ExecutionError, QueryError

if TYPE_CHECKING:
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


def test_a_table_is_within_its_quotas(interpreted: SparkSession) -> None:
    found = query(interpreted, COUNTED, max_groups=2).batch()
    assert {tuple(row) for row in found.collect()} == {("p", 4), ("q", 1)}


def test_quotas_of_windows_that_overlap_need_a_stream(interpreted: SparkSession) -> None:
    hops = COUNTED.replace("tumblingwindow('mi', 1)", "hoppingwindow('ss', 10, 5)")
    with pytest.raises(ExecutionError, match="windows that overlap"):
        query(interpreted, hops, max_groups=2).batch()


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
