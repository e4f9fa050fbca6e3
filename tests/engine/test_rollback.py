"""A streaming query is rolled back, and copied, and goes on as if it had never run further."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import tidegate
from tidegate.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.connectors.protocol import Sink

# The seconds of the rows of each file, which is a batch. In another division 3 would not be late.
FILES = [[1, 5], [12, 14], [3, 25], [31], [44]]


def put_files(folder: Path, files: list[list[int]]) -> None:
    """Add files in order of their times of modification."""
    folder.mkdir(exist_ok=True)
    for seconds in files:
        number = sum(1 for _ in folder.iterdir())
        file = folder / f"{number}.json"
        rows = [{"ts": f"2026-01-01T00:00:{second:02}Z", "v": second} for second in seconds]
        file.write_text("\n".join(map(json.dumps, rows)))
        at = 1_767_225_600 + number
        os.utime(file, (at, at))


def run(spark: SparkSession, folder: Path, checkpoint: Path, sink: Sink, late: Sink) -> None:
    rows = spark.readStream.schema("ts TIMESTAMP, v BIGINT").option("maxFilesPerTrigger", 1)
    query = tidegate.sql(
        "SELECT window_start() AS w, window_id() AS id, sum(v) AS s, emit_epoch() AS e FROM r "
        "GROUP BY tumblingwindow('ss', 10) ON ts",
        r=rows.json(str(folder)),
    )
    running = query.start(sink=sink, late=late, checkpoint=str(checkpoint), once=True)
    running.await_termination()


def results(spark: SparkSession, folder: Path) -> list[tuple[object, ...]]:
    """All rows but for their processing time, which is another one when a batch is read again."""
    rows = spark.read.json(str(folder)).drop("processing_time")
    return sorted(tuple(map(str, row)) for row in rows.collect())


@pytest.mark.whole
def test_a_query_that_was_rolled_back_gives_the_results_of_one_that_was_not(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    spark, source, checkpoint = interpreted, tmp_path / "in", tmp_path / "ckpt"
    out, late = (tidegate.FileSink(format="json", path=tmp_path / n) for n in ("out", "late"))
    put_files(source, FILES[:4])
    run(spark, source, checkpoint, out, late)
    before = [results(spark, tmp_path / name) for name in ("out", "late")]
    assert list(map(len, before)) == [3, 1]

    copy = shutil.copytree(checkpoint, tmp_path / "elsewhere" / "copy")
    answer = CliRunner().invoke(main, ["state", str(checkpoint), "--rollback", "1"])
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert "ckpt: rolled back from epoch 3 to epoch 1; the next start goes on with batch 2" in (
        answer.stdout
    )
    run(spark, source, checkpoint, out, late)
    assert [results(spark, tmp_path / name) for name in ("out", "late")] == before
    found = json.loads(CliRunner().invoke(main, ["state", str(checkpoint), "--json"]).stdout)
    assert (found["epoch"], found["rows"]["late"]) == (3, 1)

    # A copy of the checkpoint has all that the query needs, wherever it is.
    shutil.rmtree(checkpoint)
    put_files(source, FILES[4:])
    memory = tidegate.MemorySink()
    run(spark, source, copy, memory, late)
    assert [row["s"] for row in memory.rows()] == [31]
    assert CliRunner().invoke(main, ["state", str(copy), "--verify"]).exit_code == 0


def test_after_an_interrupted_rollback_a_start_is_refused(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    put_files(tmp_path / "in", FILES[:1])
    (tmp_path / "ckpt/tidegate").mkdir(parents=True)
    text = '{"version": 3, "epoch": 1, "from_epoch": 2, "folder": "rolled_back/x"}'
    (tmp_path / "ckpt/tidegate/rollback.json").write_text(text)
    sink, late = tidegate.MemorySink(), tidegate.MemorySink()
    with pytest.raises(tidegate.StateError, match="to epoch 1 was interrupted"):
        run(interpreted, tmp_path / "in", tmp_path / "ckpt", sink, late)
