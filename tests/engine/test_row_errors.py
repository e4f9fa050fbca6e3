"""Rows on which an expression fails: they are handed over, and no window of any kind has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import ArithmeticException

import tidegate
from tidegate.cases.stepper import CaseStepper

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.cases.stepper import CaseStepper

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "ts TIMESTAMP, k STRING, a BIGINT, b BIGINT"
CLOCK_US = 4_000_000_000_000_000


def stepper_of(
    spark: SparkSession, path: Path, sql: str, schema: str = SCHEMA, **settings: str
) -> CaseStepper:
    given = {"event_time_field": "ts", **settings}
    query = tidegate.sql(sql, streams={"r": schema}, settings=given, spark=spark)
    return CaseStepper(query, checkpoint=str(path), partitions=2)


def frame(
    spark: SparkSession, *rows: tuple[float, str | None, int | None, int | None]
) -> DataFrame:
    timed = [(START + timedelta(seconds=second), k, a, b) for second, k, a, b in rows]
    return spark.createDataFrame(timed, SCHEMA)


WINDOWS = {
    "tumblingwindow('ss', 10)": [2],
    "hoppingwindow('ss', 10, 5)": [1, 1, 2],
    "cumulatewindow('ss', 10, 5)": [1, 2],
    "sessionwindow('ss', 7)": [2],
    "slidingwindow('ss', 10)": [1, 2, 1],
    "statewindow(a / b >= 1, a / b >= 2)": [2],
    "countwindow(2)": [2],
}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_row_that_fails_is_in_no_window_of_any_kind(
    spark: SparkSession, tmp_path: Path, window: str
) -> None:
    sql = f"SELECT count(a / b) AS good, count(*) AS n FROM r GROUP BY {window}"
    stepper = stepper_of(spark, tmp_path, sql)

    rows = [(1, "x", 4, 4), (3, "x", 7, 0), (6, "x", 6, 3), (31, "x", 0, 1)]
    outcome = stepper.batch(frame(spark, *rows), CLOCK_US)

    assert sorted(row["n"] for row in outcome.rows) == sorted(WINDOWS[window])
    assert all(row["good"] == row["n"] for row in outcome.rows)
    report = outcome.report
    assert (report.rows_in, report.accumulated, report.error) == (4, 3, 1)
    assert [(each.kind, each.reason, each.original["a"]) for each in outcome.side] == [
        ("error", "division_by_zero", 7)
    ]


def test_a_row_that_fails_moves_the_watermark_and_one_whose_event_time_fails_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = "ts TIMESTAMP, raw STRING, b BIGINT"
    sql = (
        "SELECT sum(1 / b) AS s FROM r GROUP BY tumblingwindow('ss', 10) "
        "ON CAST(raw AS TIMESTAMP) WATERMARK (INTERVAL '0' SECOND)"
    )
    stepper = stepper_of(spark, tmp_path, sql, schema)

    rows = [(START, "2026-01-01 10:00:01", 1), (START, "2026-01-01 10:00:05", 0), (START, "?", 1)]
    outcome = stepper.batch(spark.createDataFrame(rows, schema), CLOCK_US)

    assert outcome.report.watermark_us == round(START.timestamp() * 1_000_000) + 5_000_000
    assert sorted(each.reason for each in outcome.side) == ["division_by_zero", "null_event_time"]


@pytest.mark.parametrize("path_kind", ["auto", "off"])
def test_with_the_policy_null_a_key_that_fails_is_null(
    spark: SparkSession, tmp_path: Path, path_kind: str
) -> None:
    sql = "SELECT a % b AS key, count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10), a % b"
    settings = {"error_policy": "null", "streaming_aggregation": path_kind}
    stepper = stepper_of(spark, tmp_path, sql, **settings)

    rows = [(1, "x", 4, 3), (2, "x", 7, 0), (3, "x", None, 3), (30, "x", 1, 1)]
    outcome = stepper.batch(frame(spark, *rows), CLOCK_US)

    assert {row["key"]: row["n"] for row in outcome.rows} == {1: 1, None: 2}
    assert (outcome.report.error, outcome.side) == (0, ())


def test_with_the_policy_fail_the_batch_stops_and_nothing_of_it_is_in_the_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    sql = "SELECT sum(a / b) AS s FROM r GROUP BY tumblingwindow('ss', 10)"
    stepper = stepper_of(spark, tmp_path, sql, error_policy="fail")

    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        stepper.batch(frame(spark, (1, "x", 7, 0)), CLOCK_US)

    assert not list((tmp_path / "tidegate").glob("manifests/*.json"))


def over_a_table(spark: SparkSession, window: str, **settings: str) -> tidegate.Query:
    return tidegate.sql(
        f"SELECT sum(a / b) AS s, 6 / (count(*) - 2) AS t FROM r GROUP BY {window}",
        streams={"r": SCHEMA},
        settings={"event_time_field": "ts", **settings},
        spark=spark,
    )


@pytest.mark.parametrize("window", ["tumblingwindow('ss', 10)", "sessionwindow('ss', 5)"])
def test_batch_errors_has_what_batch_leaves_out(spark: SparkSession, window: str) -> None:
    query = over_a_table(spark, window)
    rows = frame(
        spark, (1, "x", 4, 2), (2, "x", 7, 0), (21, "x", 6, 3), (22, "x", 6, 3), (41, "x", 5, 1)
    ).unionByName(spark.createDataFrame([(None, "y", 1, 1)], SCHEMA))

    assert sorted(row["s"] for row in query.batch(r=rows).collect()) == [2.0, 5.0]
    errors = {each["reason"] + str(each["error_detail"]): each for each in
              query.batch_errors(r=rows).collect()}  # fmt: skip
    assert set(errors) == {
        "division_by_zeroa / b", "division_by_zero6 / (count(*) - 2)", "null_event_timeNone"
    }  # fmt: skip
    assert errors["division_by_zeroa / b"]["original_event"]["a"] == 7
    assert errors["null_event_timeNone"]["original_event"]["k"] == "y"
    failed = errors["division_by_zero6 / (count(*) - 2)"]
    assert (failed["window"]["start"], failed["original_event"]) == (
        "2026-01-01T10:00:20Z" if "tumbling" in window else "2026-01-01T10:00:21Z", None
    )  # fmt: skip


def test_over_a_table_the_policy_null_gives_nulls_and_fail_stops(spark: SparkSession) -> None:
    rows = frame(spark, (1, "x", 4, 2), (2, "x", 7, 0), (23, "x", 9, 3))
    window = "tumblingwindow('ss', 10)"

    quiet = over_a_table(spark, window, error_policy="null")
    assert sorted(tuple(row) for row in quiet.batch(r=rows).collect()) == [(2.0, None), (3.0, -6.0)]
    assert quiet.batch_errors(r=rows).collect() == []

    strict = over_a_table(spark, window, error_policy="fail")
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        strict.batch(r=rows).collect()


RESULT = (
    "SELECT k, sum(a) / (count(*) - 2) AS share FROM r GROUP BY tumblingwindow('ss', 10), k "
    "HAVING 10 / (max(b) - 5) < 10"
)


@pytest.mark.parametrize("path_kind", ["auto", "off"])
def test_a_result_that_fails_is_an_error_with_its_window_and_group(
    spark: SparkSession, tmp_path: Path, path_kind: str
) -> None:
    stepper = stepper_of(spark, tmp_path, RESULT, streaming_aggregation=path_kind)
    # x: one row, fine. y: two rows, the share fails. z and w: HAVING fails. v: HAVING is false.
    outcome = stepper.batch(
        frame(
            spark, (1, "x", 4, 1), (2, "y", 6, 1), (3, "y", 6, 1), (4, "z", 1, 5), (5, "w", 1, 5),
            (6, "w", 1, None), (7, "v", 1, 6), (30, "x", 1, 1),
        ),
        CLOCK_US,
    )  # fmt: skip

    assert [tuple(row) for row in outcome.rows] == [("x", -4.0)]
    report = outcome.report
    assert (report.rows_out, report.result_errors, report.error) == (1, 3, 0)
    assert {(each.group_key["k"], each.reason, each.detail) for each in outcome.side} == {
        ("w", "division_by_zero", "10 / (max(b) - 5)"),
        ("y", "division_by_zero", "sum(a) / (count(*) - 2)"),
        ("z", "division_by_zero", "10 / (max(b) - 5)"),
    }
    assert {(each.kind, each.window[0], each.original) for each in outcome.side} == {
        ("error", "2026-01-01T10:00:00Z", None)
    }


def test_with_the_policy_null_a_result_that_fails_is_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    sql = "SELECT sum(a) / (count(*) - 2) AS share FROM r GROUP BY tumblingwindow('ss', 10)"
    stepper = stepper_of(spark, tmp_path, sql, error_policy="null")

    rows = [(1, "x", 4, 1), (2, "x", 4, 1), (30, "x", 4, 1)]
    outcome = stepper.batch(frame(spark, *rows), CLOCK_US)

    assert [row["share"] for row in outcome.rows] == [None]
    assert (outcome.report.result_errors, outcome.side) == (0, ())


@pytest.mark.parametrize("call", ["corr(x, y)", "regr_r2(y, x)"])
def test_pairs_of_tiny_numbers_whose_product_is_0_do_not_stop_the_query(
    spark: SparkSession, tmp_path: Path, call: str
) -> None:
    schema = "ts TIMESTAMP, x DOUBLE, y DOUBLE"
    sql = f"SELECT {call} AS v FROM r GROUP BY tumblingwindow('ss', 10)"
    stepper = stepper_of(spark, tmp_path, sql, schema)

    tiny = 1e-150
    rows = [(START + timedelta(seconds=s), s * tiny, s * s * tiny) for s in (1, 2, 4)]
    rows.append((START + timedelta(seconds=30), 1.0, 1.0))
    outcome = stepper.batch(spark.createDataFrame(rows, schema), CLOCK_US)

    assert [row["v"] for row in outcome.rows] == [None]


@pytest.mark.parametrize("path_kind", ["auto", "off"])
def test_a_value_that_a_filter_leaves_out_does_not_fail(
    spark: SparkSession, tmp_path: Path, path_kind: str
) -> None:
    sql = (
        "SELECT sum(a / b) FILTER (WHERE b <> 0) AS s, count(*) AS n FROM r "
        "WHERE a > 1 GROUP BY tumblingwindow('ss', 10)"
    )
    stepper = stepper_of(spark, tmp_path, sql, streaming_aggregation=path_kind)

    rows = [(1, "x", 4, 2), (2, "x", 7, 0), (3, "x", 1, 0), (30, "x", 9, 1)]
    outcome = stepper.batch(frame(spark, *rows), CLOCK_US)

    assert [tuple(row) for row in outcome.rows] == [(2.0, 2)]
    assert (outcome.report.error, outcome.report.filtered) == (0, 1)


@pytest.mark.parametrize(
    "relation", ["(SELECT *, a * 1.0D AS x, raw || '' AS y FROM r)", "q"], ids=["subquery", "with"]
)
def test_columns_of_a_subquery_have_sparks_types_and_bad_text_is_an_error(
    spark: SparkSession, relation: str
) -> None:
    ctes = "WITH q AS (SELECT *, a * 1.0D AS x, raw || '' AS y FROM r) " if relation == "q" else ""
    sql = (
        f"{ctes}SELECT sum(x + 1) AS s, sum(y) AS t, bool_and(flag) AS u, count(*) AS n "
        f"FROM {relation} WHERE NOT off GROUP BY tumblingwindow('ss', 10)"
    )
    schema = "ts TIMESTAMP, a BIGINT, raw STRING, flag STRING, off STRING"
    rows = [
        (START, 1, "2", "true", "false"), (START, 1, "?", "true", "false"),
        (START, 1, "2", "maybe", "false"), (START, 1, "2", "true", "sometimes"),
    ]  # fmt: skip
    query = tidegate.sql(
        sql, settings={"event_time_field": "ts"}, r=spark.createDataFrame(rows, schema)
    )

    assert [tuple(row) for row in query.batch().collect()] == [(2.0, 2.0, True, 1)]
    errors = query.batch_errors().collect()
    assert sorted((row["reason"], row["error_detail"]) for row in errors) == [
        ("invalid_cast", "flag"), ("invalid_cast", "off"), ("invalid_cast", "y")
    ]  # fmt: skip
    assert "x + 1: " not in query.explain()


def test_a_failure_in_from_yields_null_and_the_query_goes_on(spark: SparkSession) -> None:
    readings = spark.createDataFrame(
        [(START, "1", 4, 2), (START, "?", 4, 2), (START, "2", 4, 0)],
        "ts TIMESTAMP, code STRING, a BIGINT, b BIGINT",
    )
    codes = spark.createDataFrame([(1, "one"), (2, "two")], "id BIGINT, kind STRING")
    sql = (
        "SELECT kind, sum(q) AS s, count(*) AS n "
        "FROM (SELECT *, a / b AS q FROM r) AS r JOIN d ON r.code = d.id "
        "WHERE a NOT IN (SELECT 1 / (id - 1) AS z FROM d WHERE id = 2) "
        "GROUP BY tumblingwindow('ss', 10), kind ON ts"
    )
    query = tidegate.sql(sql, streams={"r": readings}, tables={"d": codes})

    assert sorted(map(tuple, query.batch().collect())) == [("one", 2.0, 1), ("two", None, 1)]
