"""Ticks: which plans need them, that they hold no rows, and what they are to a checkpoint."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.connectors.sinks import MemorySink
from tidegate.errors import ExecutionError, StateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EVENT, CLOCK = {"event_time_field": "ts"}, {"time": "processing"}
IDLE = {**EVENT, "idle_timeout": "10s"}


@pytest.mark.parametrize(
    ("window", "settings", "needed"),
    [
        ("tumblingwindow('ss', 1)", EVENT, False),
        ("tumblingwindow('ss', 1)", IDLE, True),
        ("tumblingwindow('ss', 1) EMIT EARLY EVERY INTERVAL '1' SECOND", EVENT, True),
        ("tumblingwindow('ss', 1)", CLOCK, True),
        ("hoppingwindow('ss', 2, 1)", CLOCK, True),
        ("cumulatewindow('ss', 2, 1)", CLOCK, True),
        ("sessionwindow('ss', 1)", EVENT, False),
        ("sessionwindow('ss', 1)", CLOCK, True),
        ("slidingwindow('ss', 1)", CLOCK, False),
        ("slidingwindow('ss', 1) EMIT ON WINDOW CLOSE", CLOCK, True),
        ("slidingwindow('ss', 1, 1)", CLOCK, True),
        ("slidingwindow('ss', 1, 1)", EVENT, False),
        ("statewindow(v > 0, v < 0)", CLOCK, False),
        ("statewindow(v > 0, v < 0)", IDLE, True),
        ("countwindow(3)", CLOCK, False),
    ],
)
def test_ticks_are_for_plans_in_which_time_alone_closes_windows(
    window: str, settings: dict[str, str], needed: bool
) -> None:
    query = tidegate.sql(
        f"SELECT count(*) AS n FROM r GROUP BY {window}",
        streams={"r": "ts TIMESTAMP, v BIGINT"},
        settings=settings,
    )
    assert query.physical.needs_ticks is needed


class Stream:
    """A query over files."""

    def __init__(self, spark: SparkSession, folder: Path, window: str) -> None:
        self.spark, self.folder, self.window, self.source = spark, folder, window, "r"
        (folder / "in").mkdir()

    def add(self, name: str) -> None:
        """Add a file of one row."""
        (self.folder / "in" / name).write_text(json.dumps({"ts": "2026-01-01 00:00:00", "v": 1}))

    def start(self, settings: dict[str, str], **options: Any) -> tuple[MemorySink, tidegate.Run]:
        """Start the query."""
        rows = (
            self.spark.readStream.schema("ts TIMESTAMP, v BIGINT")
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "in"))
        )
        query = tidegate.sql(
            f"SELECT count(*) AS n FROM {self.source} GROUP BY {self.window}",
            settings=settings,
            r=rows,
        )
        sink = MemorySink()
        return sink, query.start(sink=sink, checkpoint=self.folder / "checkpoint", **options)


def until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def test_a_run_over_what_there_is_and_a_live_one_take_turns_and_a_clock_that_went_back_is_no_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, "slidingwindow('ss', 1, 1)")
    stream.add("0.json")
    stream.add("1.json")
    reports: list[tidegate.BatchReport] = []
    sink, run = stream.start(CLOCK, once=True, on_batch=reports.append)
    run.await_termination()
    # A batch for each file, with the tick source beside it.
    assert [report.rows_in for report in reports if report.rows_in] == [1, 1]
    assert run.open_windows > 0

    with stream.start(CLOCK)[1] as run:
        until(lambda: run.status["open_windows"] == 0)
        assert run.status["rows_in"] == 2
    assert spark.conf.get("spark.sql.streaming.triggerAvailableNowWrapper.enabled") == "false"

    # The ticks have a clock of their own, which the machine's does not move: one before 0 for each.
    started = tmp_path / "checkpoint" / "sources" / "1" / "0"
    version, at = started.read_text().split("\n")
    assert (version, -60_000 < int(at) < 0) == ("v1", True)
    # As if the tick source had been started by the machine's clock, which has gone back since.
    started.write_text(f"{version}\n{time.time_ns() // 1_000_000 + 3_600_000}")
    (started.parent / ".0.crc").unlink(missing_ok=True)
    before = run.status["batch_id"]
    with stream.start(CLOCK)[1] as run:
        until(lambda: run.status["failure"] or run.status["batch_id"] > before)
        assert run.status["failure"] is None
    stream.add("2.json")
    sink, run = stream.start(CLOCK, once=True)
    run.await_termination()
    run.drain()
    assert [row["n"] for row in sink.rows()] == [1]


def test_a_source_that_is_read_twice_is_one_and_a_half_written_first_offset_is_swept(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, "tumblingwindow('ss', 10)")
    stream.source = "(SELECT * FROM r UNION ALL SELECT * FROM r WHERE v = 1)"
    stream.add("0.json")
    # What a process leaves that is killed while Spark plans its first batch.
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / ".0.9f.tmp").write_text("v1\n{")
    for name, counts in (("1.json", []), ("2.json", [])):
        sink, run = stream.start(IDLE, once=True)
        run.await_termination()
        assert [row["n"] for row in sink.rows()] == counts
        stream.add(name)
    run.drain()
    assert [row["n"] for row in sink.rows()] == [4]


def test_a_start_that_spark_refuses_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, "tumblingwindow('ss', 10)")
    with stream.start(EVENT, name="one")[1] as run:
        # Only then has Spark seen that there are no offsets.
        until(lambda: "Waiting" in run.query.status["message"])
        # As if the query were writing its first offsets.
        (tmp_path / "checkpoint" / "offsets" / ".0.9f.tmp").write_text("v1\n{")
        for name in ("one", "other"):
            with pytest.raises(ExecutionError, match="the query did not start"):
                stream.start(EVENT, name=name)
        assert (tmp_path / "checkpoint" / "offsets" / ".0.9f.tmp").exists()
        assert run.status["failure"] is None


def test_an_idle_timeout_that_is_added_is_refused_and_one_that_is_taken_away_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, "tumblingwindow('ss', 10)")
    stream.add("0.json")
    _, run = stream.start(EVENT, once=True)
    run.await_termination()
    with pytest.raises(StateError) as refused:
        stream.start(IDLE)
    assert str(refused.value).partition("\n")[0] == (
        f"checkpoint {tmp_path / 'checkpoint'} was written without ticks, which the query needs now"
    )

    (tmp_path / "other").mkdir()
    other = Stream(spark, tmp_path / "other", "tumblingwindow('ss', 10)")
    other.add("0.json")
    _, run = other.start(IDLE, once=True)
    run.await_termination()
    other.add("1.json")
    sink, run = other.start(EVENT, once=True)
    run.await_termination()
    run.drain()
    assert [row["n"] for row in sink.rows()] == [2]
