"""Results that go to several sinks: computed once, to each in turn, each replaced by a replay."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from tidegate.errors import ConfigError, ExecutionError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SQL = """
    SELECT page, count(*) AS n, reflect('java.util.UUID', 'randomUUID') AS computed
    FROM clicks GROUP BY tumblingwindow('ss', 10), page ON ts
"""
ROWS = [("10:00:01", "a"), ("10:00:02", "a"), ("10:00:03", "b"), ("10:00:11", "c")]
CLOSED = [("a", 2), ("b", 1)]


class Keeper:
    """A sink of a user that keeps the rows of each write, and the columns it was given."""

    def __init__(self) -> None:
        self.written: list[tuple[int, list[tuple[object, ...]]]] = []
        self.frames: list[list[tuple[object, ...]]] = []
        self.failures = 0

    def write(self, frame: DataFrame, epoch: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        self.frames.append(sorted(tuple(row) for row in frame.collect()))
        self.written.append((epoch, [row[:2] for row in self.frames[-1]]))


class Identified(Keeper):
    """A sink that gets the columns that identify a result."""

    needs_identity = True
    reads_once = True


@pytest.fixture
def query(interpreted: SparkSession, tmp_path: Path) -> tg.Query:
    """A query whose results have another value whenever they are computed."""
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [f'{{"ts": "2026-01-01T{time}Z", "page": "{page}"}}' for time, page in ROWS]
    (folder / "0.json").write_text("\n".join(lines))
    os.utime(folder / "0.json", (1_700_000_000,) * 2)
    stream = interpreted.readStream.schema("ts TIMESTAMP, page STRING").json(str(folder))
    return tg.sql(SQL, clicks=stream)


def start(query: tg.Query, sinks: list[object], folder: Path) -> list[tg.BatchReport]:
    reports: list[tg.BatchReport] = []
    run = query.start(
        sink=sinks, checkpoint=folder / "checkpoint", once=True, on_batch=reports.append
    )
    run.await_termination()
    return reports


def test_each_sink_gets_all_results_which_are_computed_once(
    query: tg.Query, tmp_path: Path
) -> None:
    files = tg.FileSink(format="json", path=tmp_path / "out")
    keeper, identified, memory = Keeper(), Identified(), tg.MemorySink()

    (report,) = start(query, [files, keeper, identified, tg.ConsoleSink(), memory], tmp_path)

    assert report.rows_out == 2
    assert keeper.written == [(0, CLOSED)]
    assert identified.written == [(0, CLOSED)]
    assert all(len(row[3]) == 32 for row in identified.frames[0])
    lines = [line for file in (tmp_path / "out").rglob("*.json") for line in file.open()]
    computed = {
        frozenset(row["computed"] for row in map(json.loads, lines)),
        frozenset(row[2] for row in keeper.frames[0]),
        frozenset(row[2] for row in identified.frames[0]),
        frozenset(row["computed"] for row in memory.rows()),
    }
    assert [len(values) for values in computed] == [len(CLOSED)]


@pytest.mark.whole
def test_a_failure_between_two_sinks_writes_both_again(query: tg.Query, tmp_path: Path) -> None:
    first, second = Keeper(), Keeper()
    second.failures = 1

    with pytest.raises(ExecutionError, match="the disk is full"):
        start(query, [first, second], tmp_path)
    assert (first.written, second.written) == ([(0, CLOSED)], [])

    start(query, [first, second], tmp_path)
    assert first.written == [(0, CLOSED), (0, CLOSED)]
    assert second.written == [(0, CLOSED)]


def test_a_folder_of_another_query_is_refused_before_any_sink_is_touched(
    query: tg.Query, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "_tidegate_owner").write_text('{"id": "abc", "checkpoint": "elsewhere"}')

    with pytest.raises(ConfigError, match="the results of another query"):
        start(query, [tmp_path / "out", other], tmp_path)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "checkpoint").exists()


def test_sinks_that_do_not_go_together_are_refused_by_their_place(
    query: tg.Query, tmp_path: Path
) -> None:
    keeper = Keeper()
    every = f"{SQL} EMIT EARLY EVERY INTERVAL '1' SECOND"
    early = tg.sql(every, clicks=query.given.streams["clicks"])
    for given, asked, what in (
        ([], query, "sink is an empty list"),
        ([keeper, 7], query, r"sink\[1\]: 7 is not a sink"),
        ([keeper, keeper], query, r"sink\[0\] and sink\[1\] are the same sink"),
        ([tmp_path / "a", tmp_path / "a" / "b"], query, r"sink\[1\] lies inside sink\[0\]"),
        ([tg.MemorySink(), keeper], early, r"sink\[1\]: .* cannot take the provisional results"),
    ):
        with pytest.raises(ConfigError, match=what):
            start(asked, given, tmp_path)
