"""Statements over frames: names in braces are frames, whatever users quote or other threads do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

import tidegate
from tidegate.errors import ConfigError
from tidegate.spark.observe import observed
from tidegate.spark.statements import empty_frame, is_one_of, may_be_one_of, over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_string_that_looks_like_a_placeholder_stays_a_string(spark: SparkSession) -> None:
    query = tidegate.sql(
        "SELECT '{frame} it''s' AS text, count(*) AS n FROM r "
        "WHERE k <> \"{frame}\" GROUP BY tumblingwindow('ss', 10) HAVING max(k) = '{rows}'",
        streams={"r": "ts TIMESTAMP, k STRING"},
        settings={"event_time_field": "ts"},
        spark=spark,
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = spark.createDataFrame(
        [(moment, k) for k in ("{rows}", "{frame}", "{rows}")], "ts TIMESTAMP, k STRING"
    )

    assert [tuple(row) for row in query.batch(r=rows).collect()] == [("{frame} it's", 2)]


def test_threads_of_one_session_do_not_use_each_others_frames(spark: SparkSession) -> None:
    def asked(number: int) -> set[int]:
        frame = spark.sql(f"SELECT * FROM VALUES ({number}) AS r(v)")
        return {row.v for _ in range(15) for row in over(frame, "SELECT v FROM {frame}").collect()}

    numbers = range(4)
    with ThreadPoolExecutor(len(numbers)) as threads:
        assert list(threads.map(asked, numbers)) == [{number} for number in numbers]


def test_a_frame_without_rows_has_the_schema_it_is_given(spark: SparkSession) -> None:
    ddl = "ts TIMESTAMP NOT NULL, `a b` DECIMAL(12,3), c ARRAY<STRUCT<x: INT>>"
    by_ddl = empty_frame(spark, ddl)

    assert by_ddl.schema == spark.createDataFrame([], ddl).schema
    assert empty_frame(spark, by_ddl.schema).schema == by_ddl.schema
    assert by_ddl.collect() == []


def test_the_error_of_a_schema_that_spark_refuses_names_its_stream(spark: SparkSession) -> None:
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)",
        streams={"r": "ts TIMESTAMP, k VARCHAR(10)"},
        settings={"event_time_field": "ts"},
        spark=spark,
    )
    with pytest.raises(ConfigError, match="the schema of r: The char/varchar type"):
        _ = query.schema


def test_large_values_are_observed_whole(spark: SparkSession) -> None:
    large = {
        "long": "max(CAST(repeat('abcdefgh', 5000) AS BINARY))",
        "short": "max(CAST('a' AS BINARY))",
        "empty": "max(CAST('' AS BINARY))",
        "none": "max(CAST(NULL AS BINARY))",
    }
    frame, seen = observed(spark.range(3), {"rows": "count(1)", "last": "max(id)"}, large)
    frame.collect()

    assert seen() == {
        "rows": 3,
        "last": 2,
        "long": b"abcdefgh" * 5000,
        "short": b"a",
        "empty": b"",
        "none": None,
    }


def test_the_schema_of_an_observed_frame_is_not_asked_for_again(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "id + 1 AS next")
    columns = frame.columns
    watched, numbers = observed(frame, {"rows": "count(1)"})
    with patch.object(type(watched._jdf), "__getattr__", side_effect=AssertionError):
        assert watched.columns == columns
    assert [tuple(row) for row in watched.collect()] == [(0, 1), (1, 2), (2, 3)]
    assert numbers() == {"rows": 3}


def test_a_filter_lets_all_values_pass_and_few_others(interpreted: SparkSession) -> None:
    rows = interpreted.range(0, 20_000, numPartitions=1).selectExpr("id * 7919 AS n")
    values = [7919 * each for each in (0, 63, 64, 8_191, 19_999)]
    passed = rows.where(may_be_one_of("n", values)).collect()
    found = {row[0] for row in passed}
    assert found.issuperset(values)
    assert len(found) < 100
    # With each bit of a word set, the highest one too.
    assert rows.where(may_be_one_of("n", range(8_192))).count() == 20_000


def test_a_set_of_one_value_holds_for_it_alone(interpreted: SparkSession) -> None:
    rows = interpreted.range(0, 10).toDF("n")
    assert [row[0] for row in rows.where(is_one_of("n", [3], never=-1)).collect()] == [3]
