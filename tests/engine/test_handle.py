"""The handle of a started query: every call, at every moment, from every thread."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.errors import ExecutionError, StateError, TidegateError
from tidegate.state import cleaning
from tidegate.state.files import LocalFiles
from tidegate.time import from_text

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.metrics.report import BatchReport

SEED = 20261129


@dataclass(slots=True)
class Sink:
    """Keeps the counts of each epoch; does what it is told before it takes them."""

    before: Callable[[], object] = lambda: None
    epochs: dict[int, list[int]] = field(default_factory=dict)

    def write(self, frame: DataFrame, epoch: int) -> None:
        rows = frame.collect()
        self.before()
        self.epochs[epoch] = [row["n"] for row in rows]

    @property
    def rows(self) -> int:
        """How many rows of the input are in windows that were emitted."""
        return sum(sum(counts) for counts in self.epochs.values())


class Stream:
    """A query over files; each file has two rows in a window of its own, later than all before."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder, self.files, self.since = folder, 0, time.time() - 600
        (folder / "in").mkdir()
        rows = (
            spark.readStream.schema("ts TIMESTAMP, v BIGINT")
            .option("maxFilesPerTrigger", 1)
            .json(str(folder / "in"))
        )
        self.query = tidegate.sql(
            "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)",
            settings={"event_time_field": "ts"},
            r=rows,
        )

    def add(self) -> None:
        """Add a file."""
        minute, second = divmod(10 * self.files, 60)
        ts = f"2026-01-01 00:{minute:02}:{second:02}"
        text = "\n".join(json.dumps({"ts": ts, "v": v}) for v in range(2))
        hidden = self.folder / f"{self.files}.json"
        hidden.write_text(text)
        # Spark takes files in the order of their times.
        os.utime(hidden, (self.since + self.files, self.since + self.files))
        hidden.rename(self.folder / "in" / hidden.name)
        self.files += 1

    def start(self, sink: Sink, **options: Any) -> tidegate.Run:
        """Start the query."""
        return self.query.start(sink=sink, checkpoint=self.folder / "checkpoint", **options)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def fail() -> None:
    raise OSError("the disk is full")


def nothing() -> None:
    pass


def stop_first(runs: list[tidegate.Run]) -> None:
    if runs:
        runs[0].stop()


def watch_with(call: Callable[[], object], report: BatchReport) -> None:
    del report
    call()


def test_after_a_failed_batch_a_drain_is_refused_and_a_restart_has_every_row_once(
    stream: Stream,
) -> None:
    sink = Sink(before=fail)
    stream.add()
    stream.add()
    run = stream.start(sink)
    with pytest.raises(ExecutionError, match="the disk is full"):
        run.await_termination()
    for _ in range(2):
        with pytest.raises(
            ExecutionError, match=r"(?s)nothing was flushed or drained.*disk is full"
        ):
            run.stop(drain=True)
        with pytest.raises(ExecutionError, match=r"(?s)the query stopped in a batch.*disk is full"):
            run.stop()
    assert "the disk is full" in run.status["failure"]
    assert (run.status["active"], run.open_windows, sink.rows) == (False, 1, 0)

    sink.before = nothing
    with stream.start(sink, once=True) as run:
        run.await_termination()
        run.drain()
    assert (sink.rows, run.status["late"], run.status["failure"]) == (4, 0, None)


def test_a_sink_and_a_watcher_may_ask_for_the_end_and_the_batch_ends_first(stream: Stream) -> None:
    runs: list[tidegate.Run] = []
    refused: list[str] = []

    def stop() -> None:
        until(lambda: runs)
        for call in (runs[0].await_termination, runs[0].drain, lambda: runs[0].stop(drain=True)):
            with pytest.raises(ExecutionError) as told:
                call()
            refused.append(str(told.value).partition(",")[0])
        runs[0].stop()

    for _ in range(4):
        stream.add()
    sink = Sink(before=stop)
    runs.append(stream.start(sink))
    assert runs[0].await_termination(timeout=60)
    runs[0].stop()
    assert refused == [
        "a sink or on_batch cannot wait for the end of the query",
        "a sink or on_batch cannot drain",
        "a sink or on_batch cannot flush or drain",
    ]
    # The batch that closed the first window is in the state, and nothing after it.
    assert (sink.rows, runs[0].status["batch_id"]) == (2, 1)

    sink.before = nothing
    runs.clear()
    runs.append(stream.start(sink, on_batch=lambda report: runs and runs[0].stop()))
    assert runs[0].await_termination(timeout=60)
    runs[0].stop(drain=True)
    assert runs[0].status["batch_id"] < 3
    with stream.start(sink, once=True) as run:
        run.await_termination()
        run.drain()
    assert (sink.rows, run.status["late"]) == (8, 0)


def test_a_watcher_that_fails_stops_nothing_and_is_told_once_and_counted(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    def watch(report: BatchReport) -> None:
        raise SystemExit(f"batch {report.batch_id}")

    stream.add()
    stream.add()
    sink = Sink()
    run = stream.start(sink, once=True, on_batch=watch)
    run.await_termination()
    run.stop(drain=True)
    assert (sink.rows, run.status["failed_watches"], run.status["failure"]) == (4, 3, None)
    told = [record.getMessage() for record in caplog.records if "on_batch" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("on_batch failed: SystemExit: batch 0; the query goes on")


def test_a_batch_that_spark_has_planned_runs_before_a_drain(stream: Stream) -> None:
    sink = Sink()
    run = stream.start(sink)
    run._gate.close()  # as a stop does; the next batch comes in the moment before Spark knows
    stream.add()
    until(lambda: run._gate.turned_away)
    assert (run.status["active"], run.status["batch_id"]) == (True, -1)
    run.stop(drain=True)
    assert (sink.rows, run.status["batch_id"], run.status["failure"]) == (2, 0, None)
    run.drain()
    assert sink.rows == 2


def test_a_failure_outside_of_batches_is_told_and_no_property_ever_raises(stream: Stream) -> None:
    sink = Sink()
    stream.add()
    run = stream.start(sink)
    assert run.watermark in (None, "2026-01-01T00:00:00Z")
    with pytest.raises(ExecutionError, match="the query is still running"):
        run.drain()
    until(lambda: run.status["batch_id"] == 0)
    # Spark writes there what it plans.
    shutil.rmtree(stream.folder / "checkpoint" / "offsets")
    (stream.folder / "checkpoint" / "offsets").touch()
    stream.add()
    with pytest.raises(ExecutionError, match=r"the query stopped: "):
        run.await_termination(timeout=60)
    with pytest.raises(ExecutionError, match=r"the query stopped: "):
        run.stop()
    shutil.rmtree(stream.folder / "checkpoint")
    assert str(run.status["failure"]).startswith("the query stopped: ")
    assert (run.status["open_windows"], run.watermark) == (1, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("enough")], ids=repr)
def test_a_sink_that_ends_python_ends_the_query_by_name_and_a_restart_has_every_row_once(
    stream: Stream, error: BaseException
) -> None:
    def end() -> None:
        raise error

    sink = Sink(before=end)
    stream.add()
    stream.add()
    told = r"a sink called sys.exit\(3\)" if isinstance(error, SystemExit) else "KeyboardInterrupt"
    run = stream.start(sink)
    with pytest.raises(ExecutionError, match=told):
        run.await_termination(timeout=60)
    assert (run.status["active"], run.status["batch_id"], sink.rows) == (False, 0, 0)

    sink.before = nothing
    run = stream.start(sink, once=True)
    run.await_termination()
    sink.before = end
    # A drain runs in the thread that asks for it, in which Ctrl-C is raised.
    with pytest.raises((ExecutionError, KeyboardInterrupt), match=r"sys\.exit|enough"):
        run.drain()
    sink.before = nothing
    run.drain()
    assert (sink.rows, run.status["late"]) == (4, 0)


def test_a_drain_that_the_next_start_finishes_is_reported_first(stream: Stream) -> None:
    sink = Sink(before=fail)
    reports: list[BatchReport] = []
    stream.add()
    run = stream.start(sink, once=True)
    run.await_termination()
    with pytest.raises(ExecutionError, match="the disk is full"):
        run.drain()
    sink.before = nothing
    stream.add()
    stream.start(sink, once=True, on_batch=reports.append).await_termination()
    assert [(each.epoch, each.closed_windows, each.rows_in) for each in reports] == [
        (1, 1, 0),
        (2, 0, 2),
    ]


def test_a_handle_that_a_later_start_has_displaced_changes_nothing(stream: Stream) -> None:
    sink = Sink()
    runs = []
    # The first one never has a batch, and so has never written.
    for _ in range(3):
        runs.append(stream.start(sink, once=True))
        runs[-1].await_termination()
        stream.add()
    for run, told in zip(runs, ("has written to", "writes to"), strict=False):
        with pytest.raises(StateError, match=f"another query {told} checkpoint"):
            run.stop(drain=True)
    assert sink.rows == 2
    runs[-1].drain()
    assert (sink.rows, runs[-1].status["late"]) == (4, 0)


def test_old_files_that_cannot_be_deleted_are_counted(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LocalFiles, name: str) -> None:
        raise OSError(f"503 {name}")

    monkeypatch.setattr(LocalFiles, "delete", refuse)
    monkeypatch.setattr(cleaning, "KEPT_MANIFESTS", 2)
    reports: list[BatchReport] = []
    first_us = from_text("2026-01-01T00:00:00Z")
    for _ in range(4):
        stream.add()
    with stream.start(Sink(), once=True, on_batch=reports.append) as run:
        run.await_termination()
    counts = [report.clean_up_failures for report in reports]
    assert (counts[:2], counts[2] > 0) == ([0, 0], True)
    assert run.status["clean_up_failures"] == sum(counts)
    assert run.reports == tuple(reports)
    assert [each.event_time_us for each in reports] == [first_us + 10_000_000 * i for i in range(4)]
    assert "4 batches read 8 rows" in run.plot().text
    assert repr(run) == "<Run: checkpoint: ended>"


def test_random_calls_at_random_moments_from_random_threads_do_what_is_documented(
    stream: Stream,
) -> None:
    chance = random.Random(SEED)
    sink = Sink()
    unexpected: list[BaseException] = []

    def attempt(call: Callable[[], object], *, quiet: bool = False) -> None:
        try:
            call()
        except TidegateError as error:
            if quiet:
                unexpected.append(error)
        except BaseException as error:
            unexpected.append(error)

    for _ in range(6):
        stream.add()
        runs: list[tidegate.Run] = []
        stop = partial(stop_first, runs)
        sink.before = chance.choice([nothing, fail, stop])
        watch = partial(watch_with, chance.choice([nothing, fail, stop]))
        run = stream.start(sink, once=chance.random() < 0.5, on_batch=watch)
        runs.append(run)
        stream.add()
        loud = [
            run.stop,
            lambda run=run: run.stop(flush=True),
            lambda run=run: run.stop(drain=True),
            run.drain,
            lambda run=run: run.await_termination(0.05),
        ]
        quiet = [
            lambda run=run: (run.status, run._repr_html_()),
            lambda run=run: (run.watermark, run.open_windows, run.plot()),
        ]
        calls = [(chance.choice(loud), False) for _ in range(5)]
        calls += [(chance.choice(quiet), True) for _ in range(5)]
        chance.shuffle(calls)
        threads = []
        for call, is_quiet in calls:
            thread = threading.Thread(target=attempt, args=(call,), kwargs={"quiet": is_quiet})
            thread.start()
            threads.append(thread)
            time.sleep(chance.random() * 0.1)
        threads.append(threading.Thread(target=attempt, args=(run.stop,)))
        threads[-1].start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a call hangs"
        assert run.status["active"] is False
    assert unexpected == []

    sink.before = nothing
    with stream.start(sink, once=True) as run:
        run.await_termination()
        run.drain()
    status = run.status
    assert (sink.rows, status["late"]) == (2 * stream.files, 0)


def test_a_second_start_on_a_checkpoint_is_refused_while_the_first_query_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    query = tidegate.sql("SELECT count(*) AS n FROM r GROUP BY countwindow(9)", r=rows)
    ran = threading.Event()
    options = {"sink": tidegate.MemorySink(), "checkpoint": tmp_path / "checkpoint"}
    with query.start(on_batch=lambda _: ran.set(), **options) as first:
        assert ran.wait(timeout=60)
        with pytest.raises(tidegate.ExecutionError, match="already active"):
            query.start(**options)
        assert first.status["active"]
        assert first.status["failure"] is None
