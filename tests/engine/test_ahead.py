"""A step is finished beside the next batch while the source has more rows, and only then."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import tidegate as tg
from tidegate.connectors.sinks import FileSink
from tidegate.engine import faults
from tidegate.engine.batches import Batches
from tidegate.engine.rows import duplicates, shards
from tidegate.errors import ExecutionError, StateError
from tidegate.metrics.report import Dropped
from tidegate.state import store
from tidegate.state.files import LocalFiles
from tidegate.state.intents import find_intent, put_intent
from tidegate.state.manifest_log import ManifestLog
from tidegate.state.writers import claim

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.state.files import Files
    from tidegate.state.intents import Intent
    from tidegate.state.manifest import Manifest
    from tidegate.state.shard_map import SeenShards

SQL = "SELECT sum(v) AS v, window_start() AS s FROM r GROUP BY tumblingwindow('ss', 10)"
LONG = 60


class Failed(Exception):
    """Stands for the end of a process."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query over files, each of one row of 1, 10, 100.. that closes the window before."""

    spark: SparkSession
    folder: Path

    def write(self, *numbers: int) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        for number in numbers:
            path = self.folder / "in" / f"{number}.json"
            path.write_text(
                json.dumps({"ts": f"2026-01-01 00:{number:02}:00", "v": 10**number}), "utf-8"
            )
            os.utime(path, (time.time() - 600 + number,) * 2)

    def start(self, sql: str = SQL, sink: object = None, **options: Any) -> tg.Run:
        rows = (
            self.spark.readStream.schema("ts TIMESTAMP, v BIGINT")
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "in"))
        )
        asked = {"event_time_field": "ts", "watermark_lag": "0s"} | options.pop("settings", {})
        query = tg.sql(sql, settings=asked, streams={"r": rows})
        return query.start(
            sink=sink or self.sink,
            checkpoint=str(self.checkpoint),
            **({"once": True} | options),
        )

    @property
    def sink(self) -> FileSink:
        return FileSink(format="json", path=str(self.folder / "out"))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def results(self) -> dict[int, int]:
        """The sums by epoch."""
        return {
            int(path.parent.name.partition("=")[2]): json.loads(path.read_text("utf-8"))["v"]
            for path in self.folder.glob("out/emit_epoch=*/*.json")
            if path.stat().st_size
        }

    def taken(self) -> list[int]:
        """The epochs that were taken in and finished later."""
        files = LocalFiles(str(self.checkpoint / "tidegate"))
        epochs = range(len(list((self.checkpoint / "tidegate" / "manifests").glob("*.json"))) + 1)
        intents = {epoch: find_intent(files, epoch) for epoch in epochs}
        return [epoch for epoch, each in intents.items() if each and each.taken is not None]


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    made = Query(spark=spark, folder=tmp_path)
    made.write(0, 1, 2, 3)
    return made


@dataclass
class Hold:
    """Keeps a thread where it is until it may go on."""

    then: Callable[[], object]
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.reached.set()
        assert self.go_on.wait(LONG)
        self.then()


@dataclass
class Points:
    """Does something where steps reach fault points, and keeps the order in which they do."""

    at: dict[tuple[str, int], Callable[[], object]] = field(default_factory=dict)
    reached: list[tuple[str, int]] = field(default_factory=list)
    threads: dict[tuple[str, int], str] = field(default_factory=dict)

    def hold(self, name: str, epoch: int, then: Callable[[], object] = lambda: None) -> Hold:
        """Hold the thread that comes there; then do something."""
        self.at[name, epoch] = made = Hold(then)
        return made

    def __call__(self, name: str, epoch: int) -> None:
        self.reached.append((name, epoch))
        self.threads[name, epoch] = threading.current_thread().name
        self.at.get((name, epoch), lambda: None)()


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Points:
    found = Points()
    monkeypatch.setattr(faults, "reached", found)
    return found


def fail() -> None:
    raise Failed


def until(holds: Callable[[], bool]) -> Callable[[], None]:
    """Return a function that waits until something holds."""

    def wait() -> None:
        end = time.monotonic() + LONG
        while not holds():
            assert time.monotonic() < end, "it never came"
            time.sleep(0.005)

    return wait


def test_a_step_is_finished_while_the_next_batch_is_taken_in(query: Query, points: Points) -> None:
    """Each waits for the other, so neither comes first by chance."""
    points.at["after_intent", 1] = until(lambda: ("after_segment", 2) in points.reached)
    run = query.start()
    run.await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert query.taken() == [0, 1, 2]
    assert points.threads["after_results", 1] == "tidegate-finish"
    assert [report.epoch for report in run.reports] == [0, 1, 2, 3]
    assert [report.rows_in for report in run.reports] == [1, 1, 1, 1]


@pytest.mark.whole
def test_two_steps_are_never_begun_before_the_first_is_committed(
    query: Query, points: Points
) -> None:
    query.start().await_termination()
    for epoch in range(3):
        ended, begun = ("after_clean_up", epoch), ("after_taken", epoch + 1)
        if begun in points.reached:
            assert points.reached.index(ended) < points.reached.index(begun)


def test_the_results_of_the_last_batch_are_there_when_spark_has_processed_all(
    query: Query,
) -> None:
    run = query.start(once=False)
    try:
        run.query.processAllAvailable()
        assert query.results() == {1: 1, 2: 10, 3: 100}
        assert query.taken() == [0, 1, 2]
        query.write(4)
        run.query.processAllAvailable()
        assert query.results() == {1: 1, 2: 10, 3: 100, 4: 1000}
        assert query.taken() == [0, 1, 2]
    finally:
        run.stop()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("after_taken", marks=pytest.mark.whole),
        "after_results",
        pytest.param("after_manifest", marks=pytest.mark.whole),
    ],
)
def test_what_was_taken_in_is_finished_before_the_next_start(
    point: str, query: Query, points: Points
) -> None:
    """Spark has noted the batch as done, so nothing else would bring its results."""
    done = query.checkpoint / "commits" / "1"
    if point != "after_taken":  # Spark notes a batch only after its intent.
        points.at["after_intent", 1] = until(done.exists)
    points.at[point, 1] = fail
    with pytest.raises(ExecutionError):
        query.start().await_termination()
    assert done.exists() is (point != "after_taken")
    before = {"after_taken": {}, "after_results": {1: 1}, "after_manifest": {1: 1}}[point]
    assert query.results() == before
    points.at.clear()
    points.reached.clear()
    run = query.start()
    finished = [epoch for name, epoch in points.reached if name == "after_manifest"]
    assert finished[:1] == ([] if point == "after_manifest" else [1])
    run.await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert sum(name == "before_segment" and epoch == 1 for name, epoch in points.reached) == 0


BY_SHARD = "SELECT v, count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10), v"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that look for the names of shards."""
    found: list[str] = []

    def by_job(rows: DataFrame, time: str) -> SeenShards:
        found.append(threading.current_thread().name)
        return named_by_job(rows, time)

    named_by_job = shards._by_job
    monkeypatch.setattr("tidegate.engine.rows.shards._by_job", by_job)
    return found


def names_of(state: Manifest | None) -> list[str | None]:
    assert state is not None
    return [each.name for each in state.watermark.shards.values()]


def test_new_shards_get_their_names_beside_the_next_batch_also_after_a_crash(
    query: Query, points: Points, threads: list[str]
) -> None:
    points.at["after_results", 1] = fail
    with pytest.raises(ExecutionError):
        query.start(BY_SHARD, settings={"shard": "v"}).await_termination()
    assert threads == ["tidegate-finish"]
    files = LocalFiles(str(query.checkpoint / "tidegate"))
    begun = find_intent(files, 1)
    assert begun is not None
    assert names_of(begun.taken) == ["1", None]

    points.at.clear()
    query.start(BY_SHARD, settings={"shard": "v"}).await_termination()
    assert names_of(ManifestLog(files).newest()) == ["1", "10", "100", "1000"]
    # After the crash first, then beside the next batch, and nothing comes after the last one.
    assert [each == "tidegate-finish" for each in threads] == [True, False, True, False]


def test_a_batch_that_fails_beside_a_commit_fails_with_its_own_error(
    query: Query, points: Points
) -> None:
    """The file of shards without names is deleted by then, and was part of the state before."""
    lines = [json.dumps({"ts": "2026-01-01 00:00:00", "v": v}) for v in range(60)]
    (query.folder / "in" / "0.json").write_text("\n".join(lines), "utf-8")
    os.utime(query.folder / "in" / "0.json", (time.time() - 700,) * 2)

    failing = threading.Event()

    def fail_after_clean_up() -> None:
        until(lambda: ("after_clean_up", 0) in points.reached)()
        failing.set()
        raise RuntimeError("there is no connection")

    def end_later() -> None:
        """Long enough after the failure for a batch that does not wait to look for damage."""
        assert failing.wait(LONG)
        time.sleep(0.3)

    points.at["after_clean_up", 0] = end_later
    points.at["before_segment", 1] = fail_after_clean_up
    with pytest.raises(ExecutionError, match="there is no connection"):
        query.start(BY_SHARD, settings={"shard": "v"}).await_termination()
    folders = {path.name for path in (query.checkpoint / "tidegate/segments").glob("*-shards*")}
    newest = ManifestLog(LocalFiles(str(query.checkpoint / "tidegate"))).newest()
    assert newest is not None
    assert folders == {segment.name for segment in newest.tables.shards}
    assert len(folders) == 1


@pytest.mark.whole
def test_with_lateness_exact_to_the_record_shards_have_names_before_the_next_batch(
    query: Query, threads: list[str]
) -> None:
    settings = {"shard": "v", "lateness": "record"}
    query.start(BY_SHARD, settings=settings).await_termination()
    assert query.taken()
    assert len(threads) == 4
    assert "tidegate-finish" not in threads


def test_a_failing_sink_stops_the_query_in_the_next_batch(query: Query) -> None:
    class Failing(FileSink):
        def write(self, frame: DataFrame, epoch: int) -> None:
            if epoch == 1:
                raise OSError("the disk is full")
            super().write(frame, epoch)

    sink = Failing(format="json", path=str(query.folder / "out"))
    run = query.start(sink=sink)
    with pytest.raises(ExecutionError, match="the disk is full"):
        run.await_termination()
    assert query.results() == {}
    assert run.status["batch_id"] == 0
    query.start().await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}


def test_a_stop_waits_for_the_step_that_is_being_finished(query: Query, points: Points) -> None:
    hold = points.hold("after_intent", 1)
    run = query.start(once=False)
    assert hold.reached.wait(LONG)
    stopping = threading.Thread(target=run.stop)
    stopping.start()
    until(lambda: run._gate.is_closed)()
    assert query.results() == {}
    hold.go_on.set()
    stopping.join(LONG)
    assert not stopping.is_alive()
    assert query.results()[1] == 1
    assert not run.status["active"]
    assert run.status["failure"] is None


def test_a_stop_in_on_batch_ends_the_query_after_its_batch(query: Query) -> None:
    def stop(report: tg.BatchReport) -> None:
        if report.epoch == 1:
            run.stop()

    run = query.start(once=False, on_batch=stop)
    assert run.await_termination(LONG)
    assert run.status["batch_id"] == 1
    assert run.status["failure"] is None
    assert query.results() == {1: 1}
    query.start().await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}


@pytest.mark.whole
def test_on_batch_cannot_wait_for_itself_beside_the_next_batch(query: Query) -> None:
    told: list[str] = []

    def wait(report: tg.BatchReport) -> None:
        with pytest.raises(ExecutionError) as refused:
            run.await_termination()
        told.append(str(refused.value))

    run = query.start(once=False, on_batch=wait)
    run.query.processAllAvailable()
    run.stop()
    assert len(told) == 4
    assert all("cannot wait for the end of the query" in each for each in told)


@pytest.mark.whole
def test_a_drain_comes_after_the_step_that_is_being_finished(query: Query) -> None:
    run = query.start()
    run.await_termination()
    run.drain()
    assert query.results() == {1: 1, 2: 10, 3: 100, 4: 1000}


def test_a_refused_start_does_not_finish_the_step_of_the_running_query(
    query: Query, points: Points
) -> None:
    hold = points.hold("after_intent", 1)
    run = query.start(once=False)
    assert hold.reached.wait(LONG)
    with pytest.raises(ExecutionError, match="did not start"):
        query.start()
    hold.go_on.set()
    run.query.processAllAvailable()
    run.stop()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert len(list((query.checkpoint / "tidegate" / "writers").glob("*.json"))) == 1


@pytest.mark.whole
def test_another_query_does_not_finish_what_this_one_has_taken_in(
    query: Query, points: Points
) -> None:
    points.at["after_intent", 1] = fail
    with pytest.raises(ExecutionError):
        query.start().await_termination()
    with pytest.raises(StateError, match="another query"):
        query.start(SQL.replace("'ss', 10", "'ss', 20"))
    assert query.results() == {}


class Own:
    """A sink of a user's, which may be called only by the thread that brings the batches."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def write(self, frame: DataFrame, epoch: int) -> None:
        frame.collect()
        self.threads.add(threading.current_thread().name)


@pytest.mark.whole
def test_a_sink_of_a_user_is_called_by_the_thread_that_brings_the_batches(query: Query) -> None:
    sink = Own()
    query.start(sink=sink).await_termination()
    assert "tidegate-finish" not in sink.threads
    assert query.taken() == []


@pytest.mark.whole
def test_late_rows_with_a_sink_are_written_within_their_batch(query: Query) -> None:
    (query.folder / "in" / "2.json").write_text(
        '{"ts": "2026-01-01 00:00:05", "v": 7}\n{"ts": "2026-01-01 00:02:00", "v": 100}', "utf-8"
    )
    os.utime(query.folder / "in" / "2.json", (time.time() - 598,) * 2)
    late = FileSink(format="json", path=str(query.folder / "late"))
    query.start(late=late).await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert query.taken() == [0, 1]
    assert list((query.folder / "late").glob("emit_epoch=2/*.json"))


@pytest.mark.whole
def test_without_a_backlog_every_batch_ends_with_its_results(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Batches, "_is_followed", lambda self: False)
    query.start().await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert query.taken() == []


def test_spark_does_not_take_the_batch_of_a_displaced_process_for_done(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has looked for intents before this one is written, and runs the batch."""

    def displaced_before(files: Files, intent: Intent, term: int) -> None:
        if intent.epoch == 1:
            claim(files, ManifestLog(files).newest())
        put_intent(files, intent, term)

    monkeypatch.setattr(store, "put_intent", displaced_before)
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        query.start().await_termination()
    assert (query.checkpoint / "offsets" / "1").exists()
    assert not (query.checkpoint / "commits" / "1").exists()


@pytest.mark.whole
def test_the_error_of_what_was_taken_in_before_has_an_end(query: Query, points: Points) -> None:
    """Whoever looks for what caused it follows its causes."""
    points.at["after_intent", 0] = points.at["after_merge", 0] = fail
    with pytest.raises(ExecutionError):
        query.start().await_termination()
    assert query.taken() == [0]
    with pytest.raises(StateError, match="another query") as refused:
        query.start(SQL.replace("'ss', 10", "'ss', 20"))
    assert refused.value.__cause__ is not refused.value


def test_one_sink_of_a_user_among_several_is_called_by_the_thread_that_brings_the_batches(
    query: Query,
) -> None:
    own = Own()
    query.start(sink=[query.sink, own]).await_termination()
    assert "tidegate-finish" not in own.threads
    assert query.results() == {1: 1, 2: 10, 3: 100}


def test_a_sink_may_stop_the_query_beside_the_next_batch(query: Query) -> None:
    started, runs = threading.Event(), []

    class Stopping(FileSink):
        def write(self, frame: DataFrame, epoch: int) -> None:
            super().write(frame, epoch)
            if epoch == 1:
                assert started.wait(LONG)
                runs[0].stop()

    sink = Stopping(format="json", path=str(query.folder / "out"))
    runs.append(query.start(sink=sink, once=False))
    started.set()
    assert runs[0].await_termination(LONG)
    assert runs[0].status["batch_id"] == 1
    assert runs[0].status["failure"] is None
    runs[0].drain()
    assert query.results() == {1: 1, 2: 10, 3: 100}


@pytest.mark.whole
def test_a_new_sink_does_not_get_late_rows_that_were_taken_in_without_it(
    query: Query, points: Points, caplog: pytest.LogCaptureFixture
) -> None:
    (query.folder / "in" / "2.json").write_text(
        '{"ts": "2026-01-01 00:00:05", "v": 7}\n{"ts": "2026-01-01 00:02:00", "v": 100}', "utf-8"
    )
    os.utime(query.folder / "in" / "2.json", (time.time() - 598,) * 2)
    points.at["after_intent", 2] = fail
    with pytest.raises(ExecutionError):
        query.start().await_termination()
    points.at.clear()
    run = query.start(late=FileSink(format="json", path=str(query.folder / "late")))
    run.await_termination()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert run.status["late"] == 1
    assert run.status["side_dropped"] == dict.fromkeys(Dropped.__slots__, 0)
    assert "1 late rows of epoch 2 are only counted" in caplog.text


def test_the_last_batch_ends_with_its_results_though_spark_has_forgotten_old_files(
    query: Query,
) -> None:
    for number in range(3):
        path = query.folder / "in" / f"{number}.json"
        os.utime(path, (time.time() - (30 - number) * 86_400,) * 2)
    query.start().query.awaitTermination()
    assert query.results() == {1: 1, 2: 10, 3: 100}
    assert query.taken() == [0, 1, 2]


def test_a_failure_beside_is_told_before_the_next_batch_is_due(
    query: Query, points: Points
) -> None:
    points.at["after_merge", 0] = fail
    run = query.start(once=False, trigger="1h")
    with pytest.raises(ExecutionError, match="Failed"):
        run.await_termination(LONG)


def test_the_status_tells_of_a_step_that_fails_after_sparks_query_has_ended(
    query: Query, points: Points
) -> None:
    hold = points.hold("after_merge", 0, then=fail)
    run = query.start(once=False, trigger="1h")
    assert hold.reached.wait(LONG)
    run.query.stop()
    assert run.status["active"]
    assert not run.await_termination(0.2)
    hold.go_on.set()
    until(lambda: not run.status["active"])()
    assert "Failed" in str(run.status["failure"])


def test_keys_that_a_batch_reads_are_not_deleted_by_the_step_before(
    query: Query, points: Points, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.write(*range(4, 11))
    numbered, calls = duplicates._numbered, count()

    def wait_first(rows: DataFrame) -> DataFrame:
        # By now the batch has chosen what it reads; one more call has checked the plan.
        epoch = next(calls) - 1
        if epoch > 0:
            until(lambda: ("after_clean_up", epoch - 1) in points.reached)()
        return numbered(rows)

    monkeypatch.setattr(duplicates, "_numbered", wait_first)
    # Segments with keys of a type whose order is unknown are all read; at eight, they are merged.
    keys = {"dedup_key": "ts", "dedup_horizon": "1h"}
    query.start(settings=keys).await_termination()
    assert query.taken() == list(range(10))
    assert query.results() == {epoch: 10 ** (epoch - 1) for epoch in range(1, 11)}


@pytest.mark.whole
def test_a_damaged_file_of_what_was_taken_in_is_named(query: Query, points: Points) -> None:
    (query.folder / "in" / "2.json").write_text(
        '{"ts": "2026-01-01 00:01:30", "v": 7}\n{"ts": "2026-01-01 00:02:00", "v": 100}', "utf-8"
    )
    os.utime(query.folder / "in" / "2.json", (time.time() - 598,) * 2)
    points.at["after_intent", 2] = fail
    with pytest.raises(ExecutionError):
        query.start().await_termination()
    points.at.clear()
    segments = query.checkpoint / "tidegate" / "segments"
    [damaged] = segments.glob("2-*/*.parquet")
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(StateError, match=f"is damaged: {damaged.name} of segment 2-"):
        query.start()
