"""Tasks and files follow rows and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.engine.tasks import (
    BYTES_PER_TASK,
    FEW_BYTES,
    FEW_FILES,
    FEW_ROWS,
    Tasks,
    are_few,
    few_rows_of,
    files_for,
    tasks_for,
)
from tidegate.state.manifest import Segment, StateFile
from tidegate.state.reader import StateReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def segment(rows: int, size: int) -> Segment:
    files = (StateFile(name="part-0.parquet", bytes=size),)
    return Segment(name="0-aa-batch", first_us=0, last_us=0, rows=rows, files=files)


def test_few_rows_with_much_in_each_are_worth_several_tasks() -> None:
    assert are_few([segment(10, 1_000)])
    assert not are_few([segment(10, FEW_BYTES + 1)])
    assert not are_few([segment(10**6, 1_000)])
    assert tasks_for([segment(10, 1_000)]) == files_for([segment(10, 1_000)]) == 1
    assert tasks_for([segment(10, 4 * BYTES_PER_TASK)]) == 4
    assert tasks_for([segment(1_000_000, 1_000)]) == 10
    assert files_for([segment(1_000_000, 3 * BYTES_PER_TASK)]) == 3


def test_a_batch_of_large_rows_gets_tasks_by_its_bytes(interpreted: SparkSession) -> None:
    tasks = Tasks(interpreted, 50)
    rows = interpreted.range(0, 10, 1, 30)
    setting = "spark.sql.shuffle.partitions"
    before = interpreted.conf.get(setting)
    try:
        for rows_before, size, expected in ((100, 10_000, 1), (100, 3 * BYTES_PER_TASK, 12)):
            files = [StateFile(name=f"part-{n}.parquet", bytes=size // 30) for n in range(30)]
            tasks.note_batch(rows_before, files)
            tasks.set_for_batch()
            assert interpreted.conf.get(setting) == str(expected)
            written = tasks.gathered(rows).rdd.getNumPartitions()
            assert written == max(expected, FEW_FILES)
    finally:
        interpreted.conf.set(setting, before)


def test_a_source_of_many_partitions_makes_few_files(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    query = tidegate.sql(
        "SELECT * FROM r GROUP BY tumblingwindow('hh', 10)",
        streams={"r": "ts TIMESTAMP, v BIGINT"},
        settings={"event_time_field": "ts"},
        spark=interpreted,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    for _ in range(2):
        rows = interpreted.range(0, 60, 1, 30).selectExpr("timestamp_seconds(id) AS ts", "id AS v")
        assert stepper.batch(rows, 4_000_000_000_000_000).report.accumulated == 60
    first, second = StateReader(tmp_path).manifest().tables.windows
    assert (len(first.files), len(second.files)) == (30, FEW_FILES)
    assert second.rows == first.rows == 60


def test_few_rows_are_fewer_the_larger_they_are():
    assert few_rows_of([segment(10**6, 1_000)]) == FEW_ROWS
    assert few_rows_of([segment(1_000, 10 * FEW_BYTES)]) == 100
    assert few_rows_of([segment(1, 10 * FEW_BYTES)]) == 1
