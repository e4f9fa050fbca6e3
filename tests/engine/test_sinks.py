"""Sinks that misbehave: side output must not stop the query, and a sink without an action must."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate import MemorySink
from tidegate.errors import ExecutionError
from tidegate.spark import observe

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.metrics.report import BatchReport

SQL = """
    SELECT count(*) AS n, window_start() AS s FROM r GROUP BY tumblingwindow('ss', 10)
    ON ts WATERMARK (INTERVAL '0' SECOND)
"""


class Forgetful:
    """A sink that takes the frame and does nothing with it."""

    reads_once = True

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Run no action."""


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> tidegate.Query:
    """A query over two batches; the second has a row for a closed window and one without a time."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number, times in enumerate([("01", "02", "11"), ("03", "25", None)]):
        rows = [json.dumps({"ts": time and f"2026-01-01T10:00:{time}Z"}) for time in times]
        file = folder / f"{number}.json"
        file.write_text("\n".join(rows))
        os.utime(file, (1_700_000_000 + number,) * 2)
    stream = (
        spark.readStream.schema("ts TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(folder))
    )
    return tidegate.sql(SQL, streams={"r": stream}, spark=spark)


def test_a_side_sink_that_fails_drops_its_rows_with_a_count_and_the_query_goes_on(
    query: tidegate.Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(frame: DataFrame, epoch: int) -> None:
        raise OSError(f"disk full in epoch {epoch}")

    reports: list[BatchReport] = []
    sink = MemorySink()
    run = query.start(
        sink=sink,
        late=broken,
        checkpoint=str(tmp_path / "checkpoint"),
        once=True,
        on_batch=reports.append,
    )
    run.await_termination()
    run.drain()

    assert [row["n"] for row in sink.rows()] == [2, 1, 1]
    assert [(report.late, report.side_dropped) for report in reports] == [(0, 0), (1, 1), (0, 0)]
    assert "side sink of late rows failed" in caplog.text
    assert "disk full" in caplog.text


def test_late_and_error_rows_may_share_a_sink(query: tidegate.Query, tmp_path: Path) -> None:
    folder = tmp_path / "unused"
    reports: list[BatchReport] = []
    run = query.start(
        sink=MemorySink(),
        late=tidegate.FileSink(format="json", path=folder),
        errors=tidegate.FileSink(format="json", path=f"{folder}/"),
        checkpoint=str(tmp_path / "checkpoint"),
        once=True,
        on_batch=reports.append,
    )
    run.await_termination()

    records = [json.loads(line) for f in folder.rglob("*.json") for line in f.open()]
    assert sorted((record["kind"], record["reason"]) for record in records) == [
        ("error", "null_event_time"),
        ("late", "allowed_lateness_exceeded"),
    ]
    assert sum(report.side_dropped for report in reports) == 0


def test_a_sink_that_runs_no_action_stops_the_query_with_advice(
    query: tidegate.Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "PATIENCE_SECONDS", 1)
    run = query.start(sink=Forgetful(), checkpoint=str(tmp_path / "checkpoint"), once=True)

    with pytest.raises(ExecutionError, match="must run one action that reads the whole frame"):
        run.await_termination()
