"""A column of the source changes its type under a checkpoint."""

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
    SELECT k, first(v) AS v, max(w) AS w, sort_array(collect_list(w)) AS all
    FROM r GROUP BY tumblingwindow('ss', 10), k
"""


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_type_that_becomes_wider_goes_on_over_what_is_there(
    vectorized: str, interpreted: SparkSession, tmp_path: Path
) -> None:
    setting = "spark.sql.parquet.enableVectorizedReader"
    interpreted.conf.set(setting, vectorized)
    try:
        for types, second in (
            (("TINYINT", "FLOAT", "DECIMAL(4,2)"), 1),
            (("INT", "FLOAT", "DECIMAL(9,2)"), 2),
            (("BIGINT", "DOUBLE", "DECIMAL(15,2)"), 3),
            (("BIGINT", "DOUBLE", "DECIMAL(30,2)"), 12),
        ):
            rows = run(interpreted, tmp_path, types, second)
    finally:
        interpreted.conf.unset(setting)
    (row,) = rows
    assert (row["k"], row["v"], float(row["w"])) == (7, 0.5, 3.25)
    assert [float(value) for value in row["all"]] == [1.25, 2.25, 3.25]


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (("STRING", "FLOAT", "DECIMAL(4,2)"), ("k", "int", "string")),
        (("BIGINT", "DOUBLE", "DECIMAL(4,3)"), ("max(w)", "decimal(4,2)", "decimal(4,3)")),
    ],
)
def test_a_type_that_cannot_be_read_is_refused_before_a_batch_runs_and_may_change_back(
    types: tuple[str, ...],
    told: tuple[str, str, str],
    interpreted: SparkSession,
    tmp_path: Path,
) -> None:
    column, before, now = told
    known = ("INT", "FLOAT", "DECIMAL(4,2)")
    run(interpreted, tmp_path, known, 1)
    with pytest.raises(StateError) as error:
        run(interpreted, tmp_path, types, 2)
    assert f"this differs: {column}" in str(error.value)
    assert f"  {column}: {before}  in the checkpoint" in str(error.value)
    assert f"{now}  in the query" in str(error.value)
    (row,) = run(interpreted, tmp_path, known, 12)
    assert (row["k"], row["v"]) == (7, 0.5)


def run(
    spark: SparkSession, checkpoint: Path, types: tuple[str, ...], second: int
) -> tuple[Row, ...]:
    """Run a batch of one row whose columns k, v and w are of some types."""
    columns = dict(zip("kvw", types, strict=True))
    query = tidegate.sql(
        SQL,
        streams={"r": ", ".join(["ts TIMESTAMP", *(f"{n} {t}" for n, t in columns.items())])},
        settings={"event_time_field": "ts"},
        spark=spark,
    )
    values = {"k": "7", "v": f"{second} - 0.5", "w": f"{second} + 0.25"}
    casts = (f"CAST({values[name]} AS {kind}) AS {name}" for name, kind in columns.items())
    frame = spark.sql(f"SELECT timestamp_seconds({second}) AS ts, {', '.join(casts)}")
    stepper = CaseStepper(query, checkpoint=str(checkpoint), partitions=2)
    return tuple(stepper.batch(frame, 4_000_000_000_000_000).rows)
