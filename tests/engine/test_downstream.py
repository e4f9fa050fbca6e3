"""Queries that read the results of a query: when their windows close, and what a crash leaves."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from chains import CLOCK_US, HOUR_US, Chain, Reader, first, frame_of
from tidegate.errors import ConfigError, StateError
from tidegate.state.files import LocalFiles
from tidegate.state.forgetting import forget_shards
from tidegate.state.rollback import roll_back

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SMALL = "SELECT k, sum(v) AS v, window_end() AS e FROM r GROUP BY tumblingwindow('ss', 10), k"
GREAT = "SELECT k, sum(v) AS v, count(*) AS n FROM small GROUP BY tumblingwindow('mi', 1), k"
ROWS = [
    [(1, "a", 1), (2, "b", 2), (21, "a", 4)],
    [(59, "a", 8), (60, "b", 16)],
    [(69, "b", 32), (95, "a", 64)],
    [(125, "a", 128)],
]


@pytest.fixture
def chain(interpreted: SparkSession, tmp_path: Path) -> Chain:
    """Windows of ten seconds, without readers."""
    return Chain(query=first(interpreted, SMALL), folder=tmp_path / "small")


@pytest.fixture
def great(chain: Chain, tmp_path: Path) -> Reader:
    """Minutes of the windows of the chain."""
    query = tg.sql(GREAT, streams={"small": chain.query})
    return Reader(query=query, folder=tmp_path / "great")


def test_a_window_closes_in_the_step_that_closes_the_last_one_it_holds(
    chain: Chain, great: Reader
) -> None:
    running = chain.start(great)
    for number, rows in enumerate(ROWS):
        running.batch(number, rows)

    assert great.sink.epochs == {1: [("a", 13, 3), ("b", 2, 1)], 3: [("a", 64, 1), ("b", 48, 1)]}
    assert [report.rows_in for report in great.reports] == [2, 2, 1, 1]
    running.stepper.drain()
    assert great.sink.epochs[5] == [("a", 128, 1)]
    assert [report.epoch for report in great.reports] == [0, 1, 2, 3, 4, 5]


def test_what_one_query_has_committed_is_not_run_again_when_another_one_fails(
    chain: Chain, great: Reader, tmp_path: Path
) -> None:
    other = Reader(query=great.query, folder=tmp_path / "other")
    running = chain.start(great, other)
    running.batch(0, ROWS[0])
    other.sink.fails = True
    with pytest.raises(OSError, match="the disk is full"):
        running.batch(1, ROWS[1])
    assert [report.epoch for report in chain.reports] == [0]
    running.batch(1, ROWS[1])
    running = chain.start(great, other)
    assert running.batch(1, ROWS[1]) is None
    for number in (2, 3):
        running.batch(number, ROWS[number])

    assert great.sink.epochs == other.sink.epochs
    assert sorted(great.sink.epochs) == [1, 3]
    assert great.sink.writes == other.sink.writes == 2
    assert [report.epoch for report in great.reports] == [0, 1, 2, 3]
    # The upstream wrote its results again: its step had not been committed.
    assert (chain.sink.writes, [each.epoch for each in chain.reports]) == (5, [0, 1, 2, 3])


@pytest.mark.whole
def test_a_step_that_is_run_again_keeps_the_closing_that_readers_have_followed(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    sql = SMALL.replace("GROUP", "WHERE v > 0 GROUP")
    readers = [
        Reader(query=tg.sql(GREAT, streams={"small": query}), folder=tmp_path / name)
        for query in [first(interpreted, sql)]
        for name in ("great", "other")
    ]
    chain = Chain(query=readers[0].query.given.streams["small"].query, folder=tmp_path / "small")
    running = chain.start(*readers)
    running.batch(0, [(2, "a", 1), (59, "a", 0)])
    readers[1].sink.fails = True
    # It closes no window of the chain, but one of its readers.
    with pytest.raises(OSError, match="the disk is full"):
        running.batch(1, [(61, "a", 0)])
    assert readers[0].sink.epochs == {1: [("a", 1, 1)]}

    settings = {"event_time_field": "ts", "watermark_lag": "1h"}
    query = first(interpreted, sql, settings)
    chain = Chain(query=query, folder=chain.folder, sink=chain.sink, reports=chain.reports)
    readers = [
        Reader(query=tg.sql(GREAT, streams={"small": query}), folder=each.folder, sink=each.sink)
        for each in readers
    ]
    chain.start(*readers).batch(1, [(61, "a", 0)])
    assert chain.reports[-1].watermark_us == 61_000_000
    assert readers[1].sink.epochs == readers[0].sink.epochs


@pytest.mark.whole
def test_queries_read_one_another_by_event_time_and_by_the_clock(
    chain: Chain, great: Reader, tmp_path: Path
) -> None:
    by_clock = {"time": "processing"}
    pairs = tg.sql(
        "SELECT count(*) AS n, sum(v) AS v FROM great GROUP BY countwindow(2)",
        streams={"great": great.query},
        settings=by_clock,
    )
    hours = tg.sql(
        "SELECT sum(v) AS v FROM great GROUP BY tumblingwindow('hh', 1)",
        streams={"great": great.query},
        settings=by_clock,
    )
    readers = [
        Reader(query=pairs, folder=tmp_path / "pairs"),
        Reader(query=hours, folder=tmp_path / "hours"),
    ]
    middle = Reader(query=great.query, folder=great.folder, readers=readers)
    running = chain.start(middle)
    assert running.stepper._job.needs_ticks
    for number, rows in enumerate(ROWS):
        running.batch(number, rows)
    running.batch(4, [], clock_us=CLOCK_US + HOUR_US)

    assert readers[0].sink.epochs == {1: [(2, 15)], 3: [(2, 112)]}
    assert readers[1].sink.epochs == {4: [(127,)]}


@pytest.mark.whole
def test_a_query_that_is_added_later_reads_from_then_on(chain: Chain, great: Reader) -> None:
    running = chain.start()
    running.batch(0, ROWS[0])
    running = chain.start(great)
    for number in (1, 2, 3):
        running.batch(number, ROWS[number])

    assert great.sink.epochs[0] == [("a", 12, 2)]


@pytest.mark.whole
def test_checkpoints_of_different_moments_are_refused(
    chain: Chain, great: Reader, tmp_path: Path
) -> None:
    running = chain.start(great)
    running.batch(0, ROWS[0])
    copy = tmp_path / "copy"
    shutil.copytree(chain.folder, copy)
    running.batch(1, ROWS[1])
    chain.start().batch(2, ROWS[2])
    with pytest.raises(StateError, match="the results of the epochs between are missing"):
        chain.start(great).batch(3, ROWS[3])

    shutil.rmtree(chain.folder)
    shutil.copytree(copy, chain.folder)
    with pytest.raises(StateError, match="epoch 1 of small reads other rows than it did before"):
        chain.start(great).batch(1, ROWS[1][:1])

    shutil.rmtree(chain.folder)
    shutil.copytree(copy, chain.folder)
    (note,) = roll_back(great.folder, 0, stopped=True).notes
    assert "to epoch 0 if it reads its results" in note
    chain.start(great).batch(1, ROWS[1])
    assert great.sink.epochs == {1: [("a", 13, 3), ("b", 2, 1)]}

    shutil.rmtree(chain.folder)
    with pytest.raises(StateError, match="the checkpoint of small was deleted or replaced"):
        chain.start(great).batch(0, ROWS[0])


@pytest.mark.whole
def test_an_epoch_in_which_the_upstream_only_forgets_a_shard_is_no_gap(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    query = first(interpreted, SMALL, {"event_time_field": "ts", "shard": "k"})
    chain = Chain(query=query, folder=tmp_path / "small")
    great = Reader(query=tg.sql(GREAT, streams={"small": query}), folder=tmp_path / "great")
    running = chain.start(great)
    running.batch(0, ROWS[0])
    forget_shards(LocalFiles(str(chain.folder / "tidegate")), "small", ["b"], stopped=True)
    running = chain.start(great)
    running.batch(1, [(61, "a", 8)])

    assert [report.epoch for report in chain.reports] == [0, 2]
    assert great.sink.rows() == [("a", 5, 2), ("b", 2, 1)]


def test_a_back_test_computes_the_results_that_are_read_from_tables(
    great: Reader, interpreted: SparkSession
) -> None:
    table = frame_of(interpreted, [row for rows in ROWS for row in rows])
    found = great.query.batch(r=table).collect()
    minutes = [("a", 13, 3), ("a", 64, 1), ("a", 128, 1), ("b", 2, 1), ("b", 48, 1)]
    assert sorted(map(tuple, found)) == minutes
    with pytest.raises(ConfigError, match="small is a table, whose rows do not say when"):
        great.query.batch(small=table)


@pytest.mark.whole
def test_a_query_starts_with_the_one_that_it_reads(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, rows in enumerate(ROWS):
        lines = [
            json.dumps({"ts": f"1970-01-01T00:{s // 60:02}:{s % 60:02}Z", "k": k, "v": v})
            for s, k, v in rows
        ]
        file = folder / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + number,) * 2)
    stream = (
        interpreted.readStream.schema("ts TIMESTAMP, k STRING, v BIGINT")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
    )
    small = tg.sql(SMALL, r=stream, settings={"event_time_field": "ts"})
    great = tg.sql(GREAT, small=small)
    results, minutes = tg.MemorySink(), tg.MemorySink()
    with pytest.raises(ConfigError, match="a query that reads one is started with it"):
        great.start(sink=minutes, checkpoint=tmp_path / "great")
    with pytest.raises(ConfigError, match="small is not the query that is started"):
        tg.sql(SMALL, r=stream, settings={"event_time_field": "ts"}).start(
            checkpoint=tmp_path / "small",
            downstream=[great.attach(sink=minutes, checkpoint=tmp_path / "great")],
        )
    with pytest.raises(ConfigError, match="is that of two queries"):
        small.start(
            sink=results,
            checkpoint=tmp_path / "small",
            downstream=[great.attach(sink=minutes, checkpoint=f"{tmp_path / 'small'}/")],
        )
    assert not (tmp_path / "small").exists()

    run = small.start(
        sink=results,
        checkpoint=tmp_path / "small",
        once=True,
        downstream=[great.attach(sink=minutes, checkpoint=tmp_path / "great")],
    )
    run.await_termination()
    run.drain()
    assert [tuple(row) for row in minutes.rows()][-1] == ("a", 128, 1)
    assert sum(row["v"] for row in minutes.rows()) == sum(row["v"] for row in results.rows()) == 255
    assert results.frame().columns == ["k", "v", "e"]
    assert run.status["downstream"]["great"]["accumulated"] == len(results.rows())
