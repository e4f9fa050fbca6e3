"""Side output on Spark: limits, what records contain, jobs that are cancelled, what is told."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate import FileSink, MemorySink
from tidegate.engine import faults
from tidegate.engine.job import Outlet, Outlets
from tidegate.engine.stepper import Stepper
from tidegate.errors import ExecutionError
from tidegate.plan.side_output import Route
from tidegate.spark.isolation import in_session, private_session
from tidegate.state.batch import SparkBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from tidegate.metrics.report import BatchReport

SQL = """
    SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)
    ON ts WATERMARK (INTERVAL '0' SECOND)
"""
SECOND_US = 1_000_000
NOON_US = 1_767_268_800_000_000


@dataclass
class Steps:
    """A query over batches of seconds after noon; the clock of each batch is given."""

    spark: SparkSession
    checkpoint: Path
    side: dict[str, Outlet]
    routes: Sequence[Route] = ()
    results: MemorySink = field(default_factory=MemorySink)

    def __post_init__(self) -> None:
        query = tidegate.sql(SQL, streams={"r": "ts TIMESTAMP, v INT"}, spark=self.spark)
        self.query = query._routed(self.routes)
        rows = self.query._prepare(query.given.empty(query._session), keep_rows=True)
        job = self.query._job(rows, Outlets(results=self.results, side=self.side), 2)
        self.session = private_session(self.spark)
        self.stepper = Stepper(job, str(self.checkpoint), self.session)

    def batch(self, number: int, clock_us: int, seconds: Sequence[int | None]) -> BatchReport:
        values = ", ".join(
            f"({'NULL' if second is None else f'timestamp_micros({NOON_US + second * SECOND_US})'}"
            f", {place})"
            for place, second in enumerate(seconds)
        )
        frame = self.spark.sql(f"SELECT * FROM VALUES {values} AS rows(ts, v)")
        rows = in_session(self.query._prepare({"r": frame}, keep_rows=True), self.session)
        report = self.stepper.run(SparkBatch(batch_id=number, clock_us=clock_us), rows)
        assert report is not None, "no batch of these tests is a replay of a committed one"
        return report


def shown(rows: list[Row]) -> list[int]:
    return [row["original_event"]["v"] for row in rows]


def test_a_rate_limit_lets_through_what_the_clock_allows_and_a_replay_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = Route(kind="late", sink="late", rate_limit=2)
    late = MemorySink()
    steps = Steps(spark, tmp_path, {"late": late}, [route])
    steps.batch(0, NOON_US, [30])
    reports = [
        # 1.4 seconds allow 2 records, the next 0.3 seconds none, the next 0.3 seconds the fourth.
        steps.batch(1, NOON_US + 1_400_000, [3, 1, 2, 4]),
        steps.batch(2, NOON_US + 1_400_001, [1, 2]),
        steps.batch(3, NOON_US + 1_500_000, [5, 6]),
    ]
    assert [report.late for report in reports] == [4, 2, 2]
    assert [report.dropped.rate_limit for report in reports] == [2, 2, 1]
    assert shown(late.rows()) == [1, 2, 0]

    def die(name: str, epoch: int) -> None:
        if name == "after_side_output":
            raise RuntimeError("the process dies here")

    monkeypatch.setattr(faults, "reached", die)
    with pytest.raises(RuntimeError):
        steps.batch(4, NOON_US + 2_500_000, [7, 8, 9])
    written = late.rows()
    assert len(written) == 5
    monkeypatch.undo()

    again = MemorySink()
    resumed = Steps(spark, tmp_path, {"late": again}, [route])
    assert resumed.batch(4, NOON_US + 2_500_000, [7, 8, 9]).dropped.rate_limit == 1
    assert again.rows() == written[3:]
    assert resumed.stepper.state.dropped.rate_limit == 6


def test_a_job_of_a_side_sink_that_hangs_is_cancelled_and_the_batch_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    ended = threading.Event()

    class Hanging:
        def write(self, frame: DataFrame, epoch: int) -> None:
            # A task sleeps for a minute, unless it is interrupted.
            sleep = "java_method('java.lang.Thread', 'sleep', 60000L + id)"
            try:
                frame.sparkSession.range(1).selectExpr(sleep).collect()
            finally:
                ended.set()

    route = Route(kind="late", sink="late", timeout_us=100_000)
    steps = Steps(spark, tmp_path, {"late": Hanging()}, [route])
    steps.batch(0, NOON_US, [30])
    report = steps.batch(1, NOON_US, [1, 2, 41])
    assert (report.late, report.dropped.timeout, report.rows_out) == (2, 2, 1)
    assert ended.wait(20)
    tracker = spark.sparkContext.statusTracker()
    end = time.monotonic() + 20
    while tracker.getActiveJobsIds():
        assert time.monotonic() < end, "a job of the side sink still runs"
        time.sleep(0.01)
    assert steps.batch(2, NOON_US, [1, 51]).dropped.timeout == 1
    assert steps.stepper.state.dropped.timeout == 3


def test_what_a_file_sink_has_staged_is_seen_when_it_is_published_and_not_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = FileSink(format="json", path=tmp_path / "out")
    frame = spark.range(3)
    staged = sink.stage(frame, 0)
    assert not (tmp_path / "out" / "emit_epoch=0").exists()
    staged.discard()
    assert list((tmp_path / "out" / "_staging").iterdir()) == []
    sink.stage(frame, 0).publish()
    assert spark.read.json(str(tmp_path / "out")).count() == 3


def test_records_have_the_same_columns_with_and_without_the_original_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    types: list[str] = []
    rows: list[Row] = []

    class Sink:
        def write(self, frame: DataFrame, epoch: int) -> None:
            types.append(frame.schema.simpleString())
            rows.extend(frame.collect())

    sink = Sink()
    routes = [
        Route(kind="late", sink="side", include_original=False),
        Route(kind="error", sink="side"),
    ]
    steps = Steps(spark, tmp_path, {"late": sink, "error": sink}, routes)
    for number, seconds in enumerate(([30, None], [1], [1, None])):
        steps.batch(number, NOON_US, seconds)
    assert len(types) == 3
    assert set(types) == {types[0]}
    assert [(row["kind"], row["original_event"] is None) for row in rows] == [
        ("error", False),
        ("late", True),
        ("late", True),
        ("error", False),
    ]


def test_rows_without_a_sink_are_told_of_once_unless_that_was_asked_for(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    routes = [Route(kind="late", by_default=True), Route(kind="error")]
    steps = Steps(spark, tmp_path, {}, routes)
    for number in range(3):
        steps.batch(number, NOON_US, [30, 1, None])
    told = [record.getMessage() for record in caplog.records if record.name == "tidegate"]
    assert told == [
        "late rows are counted and dropped, as side_output.late.sink (in Python late=..) names no "
        'sink for them; "metrics_only" means that without this warning'
    ]


def test_a_side_sink_may_stop_the_query_without_waiting_for_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    stopped: list[int] = []
    run: tidegate.Run

    def stop(frame: DataFrame, epoch: int) -> None:
        run.stop()
        stopped.append(frame.count())

    stream = spark.readStream.schema("ts TIMESTAMP").json(str(folder))
    query = tidegate.sql(SQL, streams={"r": stream}, spark=spark)
    run = query.start(
        sink=MemorySink(),
        errors=tidegate.SideOutput(stop, include_original=False),
        checkpoint=tmp_path / "checkpoint",
    )
    (folder / "a.json").write_text('{"ts": null}\n')
    assert run.await_termination(60)
    assert stopped == [1]
    assert set(run.status["side_dropped"].values()) == {0}  # type: ignore[attr-defined]


def test_a_row_goes_back_to_its_input_once_though_its_batch_runs_twice_and_is_then_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(name: str, epoch: int) -> None:
        if (name, epoch) == ("after_side_output", 1):
            raise RuntimeError("the process dies here")

    folder = tmp_path / "in"
    folder.mkdir()
    for number, seconds in enumerate(["30", "01"]):
        file = folder / f"{number}.json"
        file.write_text(json.dumps({"ts": f"2026-01-01T12:00:{seconds}.000001Z"}))
        os.utime(file, (1_700_000_000 + number,) * 2)
    reader = spark.readStream.schema("ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    late = tidegate.SideOutput("reinject", reinject_to="r", allow_reinject=True)
    reports: list[BatchReport] = []
    for dies in (True, False):
        monkeypatch.setattr(faults, "reached", die if dies else lambda name, epoch: None)
        query = tidegate.sql(SQL, streams={"r": reader.json(str(folder))}, spark=spark)
        run = query.start(
            sink=MemorySink(),
            late=late,
            checkpoint=tmp_path / "checkpoint",
            once=True,
            on_batch=reports.append,
        )
        with pytest.raises(ExecutionError) if dies else nullcontext():
            run.await_termination()
    counts = [(report.late, report.dropped.not_reinjected) for report in reports]
    assert counts == [(0, 0), (1, 0), (1, 1)]
    (back,) = folder.glob("tidegate-reinjected-*.json")
    assert json.loads(back.read_text()) == {"ts": "2026-01-01T12:00:01.000001Z"}
    assert run.status["side_dropped"]["not_reinjected"] == 1  # type: ignore[index]


@pytest.mark.whole
def test_the_time_of_a_file_is_the_time_of_its_rows_and_no_part_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, second in enumerate((30, 1)):
        file = folder / f"{number}.json"
        file.write_text('{"v": 1}')
        os.utime(file, (NOON_US // SECOND_US + second,) * 2)
    reader = spark.readStream.schema("v INT").option("latestFirst", True)
    stream = reader.option("maxFilesPerTrigger", 1).json(str(folder))
    query = tidegate.sql(
        "SELECT sum(v) AS v FROM r GROUP BY tumblingwindow('ss', 10)",
        streams={"r": stream},
        settings={"event_time_metadata": "file"},
        spark=spark,
    )
    late = MemorySink()
    run = query.start(sink=MemorySink(), late=late, checkpoint=tmp_path / "checkpoint", once=True)
    run.await_termination()
    (row,) = late.rows()
    assert (row["event_time"], row["original_event"].asDict()) == ("2026-01-01T12:00:01Z", {"v": 1})
