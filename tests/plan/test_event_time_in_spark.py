"""The microseconds that Spark computes for an event time, for each type."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidegate.plan.time_columns import (
    GREATEST_TIME_US,
    LEAST_TIME_US,
    TimeKind,
    event_time_sql,
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    active = SparkSession.getActiveSession()
    session = active or (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    if active is None:
        session.stop()


def micros(
    spark: SparkSession, values: dict[str, tuple[str, TimeKind, str | None]]
) -> dict[str, int | None]:
    """Return the event time of each value, all in one job; a value is (literal, kind, unit)."""
    columns = ", ".join(f"{literal} AS v{n}" for n, (literal, _, _) in enumerate(values.values()))
    times = [
        event_time_sql(f"v{n}", kind, unit) for n, (_, kind, unit) in enumerate(values.values())
    ]
    row = spark.sql(f"SELECT {columns}").selectExpr(*times).collect()[0]
    return dict(zip(values, row, strict=True))


def test_times_and_texts_become_microseconds_and_other_text_becomes_null(
    spark: SparkSession,
) -> None:
    stamp, civil, text, unknown = (
        TimeKind.TIMESTAMP,
        TimeKind.CIVIL,
        TimeKind.TEXT,
        TimeKind.UNKNOWN,
    )
    assert micros(
        spark,
        {
            "timestamp": ("TIMESTAMP '2026-01-01 00:00:00.000001Z'", stamp, None),
            "before 1970": ("TIMESTAMP '1969-12-31 23:59:59.999999Z'", stamp, None),
            "no zone": ("TIMESTAMP_NTZ '1970-01-01 00:00:01'", civil, None),
            "date": ("DATE '1970-01-02'", civil, None),
            "text": ("'1970-01-01T00:00:01Z'", text, None),
            "no time": ("'soon'", text, None),
            "no value": ("CAST(NULL AS STRING)", text, None),
            "unknown timestamp": ("TIMESTAMP '1970-01-01 00:00:01Z'", unknown, None),
            "unknown text": ("'1970-01-01T00:00:01Z'", unknown, None),
            "unknown and no time": ("'soon'", unknown, None),
        },
    ) == {
        "timestamp": 1_767_225_600_000_001,
        "before 1970": -1,
        "no zone": 1_000_000,
        "date": 86_400_000_000,
        "text": 1_000_000,
        "no time": None,
        "no value": None,
        "unknown timestamp": 1_000_000,
        "unknown text": 1_000_000,
        "unknown and no time": None,
    }


def test_numbers_are_counted_in_their_unit_floored_and_just_out_of_range_when_too_great(
    spark: SparkSession,
) -> None:
    whole, fraction, text, unknown = (
        TimeKind.INTEGER,
        TimeKind.FRACTION,
        TimeKind.TEXT,
        TimeKind.UNKNOWN,
    )
    assert micros(
        spark,
        {
            "seconds": ("1600000000", whole, "s"),
            "milliseconds": ("-1L", whole, "ms"),
            "microseconds": ("CAST(7 AS TINYINT)", whole, "us"),
            "nanoseconds": ("1999L", whole, "ns"),
            "a nanosecond before 1970": ("-1L", whole, "ns"),
            "a whole microsecond before 1970": ("-1000L", whole, "ns"),
            "too many seconds": ("9223372036854775807L", whole, "s"),
            "fractional seconds": ("1600000000.123456D", fraction, "s"),
            "half a microsecond before 1970": ("-0.0000005D", fraction, "s"),
            "decimal": ("1.5BD", fraction, "ms"),
            "fractional nanoseconds": ("-1.5D", fraction, "ns"),
            "no number": ("CAST('NaN' AS DOUBLE)", fraction, "s"),
            "too great": ("1e300D", fraction, "s"),
            "too small": ("-9223372036854775808L", whole, "ms"),
            "endless": ("CAST('Infinity' AS DOUBLE)", fraction, "s"),
            "text too great": ("'1e30'", text, "s"),
            "no value": ("CAST(NULL AS BIGINT)", whole, "s"),
            "text": ("'1600000000.5'", text, "s"),
            "no number in text": ("'soon'", text, "ms"),
            "unknown whole": ("123L", unknown, "ms"),
            "unknown fraction": ("1600000000.123456D", unknown, "s"),
            "unknown text": ("'soon'", unknown, "s"),
        },
    ) == {
        "seconds": 1_600_000_000_000_000,
        "milliseconds": -1_000,
        "microseconds": 7,
        "nanoseconds": 1,
        "a nanosecond before 1970": -1,
        "a whole microsecond before 1970": -1,
        "too many seconds": GREATEST_TIME_US + 1,
        "fractional seconds": 1_600_000_000_123_456,
        "half a microsecond before 1970": -1,
        "decimal": 1_500,
        "fractional nanoseconds": -1,
        "no number": None,
        "too great": GREATEST_TIME_US + 1,
        "too small": LEAST_TIME_US - 1,
        "endless": GREATEST_TIME_US + 1,
        "text too great": GREATEST_TIME_US + 1,
        "no value": None,
        "text": 1_600_000_000_500_000,
        "no number in text": None,
        "unknown whole": 123_000,
        "unknown fraction": 1_600_000_000_123_456,
        "unknown text": None,
    }


@pytest.mark.parametrize(
    ("literal", "unit"),
    [
        ("123L", None),
        ("1.5D", None),
        ("TIMESTAMP '1970-01-01 00:00:01Z'", "ms"),
        ("DATE '1970-01-01'", "s"),
    ],
    ids=[
        "a number without a unit",
        "a fraction without a unit",
        "a timestamp with one",
        "a date with one",
    ],
)
def test_an_expression_of_unknown_type_is_never_guessed(
    spark: SparkSession, literal: str, unit: str | None
) -> None:
    with pytest.raises(AnalysisException, match="DATATYPE_MISMATCH"):
        micros(spark, {"value": (literal, TimeKind.UNKNOWN, unit)})
