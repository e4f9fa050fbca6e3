"""A batch reads the keys of the state only where its own may be among them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from math import nan
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

import tidegate
from side_by_side import dealt
from tidegate.cases.stepper import CaseStepper
from tidegate.engine.rows import key_search
from tidegate.engine.rows.duplicates import Duplicates
from tidegate.engine.rows.key_ranges import key_ranges, range_of
from tidegate.spark.in_place import in_place
from tidegate.state.manifest import Segment
from tidegate.state.reader import StateReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.state_io import StateIO

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
CLOCK_US = 4_000_000_000_000_000


def segments(*names: str) -> tuple[Segment, ...]:
    """Segments of one key each, the oldest first."""
    return tuple(Segment(name=each, first_us=n, last_us=n, rows=1) for n, each in enumerate(names))


def test_as_many_of_the_newest_segments_are_read_as_the_batch_before_overlapped() -> None:
    ranges = key_ranges(LongType())
    assert ranges is not None
    abc = segments("a", "b", "c")
    assert ranges.likely(abc) == abc
    for name, keys in (("a", (1, 10)), ("b", (8, 20)), ("c", (21, 30))):
        ranges.add(name, keys)
    ranges.learn(abc, (31, 40))
    assert ranges.likely(abc) == ()
    ranges.learn(abc, (20, 40))
    assert ranges.likely(abc) == abc[1:]
    assert ranges.overlap(abc[:1], (10, 40))
    assert not ranges.overlap(abc[:1], (11, 40))
    # Of this one nothing is known, as after a restart.
    old = segments("old", "a", "b", "c")
    assert ranges.likely(old) == (old[0], *old[2:])
    assert ranges.overlap(old[:1], (31, 40))
    ranges.learn(old, (31, 40))
    assert ranges.likely(old) == old[:1]
    assert ranges.of_all(abc) == (1, 30)
    assert ranges.of_all(old) is None


def test_ranges_of_random_keys_are_no_longer_looked_at() -> None:
    ranges = key_ranges(LongType())
    assert ranges is not None
    ranges.add("a", (1, 10))
    for _ in range(8):
        assert ranges.are_watched
        ranges.learn(segments("a"), (2, 9))
    assert not ranges.are_watched
    assert ranges.likely(segments("a")) == segments("a")


@pytest.mark.parametrize(
    ("kind", "has_order"),
    [
        (IntegerType(), True),
        (DoubleType(), True),
        (StringType(), True),
        (StringType("UTF8_LCASE"), False),
        (TimestampType(), False),
        (ArrayType(IntegerType()), False),
    ],
)
def test_keys_have_ranges_if_python_orders_them_as_spark_does(
    kind: DataType, has_order: bool
) -> None:
    assert (key_ranges(kind) is not None) == has_order


def test_nan_is_in_no_range() -> None:
    assert range_of(None, None) is None
    assert range_of(1.0, float("nan")) is None
    assert range_of("a", "b") == ("a", "b")


def test_a_key_outside_of_what_was_read_is_found_all_the_same(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    known = Duplicates._known

    def spied(
        self: Duplicates, segments: Sequence[Segment], bound_us: int | None, io: StateIO
    ) -> DataFrame:
        read.append(len(segments))
        return known(self, segments, bound_us, io)

    monkeypatch.setattr(Duplicates, "_known", spied)
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('mi', 10)",
        streams={"r": "ts TIMESTAMP, id DOUBLE"},
        settings={"event_time_field": "ts", "dedup_key": "id", "dedup_horizon": "1h"},
        spark=interpreted,
    )

    def take(*ids: float) -> tuple[list[int], int]:
        """Return how many segments each read of the state had, and how many duplicates came."""
        read.clear()
        now = START + timedelta(seconds=next(seconds))
        rows = interpreted.createDataFrame(
            [(now, float(each)) for each in ids], "ts TIMESTAMP, id DOUBLE"
        )
        duplicates = stepper.batch(rows, CLOCK_US).report.duplicate
        return read[:], duplicates

    seconds = count()
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    assert take(1, 2, 3) == ([], 0)
    assert take(4, 5, 5) == ([], 1)
    assert take(6, 7) == ([], 0)
    # 2 to 8 overlaps segments that were not read, so the job runs once more.
    assert take(8, 2) == ([3], 1)
    assert take(9) == ([3], 0)
    assert take(10) == ([], 0)
    assert take(11) == ([], 0)
    assert take(12) == ([], 0)
    # The eight are merged, and the range of all is known.
    assert take(0.5) == ([8], 0)
    assert take(nan, nan) == ([2], 1)
    assert take(13) == ([1], 0)
    keys = StateReader(tmp_path).rows(StateReader(tmp_path).manifest().tables.duplicates)
    found = sorted(str(row["_dedup"]) for row in keys if row["_t"] is not None)
    assert found == sorted(str(float(each)) for each in (0.5, *range(1, 14), nan))
    # After a restart the files tell the ranges of all but the segment with NaN.
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    assert take(14) == ([1], 0)
    assert take(15, 5) == ([1, 5], 1)


# The others run with ``make test-all``.
QUICK = ("FLOAT", "STRING")


@pytest.mark.parametrize(
    "kind", dealt(("BIGINT", "DECIMAL(9, 2)", "DOUBLE", "FLOAT", "STRING"), QUICK)
)
def test_the_last_key_of_a_batch_is_known_to_the_next(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('mi', 10)",
        streams={"r": f"ts TIMESTAMP, id {kind}"},
        settings={"event_time_field": "ts", "dedup_key": "id", "dedup_horizon": "1h"},
        spark=interpreted,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    found = []
    as_id = "id" if kind == "BIGINT" else f"CAST(id / 10 AS {kind}) AS id"
    for first, last in ((1, 82), (81, 122), (121, 162)):
        # The second batch is searched with a shuffle, whatever its key.
        search = None if first == 81 else in_place
        monkeypatch.setattr(key_search, "in_place", search or (lambda frame: None))
        rows = interpreted.range(first, last, numPartitions=2)
        rows = rows.selectExpr("TIMESTAMP '2026-01-01 10:00:00Z' AS ts", as_id)
        found.append(stepper.batch(rows, CLOCK_US).report.duplicate)
    assert found == [0, 1, 1]


def test_what_a_search_in_vain_has_written_is_deleted(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('mi', 10)",
        streams={"r": "ts TIMESTAMP, id BIGINT"},
        settings={"event_time_field": "ts", "dedup_key": "id", "dedup_horizon": "1h"},
        spark=interpreted,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    rows = interpreted.range(0, 60, numPartitions=2).selectExpr(
        "TIMESTAMP '2026-01-01 10:00:00Z' AS ts", "id DIV 4 AS id"
    )
    # A key is in both tasks.
    assert stepper.batch(rows.where("id <> 7"), CLOCK_US).report.duplicate == 42
    manifest = StateReader(tmp_path).manifest()
    written = {each.name for each in (tmp_path / "tidegate" / "segments").iterdir()}
    assert written == {each.name for each in manifest.segments}
