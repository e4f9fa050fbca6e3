"""Merging beside the steps: same answers, whenever a merge ends and whatever becomes of it."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from side_by_side import dealt
from tidegate.api.query import sql
from tidegate.cases.model import FAR_AHEAD_US
from tidegate.cases.stepper import CaseStepper
from tidegate.engine import merging
from tidegate.engine.windows.panes.operator import PaneOperator
from tidegate.engine.windows.sessions.operator import SessionOperator
from tidegate.plan.time_columns import GREATEST_TIME_US
from tidegate.state.manifest import Segment, StateFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES = 14
END = "window_end() AS e FROM t GROUP BY"
TUMBLING = f"SELECT k, count(*) AS n, {END} tumblingwindow('ss', 20), k"
LONG_SESSIONS = f"SELECT k, count(*) AS n, {END} sessionwindow('ss', 20), k"
KINDS = {
    "tumbling": TUMBLING,
    "hopping": f"SELECT k, sum(v) AS n, {END} hoppingwindow('ss', 20, 5), k",
    "whole rows": f"SELECT k, v, {END} tumblingwindow('ss', 20)",
    "session": f"SELECT k, count(*) AS n, {END} sessionwindow('ss', 9), k",
    "sliding": f"SELECT k, sum(v) AS n, {END} slidingwindow('ss', 15, 2), k",
}


# The rest is for the whole suite.
QUICK = ("session",)


class Waits:
    """Drives a query whose merges all run beside its batches.

    Attributes:
        told: how many merges the reports of its batches have told.
    """

    def __init__(self, spark: SparkSession, statement: str, folder: Path) -> None:
        self._spark = spark
        self.told = 0
        query = sql(
            statement,
            settings={"event_time_field": "ts", "watermark_lag": "5s"},
            streams={"t": "ts TIMESTAMP, k STRING, v INT"},
            spark=spark,
        )
        self.stepper = CaseStepper(query, checkpoint=str(folder), partitions=2)

    def batch(self, number: int) -> list[tuple[object, ...]]:
        """Run a batch; return its results."""
        outcome = self.stepper.batch(self._rows(number), FAR_AHEAD_US)
        self.told += outcome.report.merges
        return sorted(tuple(row) for row in outcome.rows)

    def drained(self) -> list[tuple[object, ...]]:
        """Close all windows; return their results."""
        return sorted(tuple(row) for row in self.stepper.drain().rows)

    @property
    def merges(self) -> merging.Merges:
        return self.stepper._stepper._merges

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.stepper._stepper.state.tables.windows

    def _rows(self, number: int) -> DataFrame:
        of = random.Random(number)
        rows = [
            (
                START + timedelta(seconds=4 * number + of.random() * 7),
                of.choice("abc"),
                of.randint(0, 9),
            )
            for _ in range(12)
        ]
        return self._spark.createDataFrame(rows, "ts TIMESTAMP, k STRING, v INT")


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there are, they are merged beside the steps, and soon."""
    monkeypatch.setattr(merging, "are_few", lambda segments: False)
    monkeypatch.setattr(merging, "MERGE_FACTOR", 2)


@pytest.mark.parametrize("kind", dealt(KINDS, QUICK))
@pytest.mark.usefixtures("interpreted")
def test_merges_beside_the_steps_change_no_answer_whenever_they_end(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = Waits(spark, KINDS[kind], tmp_path / "calm")
    expected = [calm.batch(number) for number in range(BATCHES)] + [calm.drained()]

    monkeypatch.setattr(merging, "are_few", lambda segments: False)
    monkeypatch.setattr(merging, "MERGE_FACTOR", 2)
    merged = Waits(spark, KINDS[kind], tmp_path / "merged")
    found, pause = [], random.Random(kind)
    for number in range(BATCHES):
        found.append(merged.batch(number))
        if pause.random() < 0.6:
            merged.merges.wait()
    assert any(segment.level for segment in merged.segments)
    assert [*found, merged.drained()] == expected


@pytest.mark.usefixtures("beside", "interpreted")
def test_a_merge_that_fails_beside_the_steps_is_done_in_the_next_step_which_tells_why(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Waits(spark, TUMBLING, tmp_path)
    merge, threads = PaneOperator.merge, []

    def failing_beside(
        self: PaneOperator, rows: DataFrame, *bound: object, **more: object
    ) -> DataFrame:
        threads.append(threading.current_thread().name)
        if threads[-1] == "tidegate-merge":
            raise OSError("the disk is gone")
        return merge(self, rows, *bound, **more)

    monkeypatch.setattr(PaneOperator, "merge", failing_beside)
    query.batch(0), query.batch(1)
    query.merges.wait()
    assert query.told == 0
    query.batch(2)
    assert query.told == 1
    assert threads[0] == "tidegate-merge"
    assert threads[1] != "tidegate-merge"
    assert [segment.level for segment in query.segments] == [1]


@pytest.mark.usefixtures("beside", "interpreted")
def test_a_merge_of_segments_that_are_no_longer_needed_is_thrown_away(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, may_go_on = Waits(spark, TUMBLING, tmp_path), threading.Event()
    merge = PaneOperator.merge

    def held_back(self: PaneOperator, rows: DataFrame, *bound: object, **more: object) -> DataFrame:
        if threading.current_thread().name == "tidegate-merge":
            assert may_go_on.wait(60)
        return merge(self, rows, *bound, **more)

    monkeypatch.setattr(PaneOperator, "merge", held_back)
    query.batch(0), query.batch(1)
    query.batch(40)  # all windows of the first batches close
    may_go_on.set()
    query.merges.wait()
    query.batch(41)
    names = {segment.name for segment in query.segments}
    assert not any("beside" in name for name in names)
    on_disk = {path.name for path in (tmp_path / "tidegate" / "segments").iterdir()}
    assert not any("beside" in name for name in on_disk)


@pytest.mark.usefixtures("beside", "interpreted")
def test_a_merge_that_fails_because_its_segments_are_gone_makes_no_step_wait(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, gone, threads = Waits(spark, TUMBLING, tmp_path), threading.Event(), []
    merge = PaneOperator.merge

    def without_files(
        self: PaneOperator, rows: DataFrame, *bound: object, **more: object
    ) -> DataFrame:
        threads.append(threading.current_thread().name)
        if len(threads) == 1:
            assert gone.wait(60)
            raise OSError("a file has been deleted")
        return merge(self, rows, *bound, **more)

    monkeypatch.setattr(PaneOperator, "merge", without_files)
    query.batch(0), query.batch(1)
    query.batch(40)  # all windows of the first batches close
    gone.set()
    query.merges.wait()
    query.batch(41)
    query.merges.wait()
    assert threads == ["tidegate-merge"] * 2


@pytest.mark.usefixtures("beside", "interpreted")
def test_the_end_of_a_query_gives_up_its_merge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, cancelled = Waits(spark, TUMBLING, tmp_path), []
    cancel = type(spark.sparkContext).cancelJobGroup
    begun = threading.Event()

    def slow(self: PaneOperator, rows: DataFrame, *bound: object, **more: object) -> DataFrame:
        begun.set()
        assert ended.wait(60)
        return rows

    def watched(context: object, group: str) -> None:
        cancelled.append(group)
        cancel(context, group)

    ended = threading.Event()
    monkeypatch.setattr(PaneOperator, "merge", slow)
    monkeypatch.setattr(type(spark.sparkContext), "cancelJobGroup", watched)
    query.batch(0), query.batch(1)
    assert begun.wait(60)
    query.stepper._stepper.stop_merging()
    ended.set()
    assert len(cancelled) == 1


@pytest.mark.usefixtures("beside", "interpreted")
def test_a_merge_of_sessions_that_a_close_has_rewritten_is_done_again_with_all_spans_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = Waits(spark, LONG_SESSIONS, tmp_path / "calm")
    with monkeypatch.context() as patch:
        patch.setattr(merging, "MERGE_FACTOR", 1_000)
        expected = [calm.batch(number) for number in range(7)] + [calm.drained()]
    query, may_go_on = Waits(spark, LONG_SESSIONS, tmp_path / "merged"), threading.Event()
    merge, apart = SessionOperator.merge, []

    def held_back(
        self: SessionOperator, rows: DataFrame, *bound: object, **more: object
    ) -> DataFrame:
        apart.append(more["apart_us"])
        assert may_go_on.wait(60)
        return merge(self, rows, *bound, **more)

    monkeypatch.setattr(SessionOperator, "merge", held_back)
    found = [query.batch(number) for number in range(5)]
    may_go_on.set()
    query.merges.wait()
    found.append(query.batch(5))
    assert not any(segment.level for segment in query.segments)
    query.merges.wait()
    found.append(query.batch(6))
    assert any(segment.level for segment in query.segments)
    assert apart[1] == GREATEST_TIME_US
    assert [*found, query.drained()] == expected


def test_large_segments_whose_merge_saved_no_rows_are_left_alone_until_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging, "are_few", lambda segments: True)  # merged in the step

    class Fake:
        """Merges segments, of whose rows it leaves a part."""

        bound_us = None

        def __init__(self, left: float) -> None:
            self.left = left
            self.sizes: list[int] = []

        def is_worth(self, crowd: Sequence[Segment]) -> bool:
            return True

        def run(self, crowd: Sequence[Segment], io: object) -> Segment:
            self.sizes.append(len(crowd))
            rows = sum(segment.rows for segment in crowd)
            return large(f"merged-{len(self.sizes)}", round(rows * self.left))

    def large(name: str, rows: int = 1_000) -> Segment:
        files = (StateFile(name="part-0", bytes=merging.BYTES_PER_TASK),)
        return Segment(name=name, first_us=0, last_us=0, rows=rows, files=files)

    def merges_of(left: float, batches: int) -> list[int]:
        merges, fake, segments = merging.Merges(), Fake(left), ()
        for number in range(batches):
            segments = merges.merged("windows", (*segments, large(str(number))), fake, None)
        return fake.sizes

    assert merges_of(left=0.5, batches=32) == [8, 8, 8, 8]
    assert merges_of(left=1.0, batches=8 + 63) == [8]
    # The merge after that looks again whether it saves rows.
    assert merges_of(left=1.0, batches=8 + 64 + 63) == [8, 64]


def test_a_merge_waits_for_other_work_beside_the_steps_but_not_for_ever() -> None:
    class Busy:
        """Has other work that never ends."""

        is_busy = True

        def __init__(self) -> None:
            self.begun: list[str] = []

        def start(self, what: str, io: object, run: object) -> None:
            self.begun.append(what)

    merge = SimpleNamespace(is_worth=lambda crowd: True, apart_us=lambda: None, bound_us=None)
    merges, busy, segments = merging.Merges(), Busy(), ()
    begun = []
    for number in range(2 * merging.MERGE_FACTOR):
        new = Segment(name=str(number), first_us=0, last_us=0, rows=1_000_000)
        io = SimpleNamespace(asides=busy)
        segments = merges.merged("windows", (*segments, new), merge, io)
        begun.append(len(busy.begun))
    assert begun == [0] * (2 * merging.MERGE_FACTOR - 1) + [1]
