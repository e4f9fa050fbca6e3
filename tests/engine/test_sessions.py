"""Sessions: which segments are read, and when."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from sql_metrics import READ, SHUFFLED, SqlMetrics
from tidegate.api.query import Query, sql
from tidegate.cases.model import FAR_AHEAD_US
from tidegate.cases.stepper import CaseStepper, Outcome
from tidegate.engine.aside import Aside
from tidegate.engine.job import make_operator
from tidegate.engine.windows.operator import Closing
from tidegate.engine.windows.sessions.ahead import Ahead, Outlook
from tidegate.engine.windows.sessions.due import DueSpans, Foresight
from tidegate.engine.windows.sessions.ranges import of_same_keys
from tidegate.engine.windows.sessions.settling import Settled
from tidegate.state.manifest import Segment, Tables
from tidegate.state.reader import StateReader
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.engine.windows.sessions.operator import SessionOperator

QUERY = "SELECT k, count(*) AS n FROM clicks GROUP BY sessionwindow('ss', {gap}), k"
START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SECOND = 1_000_000
# Rows of a page of a Parquet file.
PAGE = 20_000


class Unreadable:
    """State that must not be asked for segments."""

    def read(self, segments: Iterable[Segment]) -> DataFrame:
        raise AssertionError(f"{[s.name for s in segments]} were read")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the segments of each read, as they happen."""
    happened: list[list[str]] = []
    read = StateStore.read_segments

    def watched(self: StateStore, segments: Iterable[Segment], schema: StructType) -> DataFrame:
        listed = list(segments)
        happened.append([plain(segment.name) for segment in listed])
        return read(self, listed, schema)

    monkeypatch.setattr(StateStore, "read_segments", watched)
    return happened


def plain(name: str) -> str:
    """The name of a segment without its writer."""
    epoch, _, what = name.split("-")
    return f"{epoch}-{what}"


@pytest.fixture
def operator(spark: SparkSession) -> SessionOperator:
    query = query_of(spark)
    return make_operator(query.physical, query._prepare(query.given.empty(query.spark)))


def query_of(spark: SparkSession, gap: int = 10, **settings: str) -> Query:
    return sql(
        QUERY.format(gap=gap),
        settings={"event_time_field": "ts", **settings},
        streams={"clicks": "ts TIMESTAMP, k STRING"},
        spark=spark,
    )


def segment(name: str, first: int, last: int) -> Segment:
    return Segment(name=name, first_us=first * SECOND, last_us=last * SECOND, rows=1)


def closing(before: int, now: int, *segments: Segment) -> Closing:
    return Closing(
        epoch=1,
        before_us=before * SECOND,
        bound_us=now * SECOND,
        tables=Tables(windows=segments),
    )


def test_nothing_is_read_if_the_bounds_show_that_no_session_is_due(
    operator: SessionOperator,
) -> None:
    ahead = segment("ahead", 20, 40)
    closed = operator.close(closing(5, 30, ahead), Unreadable())
    assert closed.groups is None
    assert closed.tables.windows == (ahead,)


def test_a_segment_whose_last_row_is_a_gap_behind_the_bound_is_dropped_unread(
    operator: SessionOperator,
) -> None:
    over, on_the_edge = segment("over", 1, 19), segment("edge", 20, 20)
    closed = operator.close(closing(30, 30, over, on_the_edge), Unreadable())
    assert closed.tables.windows == (on_the_edge,)


def test_a_drain_ends_just_after_the_gap_of_the_last_row(operator: SessionOperator) -> None:
    tables = Tables(windows=(segment("a", 1, 9), segment("b", 2, 7)))
    assert operator.end_of_all(tables) == 19 * SECOND + 1
    assert operator.end_of_all(Tables()) is None


def test_open_sessions_are_read_for_suspects_only_and_for_a_close_only_when_one_is_due(
    spark: SparkSession, tmp_path: Path, reads: list[list[str]]
) -> None:
    stepper = CaseStepper(query_of(spark), checkpoint=str(tmp_path), partitions=2)

    def batch(*rows: tuple[int, str]) -> list[list[str]]:
        """Run a batch; return the segments that were read for it."""
        reads.clear()
        times = [(START + timedelta(seconds=second), key) for second, key in rows]
        frame = spark.createDataFrame(times, "ts TIMESTAMP, k STRING")
        stepper.batch(frame, FAR_AHEAD_US)
        return list(reads)

    assert batch((0, "a"), (1, "b")) == []
    assert batch((8, "a"), (10, "c")) == []
    # The rows of 0 and 1 are due by themselves; whatever is not due may touch them.
    assert batch((12, "c")) == [["0-batch"], ["1-batch", "2-batch"], ["2-sessions"]]
    # Session a has gone on to 8, so nothing is due before 18.
    assert batch((14, "c")) == []
    # The row of 3 is late unless it joins a session.
    assert batch((3, "a"), (15, "d")) == [
        ["4-batch"],
        ["4-batch", "1-batch", "2-batch", "2-sessions", "3-batch"],
    ]


def test_a_close_beside_many_open_sessions_reads_pages_and_shuffles_no_other_keys(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = CaseStepper(query_of(spark, gap=1_000), checkpoint=str(tmp_path), partitions=2)

    def batch(rows: str) -> Outcome:
        return stepper.batch(spark.sql(rows), FAR_AHEAD_US)

    # 80,000 sessions that end one after another, in no order; and small batches until they are
    # merged, so that they are sorted.
    at = f"timestamp_millis({int(START.timestamp())}000L + "
    batch(
        f"SELECT {at} 10L * id) AS ts, CAST(id AS STRING) AS k FROM range(80000) ORDER BY hash(id)"
    )
    number, reader = 1, StateReader(tmp_path)
    while not any("merged" in each.name for each in reader.manifest().segments):
        batch(f"SELECT {at} 900000L + {number}) AS ts, 'other' AS k")
        number += 1
    # Two of those that are due have gone on.
    batch(f"SELECT {at} 950000L) AS ts, k FROM VALUES ('3'), ('7') AS more(k)")

    with SqlMetrics(spark) as seen:
        closed = batch(f"SELECT {at} 1000100L) AS ts, 'another' AS k")
    assert len(closed.rows) == 8  # of the keys 0 to 9, whose last rows were before 0.1 s
    # Two pages at most of what is due, three times, and once of what ends soon; the keys and times
    # of all that it may touch.
    assert max(seen.of(READ)) <= 80_000 + 10
    assert sum(seen.of(READ)) <= 80_000 + 10 + 4 * 2 * PAGE + 10
    assert max(seen.of(SHUFFLED)) <= 20
    # Beside the next close all keys and times are looked through for 64 closes, each of 0.1 s.
    with SqlMetrics(spark) as seen:
        closed = batch(f"SELECT {at} 1000200L) AS ts, 'one more' AS k")
        stepper._stepper._checkpoint.io.asides.wait()
    assert len(closed.rows) == 10
    assert max(seen.of(READ)) <= 80_000 + 20
    assert max(seen.of(SHUFFLED)) <= 65 * 10
    with SqlMetrics(spark) as seen:
        closed = batch(f"SELECT {at} 1000300L) AS ts, 'the last' AS k")
    assert len(closed.rows) == 10
    # Two pages at most of what is due and ends soon; what may go on; what was written since; and
    # the results.
    assert sum(seen.of(READ)) <= 2 * PAGE + 2 + 4 + 10
    assert seen.of(SHUFFLED) == [1], "the row of the batch"
    # Nothing else goes on that ends soon, and of that no file is left.
    named = {each.name for epoch in reader.epochs() for each in reader.manifest(epoch).segments}
    assert {each.name for each in (tmp_path / "tidegate" / "segments").iterdir()} <= named


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_session_goes_on_with_a_span_that_was_found_ahead(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    monkeypatch.setattr("tidegate.engine.tasks.FEW_ROWS", 3)
    monkeypatch.setattr("tidegate.engine.windows.sessions.ahead.CLOSES_AHEAD", (2,))
    monkeypatch.setattr("tidegate.engine.windows.sessions.ahead.FIRST_CLOSES", 0)
    stepper = CaseStepper(query_of(spark), checkpoint=str(tmp_path), partitions=2)

    def batch(*rows: tuple[float, str]) -> list[tuple[object, ...]]:
        times = [(START + timedelta(seconds=second), key) for second, key in rows]
        frame = spark.createDataFrame(times, "ts TIMESTAMP, k STRING")
        return sorted(tuple(row) for row in stepper.batch(frame, FAR_AHEAD_US).rows)

    # Beside the first close all is looked through for spans that end from 4.4 to 13.2 s.
    open_ = [(14, "b"), (14.2, "c"), (14.4, "d")]
    assert batch((0, "a"), (5, "k"), (12, "k"), *open_) == [("a", 1)]
    stepper._stepper._checkpoint.io.asides.wait()
    (found,) = (tmp_path / "tidegate" / "segments").glob("*-ahead-*")
    if is_lost:  # It is no part of the state, so a copy of the checkpoint may lack it.
        shutil.rmtree(found)
    # The span of 5 s is due, and goes on with that of 12 s, which is found.
    with monkeypatch.context() as patch:
        patch.setattr(Outlook, "_look", lambda *_: None)
        assert batch((16, "e")) == []
        assert batch((22.5, "f")) == [("k", 2)]


def test_the_next_close_knows_how_many_are_due_within_what_was_seen() -> None:
    seen, new = segment("seen", 0, 90), segment("new", 0, 90)
    foresight = Foresight()
    assert foresight.most([seen, new], 10, 20) == 2  # their rows
    foresight.note([seen], 10, 20, rows=7)
    assert foresight.most([seen], 10, 20) == foresight.most([seen], 12, 18) == 7
    assert foresight.most([seen, new], 10, 20) == 8
    # A batch that is run again asks for what was due before, and a longer one for what was unseen.
    assert foresight.most([seen], 9, 20) == foresight.most([seen], 10, 21) == 1


def test_what_a_close_has_found_serves_others_that_ask_for_no_more() -> None:
    old, new, written = segment("old", 0, 90), segment("new", 50, 95), segment("written", 5, 95)
    many = replace(old, rows=1_000_000)
    ahead = Ahead(writer="w", names=frozenset({"old"}), from_us=0, until_us=20 * SECOND)

    def asked(until: int, *due: Segment, since: int = 0) -> DueSpans:
        return DueSpans(
            spans=Uncounted(), segments=due, due_us=until * SECOND, from_us=since * SECOND
        )

    assert ahead.serves(asked(20, many), [many, new])
    assert not ahead.serves(asked(21, many), [many, new]), "it looked at what ends before 20 s"
    assert not ahead.serves(asked(20, many, since=-1), [many, new]), "it looked from 0 s on"
    assert not ahead.serves(asked(20, many, written), [many, written]), "keys not looked for"
    ahead.since.add("written")
    assert ahead.serves(asked(20, many, written), [many, written]), "keys that were looked for"
    assert ahead.serves(asked(20, many), [many, replace(new, rows=125_000)])
    large = replace(new, rows=125_001)
    assert not ahead.serves(asked(20, many), [many, large]), "to read these costs too much"
    assert not ahead.serves(asked(20), [new]), "it knows of no segment that is left"
    assert not ahead.is_half_used(asked(10, many), [many, new])
    assert ahead.is_half_used(asked(11, many), [many, new])
    assert ahead.is_half_used(asked(1, many), [many, replace(new, rows=80_000)])


def test_segments_of_closes_are_known_if_all_that_was_due_is() -> None:
    outlook, known, new = Outlook(), segment("old", 0, 90), segment("new", 5, 95)
    coming = Ahead(writer="w", names=frozenset({"old"}), from_us=0)
    ahead = outlook._ahead = Ahead(writer="w", names=frozenset({"old"}), from_us=0)
    work: Aside[None] = object.__new__(Aside)
    outlook._coming = coming, work
    due = DueSpans(spans=Uncounted(), segments=[known, new], due_us=9 * SECOND)
    outlook.note(due, segment("first", 9, 9))
    assert ahead.since == set()
    outlook.note(replace(due, segments=[known]), segment("second", 9, 9))
    outlook.note(replace(due, segments=[known, segment("second", 9, 9)]), segment("third", 9, 9))
    assert ahead.since == coming.since == {"second", "third"}


@pytest.mark.parametrize(("collation", "found"), [("UTF8_BINARY", 1), ("UTF8_LCASE", 2)])
def test_spans_of_due_keys_are_those_that_spark_takes_for_equal(
    spark: SparkSession, collation: str, found: int
) -> None:
    def spans(*keys: str) -> DataFrame:
        rows = ", ".join(f"({key})" for key in keys)
        return spark.sql(f"SELECT k COLLATE {collation} AS k FROM VALUES {rows} AS v(k)")

    near = of_same_keys(spans("'a'", "'b'", "NULL"), spans("'A'", "NULL"), ["k"])
    assert near.count() == found


def test_only_bounds_of_segments_with_due_spans_are_moved() -> None:
    settled = Settled(
        due_us=10 * SECOND,
        segment=segment("w", 9, 9),
        spans=1,
        ended=1,
        ended_rows=1,
        next_us=30 * SECOND,
    )
    due, later = segment("due", 5, 40), segment("later", 20, 40)
    assert settled.tightened([due, later]) == (segment("due", 30, 40), later)


def test_what_is_due_is_not_counted_if_bounds_tell_that_it_is_much() -> None:
    def due(rows: int, until: int) -> DueSpans:
        many = replace(segment("many", 0, 99), rows=rows)
        return DueSpans(spans=Uncounted(), segments=[many], due_us=until * SECOND)

    assert not due(10_000_000, 50).are_few(Foresight())
    with pytest.raises(AssertionError, match="counted"):
        due(10_000_000, 1).are_few(Foresight())
    assert due(1_000, 50).are_few(Foresight())


class Uncounted:
    """Spans that must not be counted."""

    def select(self, *_: str) -> DataFrame:
        raise AssertionError("the spans were counted")


def test_a_session_closes_though_a_longer_one_began_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = query_of(spark, watermark_lag="20s")
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)

    def batch(*rows: tuple[float, str]) -> list[tuple[object, ...]]:
        times = [(START + timedelta(seconds=second), key) for second, key in rows]
        frame = spark.createDataFrame(times, "ts TIMESTAMP, k STRING")
        return sorted(tuple(row) for row in stepper.batch(frame, FAR_AHEAD_US).rows)

    long = [(second, "long") for second in (5, 14, 19)]
    assert batch((1, "over"), *long, (18, "short"), (37, "tick")) == [("over", 1)]
    # Only the long session may go on where one was due, but the short one ends before it.
    assert batch((48.6, "tock")) == [("short", 1)]
