"""A query that changes under its checkpoint: a change of its state is refused, others go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SQL = """
    SELECT k, sum(v) AS total FROM r GROUP BY tumblingwindow('ss', 10), k HAVING count(*) > 0
    ON ts WATERMARK (INTERVAL '0' SECOND, ALLOWED LATENESS INTERVAL '5' SECOND)
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("('ss', 10)", "('ss', 20)", "window"),
        ("ON ts", "ON ts + INTERVAL '1' SECOND", "event_time"),
        (", k HAVING", ", k % 2 HAVING", "keys"),
        ("sum(v)", "sum(v + 1)", "accumulators"),
    ],
)
def test_a_change_of_what_shapes_the_state_is_refused_and_the_query_goes_on_when_changed_back(
    old: str, new: str, told: str, interpreted: SparkSession, tmp_path: Path
) -> None:
    assert run(interpreted, tmp_path, SQL, 1) == ()
    changed = SQL.replace(old, new).replace("SELECT k,", "SELECT" if "%" in new else "SELECT k,")
    before = files(tmp_path)
    with pytest.raises(StateError, match="holds the state of another query") as error:
        run(interpreted, tmp_path, changed, 2)
    assert f"this differs: {told}" in str(error.value)
    assert files(tmp_path) == before
    assert [tuple(row) for row in run(interpreted, tmp_path, SQL, 31)] == [(7, 1)]


def test_a_change_of_what_is_shown_or_of_the_lag_goes_on(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    assert run(interpreted, tmp_path, SQL, 1) == ()
    shown = SQL.replace("sum(v) AS total", "sum(v) * 2 AS twice").replace("> 0", "> -1")
    rows = run(interpreted, tmp_path, shown.replace("'0' SECOND", "'1' SECOND"), 31)
    assert [tuple(row) for row in rows] == [(7, 2)]


def run(spark: SparkSession, checkpoint: Path, sql: str, second: int) -> tuple[Row, ...]:
    """Run a batch of one row at a second."""
    query = tidegate.sql(sql, streams={"r": "ts TIMESTAMP, k INT, v BIGINT"}, spark=spark)
    frame = spark.sql(f"SELECT timestamp_seconds({second}) AS ts, 7 AS k, 1L AS v")
    stepper = CaseStepper(query, checkpoint=str(checkpoint), partitions=2)
    return tuple(stepper.batch(frame, 4_000_000_000_000_000).rows)


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}
