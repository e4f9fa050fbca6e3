"""Rows without an event time that take another one: which, and what they leave alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.cases.stepper import CaseStepper

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidegate.cases.stepper import Outcome

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
START_US = round(START.timestamp() * 1_000_000)


def batch(
    spark: SparkSession, path: Path, schema: str, rows: list[tuple], **settings: str
) -> Outcome:
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('mi', 1)",
        streams={"r": schema},
        settings=settings,
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(path), partitions=2)
    return stepper.batch(spark.createDataFrame(rows, schema), START_US + 3_600_000_000)


@pytest.mark.parametrize("path_kind", ["auto", "off"])
def test_the_time_a_row_falls_back_on_does_not_move_the_watermark_and_is_counted(
    spark: SparkSession, tmp_path: Path, path_kind: str
) -> None:
    second = timedelta(seconds=1)
    rows = [(START, START), (None, START + 30 * second), (None, None)]
    outcome = batch(
        spark,
        tmp_path,
        "ts TIMESTAMP, received_at TIMESTAMP",
        rows,
        event_time_field="ts",
        null_event_time="fallback",
        streaming_aggregation=path_kind,
    )
    report = outcome.report

    assert (report.accumulated, report.error, report.processing_time_fallback) == (3, 0, 2)
    assert report.watermark_us == START_US
    # 10:00 of the first two rows, and 11:00 of the clock.
    assert report.state_rows == {"auto": 2, "off": 3}[path_kind]


def test_without_a_fallback_such_rows_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    report = batch(
        spark, tmp_path, "ts TIMESTAMP", [(START,), (None,)], event_time_field="ts"
    ).report

    assert (report.accumulated, report.error, report.processing_time_fallback) == (1, 1, 0)


@pytest.mark.parametrize(("settings", "fallbacks"), [({}, 2), ({"time": "processing"}, 0)])
def test_processing_time_counts_as_a_fallback_unless_it_was_asked_for(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], fallbacks: int
) -> None:
    report = batch(spark, tmp_path, "v BIGINT", [(1,), (2,)], **settings).report

    assert (report.accumulated, report.processing_time_fallback) == (2, fallbacks)
