"""Samples of results and of side output in manifests, and the plan beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.engine.samples import samples_due, with_sample
from tidegate.state.manifest import Manifest
from tidegate.state.reader import StateReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = """
    SELECT user, count(*) AS n, sum(10 / v) AS `a.b`, repeat('x', max(v)) AS long
    FROM r GROUP BY tumblingwindow('ss', 10), user ON ts HAVING count(*) > 0
"""
SECOND_US = 1_000_000


class Steps:
    """A query run batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path, settings: Mapping[str, object]) -> None:
        self.spark = spark
        self.folder = folder
        query = tidegate.sql(
            SQL,
            settings=settings,
            streams={"r": "ts TIMESTAMP, user STRING, v INT"},
            spark=spark,
        )
        self.stepper = CaseStepper(query, checkpoint=str(folder), partitions=2)
        self.clock_us = 0

    def batch(self, *rows: tuple[int, str, int]) -> Manifest:
        values = ", ".join(f"(timestamp_seconds({t}), '{user}', {v})" for t, user, v in rows)
        self.clock_us += SECOND_US
        frame = self.spark.sql(f"SELECT * FROM VALUES {values} AS r(ts, user, v)")
        self.stepper.batch(frame, self.clock_us)
        return StateReader(self.folder).manifest()


@pytest.fixture
def steps(interpreted: SparkSession, tmp_path: Path) -> Steps:
    return Steps(interpreted, tmp_path, {"monitor_samples": 2})


def rows(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in texts]


def test_a_step_keeps_a_few_of_its_results_and_side_output_with_reasons(steps: Steps) -> None:
    first = steps.batch((1, "ann", 5), (2, "bob", 2), (3, "cem", 1), (4, "dan", 0))
    assert first.step is not None
    assert first.step.results == ()
    (record,) = rows(first.step.side_output)
    assert (record["kind"], record["reason"]) == ("error", "division_by_zero")
    assert record["original_event"]["user"] == "dan"
    second = steps.batch((12, "ann", 0), (13, "ann", 0), (14, "ann", 0), (20, "ann", 1))
    assert second.step is not None
    names = {row["user"] for row in rows(second.step.results)}
    assert len(names) == 2
    assert names < {"ann", "bob", "cem"}
    assert second.emitted.rows_out == 3
    ann = {"user": "ann", "n": 1, "a.b": 2.0, "long": "xxxxx"}
    assert all(row == ann for row in rows(second.step.results) if row["user"] == "ann")
    # All are counted, a few are kept.
    assert len(second.step.side_output) == 2
    assert second.reasons == {"division_by_zero": 4}
    third = steps.batch((3, "eve", 1), (21, "ann", 1))
    assert third.step is not None
    assert [row["kind"] for row in rows(third.step.side_output)] == ["late"]
    assert third.reasons == {"division_by_zero": 4, "allowed_lateness_exceeded": 1}


def test_a_long_row_is_cut(steps: Steps) -> None:
    cut = steps.batch((1, "ann", 5_000), (20, "ann", 1))
    assert cut.step is not None
    (text,) = cut.step.results
    assert len(text) == 1_000
    assert text.startswith('{"user":"ann","n":1,')


EVERY_TYPE = """
    SELECT id, true AS b, 1.5 AS d, double('NaN') AS nan, DATE '2026-01-01' AS day,
      TIMESTAMP_NTZ '2026-01-01 10:00:00' AS ntz, timestamp_micros(9000000000000000000) AS far,
      x'ff00' AS bin, INTERVAL '1' DAY AS dt, INTERVAL '1' YEAR AS ym, parse_json('[1]') AS var,
      array(struct(1 AS a, 'x' AS b)) AS nested, map('k', NULL) AS m, cast(NULL AS INT) AS nothing,
      TIME '10:00:00' AS time, map(1, 2) AS by_number, NULL AS void, 'y' AS `a.b`, 1 AS id2
    FROM range(2)
"""


def test_a_sample_shows_what_becomes_json_and_no_type_stops_the_query(
    interpreted: SparkSession,
) -> None:
    frame = interpreted.sql(EVERY_TYPE)
    watched, numbers, sample = with_sample(frame, frame.columns, 1, {"rows": "count(1)"})
    assert watched.schema == frame.schema
    watched.write.format("noop").mode("overwrite").save()
    assert numbers()["rows"] == 2
    (row,) = rows(sample())
    assert set(frame.columns) - row.keys() == {"time", "by_number", "void", "m"}
    assert (row["a.b"], row["nested"], row["nothing"]) == ("y", [{"a": 1, "b": "x"}], None)


def test_samples_can_be_switched_off(interpreted: SparkSession, tmp_path: Path) -> None:
    steps = Steps(interpreted, tmp_path, {"monitor_samples": 0})
    after = steps.batch((1, "ann", 0), (2, "bob", 1), (20, "ann", 1))
    assert after.step is not None
    assert (after.step.results, after.step.side_output, after.reasons) == ((), (), {})
    assert (after.emitted.rows_out, after.totals.error) == (1, 1)


def test_the_plan_of_the_process_lies_beside_the_state(steps: Steps) -> None:
    after = steps.batch((1, "ann", 1))
    explained = StateReader(steps.folder).explained(after.writer)
    assert explained is not None
    assert explained["statement"] == SQL
    assert explained["physical"]["id"] == "PhysicalDataSink#0"
    assert explained["settings"] == {"monitor_samples": 2}


def test_the_first_step_of_a_second_and_a_drain_keep_samples() -> None:
    plan = tidegate.sql(SQL, streams={"r": "ts TIMESTAMP, user STRING, v INT"}).physical
    half = SECOND_US // 2
    assert samples_due(None, 0, plan) == 5
    assert samples_due(0, half, plan) == 0
    assert samples_due(half, SECOND_US, plan) == 5
    assert samples_due(half, half, plan) == 5  # a drain has the clock of the batch before
