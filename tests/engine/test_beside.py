"""Queries over one stream that run in one query of Spark: the stream is read once for all."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from chains import Kept
from tidegate.errors import ConfigError, ExecutionError, TidegateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.api.chain import Attached

BY_KEY = "SELECT k, sum(v) AS v FROM r GROUP BY tumblingwindow('ss', 10), k ON ts"
IN_ALL = """
    SELECT count(*) AS n, max(v) AS v FROM r WHERE v > 1
    GROUP BY hoppingwindow('ss', 20, 10) ON ts
"""
HOPS = [(1, 2), (1, 2), (2, 8), (2, 8), (1, 16), (1, 16), (1, 64), (1, 64)]
FILES = [
    [(1, "a", 1), (2, "b", 2), (21, "a", 4)],
    [(29, "a", 8), (40, "b", 16), (3, "a", 32)],
    [(65, "b", 64)],
]
SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, unused STRING"


def write(folder: Path, number: int) -> None:
    lines = [
        json.dumps({"ts": f"1970-01-01T00:{s // 60:02}:{s % 60:02}Z", "k": k, "v": v})
        for s, k, v in FILES[number]
    ]
    file = folder / f"{number}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (1_700_000_000 + number,) * 2)


@pytest.fixture
def stream(interpreted: SparkSession, tmp_path: Path) -> DataFrame:
    """One file in each batch."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(len(FILES)):
        write(folder, number)
    reader = interpreted.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def start(
    query: tg.Query, sink: object, tmp_path: Path, *beside: Attached, late: object = None
) -> tg.Run:
    run = query.start(sink=sink, checkpoint=tmp_path / "first", once=True, beside=beside, late=late)
    run.await_termination()
    return run


def test_the_stream_is_read_once_and_each_has_its_own_answers(
    stream: DataFrame, tmp_path: Path
) -> None:
    first, second, late, longer = Kept(), Kept(), tg.MemorySink(), Kept()
    by_key, in_all = tg.sql(BY_KEY, r=stream), tg.sql(IN_ALL, r=stream)
    sums = tg.sql(
        "SELECT sum(v) AS v FROM hops GROUP BY tumblingwindow('mi', 1)", streams={"hops": in_all}
    )
    reports: list[tg.BatchReport] = []
    beside = in_all.attach(
        sink=second,
        checkpoint=tmp_path / "second",
        name="in_all",
        on_batch=reports.append,
        downstream=[sums.attach(sink=longer, checkpoint=tmp_path / "third")],
    )
    run = start(by_key, first, tmp_path, beside, late=late)
    read = [progress["numInputRows"] for progress in run.query.recentProgress]
    run.drain()

    assert [rows for rows in read if rows] == [3, 3, 1]
    assert first.epochs == {
        0: [("a", 1), ("b", 2)],
        1: [("a", 12)],
        2: [("b", 16)],
        3: [("b", 64)],
    }
    assert [row["original_event"]["v"] for row in late.rows()] == [32]
    assert second.rows() == HOPS
    assert [report.rows_in for report in reports] == [3, 3, 1, 0]
    assert longer.rows() == [(52,), (128,)]
    assert run.status["beside"]["in_all"]["accumulated"] == 5
    assert not (tmp_path / "second" / "offsets").exists()


@pytest.mark.whole
def test_when_one_fails_all_run_the_batch_again_and_none_has_it_twice(
    stream: DataFrame, tmp_path: Path
) -> None:
    first, second = Kept(), Kept()
    by_key, in_all = tg.sql(BY_KEY, r=stream), tg.sql(IN_ALL, r=stream)
    second.fails = True
    attached = in_all.attach(sink=second, checkpoint=tmp_path / "second")
    with pytest.raises(ExecutionError, match="the disk is full"):
        start(by_key, first, tmp_path, attached)
    assert sorted(first.epochs) == [0]
    start(by_key, first, tmp_path, attached).drain()

    assert first.writes == len(first.epochs) == 4
    assert second.rows() == HOPS


@pytest.mark.whole
def test_a_query_that_joins_later_begins_with_the_next_batch_and_may_not_miss_one(
    stream: DataFrame, tmp_path: Path
) -> None:
    for number in (1, 2):
        (tmp_path / "in" / f"{number}.json").unlink()
    by_key, in_all = tg.sql(BY_KEY, r=stream), tg.sql(IN_ALL, r=stream)
    sinks = [Kept(), Kept()]

    def attached() -> Attached:
        return in_all.attach(sink=sinks[1], checkpoint=tmp_path / "second")

    start(by_key, sinks[0], tmp_path)
    write(tmp_path / "in", 1)
    start(by_key, sinks[0], tmp_path, attached()).drain()
    assert sinks[1].rows() == [(1, 32), (1, 32), (1, 8), (1, 8), (1, 16), (1, 16)]
    (tmp_path / "in" / "2.json").write_text('{"ts": "1970-01-01T00:02:00Z", "k": "a", "v": 2}')
    start(by_key, sinks[0], tmp_path)
    (tmp_path / "in" / "3.json").write_text('{"ts": "1970-01-01T00:03:00Z", "k": "a", "v": 2}')
    with pytest.raises(TidegateError, match="manifests are missing, and with them the rows"):
        start(by_key, sinks[0], tmp_path, attached())


def test_queries_that_cannot_share_a_stream_are_refused(
    stream: DataFrame, interpreted: SparkSession, tmp_path: Path
) -> None:
    by_key = tg.sql(BY_KEY, r=stream)
    other = interpreted.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    inner = "SELECT sum(v) AS v FROM (SELECT * FROM r) GROUP BY tumblingwindow('ss', 10) ON ts"
    for query, what in (
        (tg.sql(BY_KEY, r=other), "a query reads another stream than r"),
        (tg.sql(inner, r=stream), "FROM does more than read r"),
    ):
        attached = query.attach(sink=Kept(), checkpoint=tmp_path / "second")
        with pytest.raises(ConfigError, match=what):
            start(by_key, Kept(), tmp_path, attached)
    with pytest.raises(ConfigError, match="is that of two queries"):
        start(by_key, Kept(), tmp_path, by_key.attach(sink=Kept(), checkpoint=tmp_path / "first"))
    assert not (tmp_path / "first").exists()
