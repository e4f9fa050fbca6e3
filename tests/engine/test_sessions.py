"""Sessions: which segments are read, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tidegate.api.query import sql
from tidegate.cases.model import FAR_AHEAD_US
from tidegate.cases.stepper import CaseStepper
from tidegate.engine.job import make_operator
from tidegate.engine.windows.operator import Closing
from tidegate.state.manifest import Segment, Tables
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.engine.windows.sessions.operator import SessionOperator

QUERY = "SELECT k, count(*) AS n FROM clicks GROUP BY sessionwindow('ss', 10), k"
START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SECOND = 1_000_000


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


def query_of(spark: SparkSession):
    return sql(
        QUERY,
        settings={"event_time_field": "ts"},
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
