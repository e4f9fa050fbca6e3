"""The search of a batch's keys in place finds what a search with a shuffle finds."""

from __future__ import annotations

from itertools import count
from math import nan
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.sql.types import LongType, StructField, StructType

from tidegate.engine.rows import key_search
from tidegate.engine.rows.duplicates import _told
from tidegate.engine.rows.key_ranges import Attempts, are_apart, key_ranges
from tidegate.engine.rows.key_search import Found, KeySearch
from tidegate.engine.rows.marks import mark_of_row, place_of_mark
from tidegate.engine.state_io import StateIO
from tidegate.engine.tasks import Tasks
from tidegate.plan.columns import DEDUP_KEY, DUPLICATE, KEY_PLACE, KEY_TASK, TIME
from tidegate.spark.calls import Calls
from tidegate.spark.isolation import private_session
from tidegate.spark.statements import ROW_NUMBER, task_of
from tidegate.state.manifest import Segment, StateFile
from tidegate.state.plan_file import PlanFile
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.footers import Footer

HORIZON_US = 1_000


@pytest.fixture
def session(interpreted: SparkSession) -> SparkSession:
    return private_session(interpreted)


@pytest.fixture
def io(session: SparkSession, tmp_path: Path) -> StateIO:
    return io_in(session, tmp_path)


def io_in(session: SparkSession, tmp_path: Path) -> StateIO:
    store = StateStore(session, str(tmp_path), PlanFile(plan_id="p", fingerprint={}))
    store.claim(-1)
    return StateIO(store=store, tasks=Tasks(session, 2), schema=StructType([]), types={})


def rows(
    session: SparkSession, key: str, *, count: int = 60, tasks: int = 3, time: str = "id"
) -> DataFrame:
    """Rows of several tasks, each with a part of the ids."""
    numbered = session.range(0, count, numPartitions=tasks)
    return numbered.selectExpr(
        f"{key} AS {DEDUP_KEY}",
        f"{time} AS {TIME}",
        f"{ROW_NUMBER} AS {KEY_PLACE}",
        f"{task_of(ROW_NUMBER)} AS {KEY_TASK}",
    )


def search_of(rows: DataFrame) -> KeySearch:
    kind = rows.schema[DEDUP_KEY].dataType
    schema = StructType([StructField(DEDUP_KEY, kind), StructField(TIME, LongType())])
    return KeySearch(
        horizon_us=HORIZON_US, schema=schema, tells_since=False, ranges=key_ranges(kind)
    )


def keys_of(found: Found, search: KeySearch, io: StateIO) -> list[tuple[object, int]]:
    """The keys that are new, with their times."""
    read = io.store.read_segments([found.segment], search.schema)
    return sorted((str(row[0]), row[1]) for row in read.collect() if row[1] is not None)


# A search where rows are not sorted, or sorted where they are, or shuffled and sorted.
RISE, STAY, SHUFFLE = "rise", "stay", "shuffle"


def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the way of each search."""
    taken: list[str] = []
    sort, rise = KeySearch.sorted_keys, KeySearch.rising_keys

    def sorted_keys(
        self: KeySearch, rows: DataFrame, known: DataFrame | None, *, stays: bool = False
    ) -> DataFrame:
        taken.append(STAY if stays else SHUFFLE)
        return sort(self, rows, known, stays=stays)

    def rising_keys(self: KeySearch, rows: DataFrame) -> DataFrame:
        taken.append(RISE)
        return rise(self, rows)

    monkeypatch.setattr(KeySearch, "sorted_keys", sorted_keys)
    monkeypatch.setattr(KeySearch, "rising_keys", rising_keys)
    return taken


# Searches of a batch.
SORTED, SHUFFLED, LEFT, ALL = [RISE, STAY], [SHUFFLE], [RISE, SHUFFLE], [RISE, STAY, SHUFFLE]

# The key of a row; how many duplicates there are; the searches.
KEYS = {
    "rising": ("id DIV 2", 30, [RISE]),
    "falling": ("100 - id DIV 2", 30, SORTED),
    "one of a task falls": ("IF(id = 39, 29, id)", 1, SORTED),
    "one of each task is in no order": ("IF(id % 20 = 7, id + 3, id)", 3, SORTED),
    "three rows of a key": ("IF(id IN (5, 6), 4, id)", 2, SORTED),
    "decimals": ("CAST(id DIV 2 AS DECIMAL(9, 2))", 30, SHUFFLED),
    "floats": ("CAST(id DIV 2 / 10 AS FLOAT)", 30, SHUFFLED),
    "doubles": ("id DIV 2 / 10D", 30, [RISE]),
    "texts": ("concat('key ', lpad(id DIV 2, 9, '0'))", 30, [RISE]),
    "texts in no order": ("concat('key ', id DIV 2 % 7)", 53, LEFT),
    "long texts": ("concat(lpad(id DIV 2, 9, '0'), repeat('k', 5000))", 30, LEFT),
    "in two tasks": ("id DIV 3", 40, LEFT),
    "the last of one task is the first of the next": ("id - IF(id = 20, 1, 0)", 1, LEFT),
    "zeros of both signs": ("IF(id = 19, 0D, IF(id = 20, -0D, id - 19.5D))", 1, LEFT),
    "zeros of both signs in a task": ("IF(id = 7, 0D, IF(id = 8, -0D, id - 7.5D))", 1, [RISE]),
    "not a number": ("IF(id = 59, double('NaN'), id - IF(id = 7, 1, 0))", 1, LEFT),
    "a number after none": ("IF(id = 7, double('NaN'), IF(id = 8, 6, id))", 1, LEFT),
    "not a number, twice": ("IF(id > 57, double('NaN'), id)", 1, LEFT),
    "a task without keys": ("IF(id DIV 20 = 1, NULL, id DIV 2)", 20, [RISE]),
    "no keys": ("IF(id < 0, id, NULL)", 0, [RISE]),
    "a collation": ("concat(IF(id % 2 = 0, 'k', 'K'), id DIV 2) COLLATE UTF8_LCASE", 30, SHUFFLED),
    "structs": ("struct(id DIV 2 AS a)", 30, SHUFFLED),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_search_in_place_finds_what_one_with_a_shuffle_finds(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    key, duplicates, expected = KEYS[name]
    batch = rows(session, key).where(f"{DEDUP_KEY} IS NOT NULL")
    search = search_of(batch)
    taken = ways(monkeypatch)
    found = search.run(batch, None, 0, io)
    assert taken == expected
    monkeypatch.setattr(key_search, "in_place", lambda frame: None)
    other = search.run(batch, None, 1, io)
    assert taken[-1] == SHUFFLE
    keys = keys_of(found, search, io)
    assert keys == keys_of(other, search, io)
    count = duplicates + len(keys)
    assert (found.duplicates, found.beyond, found.rows) == (duplicates, 0, count)
    assert (other.duplicates, other.beyond, other.rows) == (duplicates, 0, count)
    assert found.keys == other.keys
    assert found.marks is not None
    assert other.marks is not None
    assert sorted(found.marks) == sorted(other.marks)
    bounds = [
        (each.segment.first_us, each.segment.last_us, each.segment.rows) for each in (found, other)
    ]
    assert bounds[0] == bounds[1]


# Equal texts that differ.
OF_ANY_CASE = "concat(IF(id % 2 = 0, 'k', 'K'), lpad(id DIV 3, 2, '0')) COLLATE UTF8_LCASE"

# The time, the key, how many rows in how many tasks; how many are beyond the horizon; the searches.
# Marks of this task have 20 characters.
RARE = {
    "a row beyond the horizon": ("IF(id = 1, 5000, 0)", "id DIV 2", 60, 3, 1, LEFT),
    "a third row beyond the horizon": ("id % 3 * 600", "id DIV 3", 60, 1, 20, ALL),
    "many duplicates of a task": ("id % 5", "id DIV 1002", 1_002, 1, 0, ALL),
    "many pairs of a task": ("id % 5", "id DIV 2", 2_004, 1, 0, LEFT),
    "many duplicates in all": ("id % 5", "id DIV 901", 2_703, 3, 0, LEFT),
    "a number after none": ("0", "IF(id = 7, double('NaN'), IF(id = 8, 6, id))", 60, 1, 0, SORTED),
    "a collation in one task": ("id % 3 * 600", OF_ANY_CASE, 60, 1, 20, [STAY, SHUFFLE]),
}


@pytest.mark.parametrize("name", RARE)
def test_what_is_rare_is_left_to_a_shuffle(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    time, key, count, tasks, beyond, expected = RARE[name]
    batch = rows(session, key, count=count, time=time, tasks=tasks)
    taken = ways(monkeypatch)
    found = search_of(batch).run(batch, None, 0, io)
    assert taken == expected
    assert found.duplicates + found.beyond + found.segment.rows == count
    assert found.beyond == beyond
    # The marks of a few are known, of many they are not.
    assert (found.marks is None) is (count > 60)


def test_a_thousand_duplicates_of_a_task_are_marked(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rows(session, "id DIV 1001", count=1_001, tasks=1, time="0")
    taken = ways(monkeypatch)
    found = search_of(batch).run(batch, None, 0, io)
    assert taken == SORTED
    assert found.marks is not None
    assert sorted(map(place_of_mark, found.marks)) == list(range(1, 1_001))


def test_compiled_code_counts_the_duplicates_of_a_task_and_not_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = private_session(spark)
    batch = rows(session, "IF(id % 4 = 3, id - 1, id)", count=6_000, tasks=2, time="id % 5")
    taken = ways(monkeypatch)
    found = search_of(batch).run(batch, None, 0, io_in(session, tmp_path))
    assert taken == [RISE]
    assert found.duplicates == 1_500
    assert found.marks is not None
    places = {task << 33 | place for task in (0, 1) for place in range(3, 3_000, 4)}
    assert {place_of_mark(mark) for mark in found.marks} == places


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_key_that_falls_after_a_thousand_duplicates_is_seen(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_compiled: bool,
) -> None:
    session = private_session(request.getfixturevalue("spark" if is_compiled else "interpreted"))
    key = "IF(id < 2000, id DIV 2, IF(id < 3000, 9000 - id, 1000))"
    batch = rows(session, key, count=3_001, tasks=1, time="0")
    taken = ways(monkeypatch)
    found = search_of(batch).run(batch, None, 0, io_in(session, tmp_path))
    assert taken == SORTED
    assert (found.duplicates, found.segment.rows) == (1_000, 2_001)


def test_batches_whose_keys_do_not_rise_are_sorted_at_once_for_a_while(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    rising, falling = rows(session, "id DIV 2"), rows(session, "100 - id DIV 2")
    search = search_of(rising)
    taken = ways(monkeypatch)
    for epoch, batch in enumerate([rising, falling, rising, falling]):
        search.run(batch, None, epoch, io)
    assert taken == [RISE, RISE, STAY, STAY, STAY]


def test_a_search_in_place_is_tried_again_after_a_while(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rows(session, "id DIV 4", count=6, tasks=2)
    search = search_of(batch)
    taken = ways(monkeypatch)
    search.run(batch, None, 0, io)
    search.run(batch, None, 1, io)
    assert taken == [*LEFT, *SHUFFLED]


def test_the_pause_after_an_attempt_grows_while_attempts_fail() -> None:
    attempts = Attempts()

    def pause() -> int:
        return next(batch for batch in count() if attempts.take_turn())

    assert pause() == 0
    for expected in (8, 32, 128, 512, 512):
        attempts.note(succeeded=False)
        assert pause() == expected - 1
    attempts.note(succeeded=True)
    assert pause() == 0
    attempts.note(succeeded=False)
    assert pause() == 7
    attempts.put_off()
    assert pause() == 7


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [(1, SHUFFLED), (3, SHUFFLED), (4, [RISE]), (8, [RISE]), (9, SHUFFLED)],
)
def test_rows_stay_in_few_tasks_unless_a_shuffle_had_many_more(
    session: SparkSession,
    io: StateIO,
    monkeypatch: pytest.MonkeyPatch,
    tasks: int,
    expected: list[str],
) -> None:
    batch = rows(session, "id", count=18, tasks=tasks)
    taken = ways(monkeypatch)
    io.tasks.most = 8
    io.tasks.set()
    search = search_of(batch)
    search.run(batch, None, 0, io)
    assert taken == expected
    # What was not tried has not failed.
    assert search.attempts == (Attempts(_left=8) if expected == SHUFFLED else Attempts())


def test_one_task_has_all_rows_of_a_key(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rows(session, "struct(60 - id % 7 AS a)", tasks=1)
    taken = ways(monkeypatch)
    found = search_of(batch).run(batch, None, 0, io)
    assert taken == [STAY]
    assert (found.duplicates, found.segment.rows) == (53, 7)
    assert found.marks is not None
    assert sorted(map(place_of_mark, found.marks)) == list(range(7, 60))


def test_keys_of_tasks_are_apart_if_no_two_ranges_meet() -> None:
    assert are_apart([])
    assert are_apart([(1, 9)])
    assert are_apart([(20, 30), (1, 9), (10, 19)])
    assert not are_apart([(20, 30), (1, 20)])
    assert not are_apart([(1, 30), (2, 3), (40, 50)])
    assert not are_apart([(1.0, nan), (2.0, 3.0)])
    assert not are_apart([(nan, nan), (2.0, 3.0)])


def test_places_of_very_many_tasks_have_no_marks(session: SparkSession, io: StateIO) -> None:
    far = f"{KEY_PLACE} + {1 << 43}L AS {KEY_PLACE}"
    batch = rows(session, "id DIV 2").selectExpr(DEDUP_KEY, TIME, far, KEY_TASK)
    found = search_of(batch).run(batch, None, 0, io)
    assert (found.duplicates, found.marks) == (30, None)


@pytest.mark.parametrize("key", ["id DIV 2", "100 - id DIV 2"])
def test_footers_that_cannot_be_read_are_done_without(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    def fail(*arguments: object) -> None:
        raise Py4JError("no such method")

    monkeypatch.setattr("tidegate.engine.state_io.footers_of", fail)
    batch = rows(session, key)
    taken = ways(monkeypatch)
    assert search_of(batch).run(batch, None, 0, io).duplicates == 30
    assert taken == LEFT


@pytest.mark.parametrize(("never", "expected"), [(False, [STAY]), (True, SHUFFLED)])
def test_a_spark_that_does_not_take_rows_for_sorted_or_in_place_is_done_without(
    session: SparkSession,
    io: StateIO,
    monkeypatch: pytest.MonkeyPatch,
    *,
    never: bool,
    expected: list[str],
) -> None:
    def fail(self: Calls, columns: object, rows: object, order: Sequence[str] = ()) -> object:
        if order or never:
            raise TypeError("'JavaPackage' object is not callable")
        return made(self, columns, rows)

    made = Calls.in_place
    monkeypatch.setattr(Calls, "in_place", fail)
    batch = rows(session, "id DIV 2")
    taken = ways(monkeypatch)
    assert search_of(batch).run(batch, None, 0, io).duplicates == 30
    assert taken == expected


def test_a_footer_that_counts_other_rows_is_not_believed(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_file(
        self: StateIO, name: str, files: Sequence[StateFile], columns: Sequence[str]
    ) -> list[Footer]:
        return footers(self, name, files[:1], columns)

    footers = StateIO.footers
    monkeypatch.setattr(StateIO, "footers", one_file)
    batch = rows(session, "id DIV 2")
    taken = ways(monkeypatch)
    assert search_of(batch).run(batch, None, 0, io).duplicates == 30
    assert taken == LEFT


def test_keys_that_do_not_rise_are_compared_with_the_whole_state_in_the_next_batch(
    session: SparkSession, io: StateIO
) -> None:
    batch = rows(session, "id % 7")
    search = search_of(batch)
    assert search.ranges is not None
    search.ranges.add("before", (0, 6))
    segment = Segment(name="before", first_us=0, last_us=0, rows=1)
    assert search.ranges.likely([segment]) == ()
    search.run(batch, None, 0, io)
    assert search.ranges.likely([segment]) == (segment,)


def test_a_mark_holds_for_its_row_alone(session: SparkSession) -> None:
    batch = rows(session, "id DIV 2", tasks=2).drop(KEY_TASK)
    marks = [row[0] for row in batch.selectExpr(mark_of_row()).collect()]
    told = _told(batch, [marks[at] for at in (3, 4, 31, 59)])
    assert told.columns == [DEDUP_KEY, TIME, DUPLICATE]
    assert [row[TIME] for row in told.where(DUPLICATE).collect()] == [3, 4, 31, 59]
    # If the rows of a batch come in another order, those at the places have other keys.
    others = rows(session, "60 - id", tasks=2).drop(KEY_TASK)
    assert _told(others, marks[:5]).where(DUPLICATE).count() == 0


def test_ranges_of_segments_are_looked_up_once_in_their_files(
    session: SparkSession, io: StateIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rows(session, "concat('k', lpad(id DIV 2, 2, '0'))")
    first = search_of(batch)
    rising = first.run(batch, None, 0, io)
    mixed = first.run(rows(session, "concat('l', id % 5)"), None, 1, io)
    long = first.run(rows(session, "concat('m', repeat(id, 5000))"), None, 2, io)
    asked: list[str] = []
    footers = StateIO.footers

    def spied(
        self: StateIO, name: str, files: Sequence[StateFile], columns: Sequence[str]
    ) -> list[Footer]:
        asked.append(name)
        return footers(self, name, files, columns)

    monkeypatch.setattr(StateIO, "footers", spied)
    known = [rising.segment, mixed.segment, long.segment]
    later = search_of(batch)
    assert later.ranges is not None
    for _ in range(2):
        later.look_up_ranges(known, io)
        assert asked == [each.name for each in known]
    assert later.ranges.of_all(known[:2]) == (b"k00", b"l4")
    assert later.ranges.of_all(known[2:]) is None
    assert later.ranges.likely(known) == (long.segment,)


def test_ranges_that_cannot_be_looked_up_stay_unknown(session: SparkSession, io: StateIO) -> None:
    for key in ("id", "CAST(id AS DECIMAL(9, 2))", "struct(id AS a)"):
        search = search_of(rows(session, key))
        missing = Segment(
            name="missing",
            first_us=0,
            last_us=0,
            rows=1,
            files=(StateFile(name="part-0.parquet", bytes=1),),
        )
        search.look_up_ranges([missing], io)
        assert search.ranges is None or search.ranges.likely([missing]) == (missing,)
