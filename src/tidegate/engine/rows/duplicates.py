"""Duplicates: rows whose key was first seen at most the horizon ago.

    horizon 60      time   0      40     60     61     100
    rows of a key          first  dup.   dup.   first  dup. (of 61)

The state has, for each key, the time at which it was first seen. A job before ingest, in
``key_search.py``, brings the rows of a batch together with the state by key, and writes a segment
with the keys that are new and the places of the rows that are duplicates. Of the state it reads the
segments that may have one of the keys: ``key_ranges.py``. Only in a batch with duplicates are rows
marked, by a condition if duplicates are few and by a join if they are many; any other is taken in
as if there were no ``dedup_key``.

Of each key the job looks at the time that the state has, else at that of its first row in the
batch. A row *beyond* the horizon of it is rare, and may be the first of others: the rows beyond are
judged one by one, in a second job that reads only them.

With lateness exact to the record, a key may be forgotten within the batch: ``forgotten.py``.

Keys are kept as they are, no hash of them: two keys are the same if Spark says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StructField, StructType

from tidegate.engine.rows.fates import BatchStart, Fate, fate_case, judged_sql
from tidegate.engine.rows.forgotten import Forgotten, one_by_one
from tidegate.engine.rows.key_ranges import KeyRanges, key_ranges
from tidegate.engine.rows.key_search import Found, KeySearch
from tidegate.engine.rows.marks import mark_of_row, place_of_mark
from tidegate.engine.rows.rejoin import Marks, rejoined
from tidegate.engine.tasks import files_for
from tidegate.errors import ExecutionError
from tidegate.plan.columns import (
    BEYOND,
    DEDUP_KEY,
    DUPLICATE,
    FATE,
    KEY_PLACE,
    KEY_TASK,
    SINCE,
    TIME,
)
from tidegate.plan.time_columns import LEAST_TIME_US
from tidegate.spark.statements import (
    ROW_NUMBER,
    by_reference,
    is_one_of,
    may_be_one_of,
    over,
    selected,
    task_of,
)
from tidegate.state.manifest import Segment, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.rows.lateness import RecordLateness, SeenBefore
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested
    from tidegate.plan.physical import PhysicalPlan

# By how many times a batch may have more keys than the one before without being short of tasks.
GROWTH = 2

# A merged segment spans at most this part of the horizon, so that hardly any of it is forgotten
# long before the rest; if segments span more, only many are merged.
MERGED_SPAN = 8
MANY_SEGMENTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """A batch whose duplicates are known.

    Attributes:
        arrival: what ingest takes in.
        segments: the segments of the table ``duplicates`` that the batch has brought.
        count: how many duplicates there are.
    """

    arrival: Arrival
    segments: tuple[Segment, ...] = ()
    count: int = 0

    def taken_in(self, ingested: Ingested) -> Tables:
        """Return the state with what ingest wrote, if it has met the duplicates that were found.

        Raises:
            ExecutionError: the rows came in another order when they were read again.
        """
        found = ingested.counts.duplicate
        if found != self.count:
            raise ExecutionError(
                f"dedup_key found {self.count:,} duplicates in epoch {self.arrival.start.epoch}, "
                f"but {found:,} when the rows were read again\n\nThe source must give the rows of "
                "a batch in the same order each time. Remove what shuffles them before this query."
            )
        tables = self.arrival.tables
        return replace(
            tables,
            windows=(*tables.windows, *ingested.segments),
            duplicates=(*tables.duplicates, *self.segments),
            quotas=(*tables.quotas, *ingested.quotas),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """Finds the duplicates of a batch.

    Attributes:
        plan: a plan with ``dedup_key``.
        search: searches the keys of a batch.
        lateness: judges rows by the watermark at their place; None: by the one before their batch.
    """

    plan: PhysicalPlan
    search: KeySearch
    lateness: RecordLateness | None = None

    @property
    def _horizon_us(self) -> int:
        return self.search.horizon_us

    @property
    def _ranges(self) -> KeyRanges | None:
        return self.search.ranges

    def sort(self, arrival: Arrival, seen: Callable[[], SeenBefore], io: StateIO) -> Sorted:
        """Find the duplicates of a batch, and write the keys that are new.

        Args:
            arrival: the batch.
            seen: returns the greatest event times before it.
            io: the state.
        """
        start = arrival.start
        known = self.remembered(arrival.early.duplicates, start.bound_us)
        numbered = _numbered(arrival.rows)
        forgotten = self.lateness and Forgotten(self.lateness, self._horizon_us, arrival, seen())
        rows = self._eligible(forgotten.watched(numbered) if forgotten else numbered, start)
        search, epoch = self.search, start.epoch

        def first_job(read: Sequence[Segment]) -> tuple[DataFrame | None, Found]:
            _set_tasks(read, known, io)
            keys = self._known(read, start.bound_us, io) if read else None
            return keys, search.run(rows, keys, epoch, io)

        search.look_up_ranges(known, io)
        read = known if self._ranges is None else self._ranges.likely(known)
        keys, first = first_job(read)
        if len(read) < len(known) and self._overlaps_others(first, known, read):
            keys, first = first_job(known)
        self._learn(first, known)
        written = [first]
        if written[0].beyond:
            beyond = self._read([written[0].segment], io).where(f"{BEYOND} IS NOT NULL")
            beyond = beyond.selectExpr(DEDUP_KEY, f"{BEYOND} AS {TIME}", KEY_PLACE)
            more = one_by_one(beyond, self._horizon_us)
            written.append(search.write("more-keys", more, epoch, io))
        if forgotten and forgotten.may_be(written[0].since_us):
            sorted_keys = self._read([each.segment for each in written], io)
            written = [search.write("keys-anew", forgotten.anew(sorted_keys, keys), epoch, io)]
        segments = tuple(each.segment for each in written)
        if self._ranges is not None:
            for segment in segments:
                self._ranges.add(segment.name, first.keys)
        left = tuple(segment for segment in segments if segment.rows)
        count = sum(each.duplicates for each in written)
        if not count:
            return Sorted(arrival=arrival, segments=left)
        marks = written[0].marks if len(written) == 1 else None
        if marks is not None:
            told = _told(numbered, marks)
        else:
            found = self._read(segments, io).where(f"{KEY_PLACE} IS NOT NULL AND {BEYOND} IS NULL")
            told = _marked(numbered, found)
        marked = replace(arrival, rows=told, start=replace(start, has_duplicates=True))
        return Sorted(arrival=marked, segments=left, count=count)

    def of_table(self, rows: DataFrame, start: BatchStart) -> tuple[DataFrame, BatchStart]:
        """Return the rows of a table with its duplicates marked, and what they are judged by."""
        numbered = _numbered(rows)
        judged = one_by_one(self._eligible(numbered, start), self._horizon_us)
        found = judged.where(f"{KEY_PLACE} IS NOT NULL")
        marked = _marked(numbered, found)
        return marked, replace(start, has_duplicates=True)

    def remembered(self, segments: Sequence[Segment], bound_us: int | None) -> tuple[Segment, ...]:
        """Return the segments with keys that are not forgotten."""
        least_us = self._least(bound_us)
        return tuple(segment for segment in segments if segment.last_us >= least_us)

    def is_worth_merging(self, segments: Sequence[Segment]) -> bool:
        """Whether segments of one level, of which there are enough, are merged into one."""
        first_us = min(segment.first_us for segment in segments)
        span_us = max(segment.last_us for segment in segments) - first_us
        return MERGED_SPAN * span_us <= self._horizon_us or len(segments) >= MANY_SEGMENTS

    def merged(
        self, segments: Sequence[Segment], epoch: int, bound_us: int | None, io: StateIO
    ) -> Segment | None:
        """Write the keys of segments as one, without those that are forgotten."""
        keys = self._known(segments, bound_us, io).coalesce(files_for(segments))
        bounds = (f"min({TIME})", f"max({TIME})")
        merged = io.write_counted(epoch, "merged-keys", keys, bounds, self.search.write_options)
        if merged is not None and self._ranges is not None:
            self._ranges.add(merged.name, self._ranges.of_all(segments))
        return merged

    def _overlaps_others(
        self, found: Found, known: Sequence[Segment], read: Sequence[Segment]
    ) -> bool:
        """Whether a batch may have keys of segments that its job has not read."""
        if found.keys is None or self._ranges is None:
            return bool(found.rows)
        names = {segment.name for segment in read}
        others = [segment for segment in known if segment.name not in names]
        return self._ranges.overlap(others, found.keys)

    def _learn(self, found: Found, known: Sequence[Segment]) -> None:
        if self._ranges is not None and found.keys is not None:
            self._ranges.learn(known, found.keys)

    def _least(self, bound_us: int | None) -> int:
        """The least time at which a key that is not forgotten was first seen.

        It is forgotten once W > time + horizon + lateness, and the bound is W - lateness.
        """
        if bound_us is None:
            return LEAST_TIME_US
        return max(LEAST_TIME_US, bound_us - self._horizon_us)

    def _known(self, segments: Sequence[Segment], bound_us: int | None, io: StateIO) -> DataFrame:
        keys = io.store.read_segments(segments, self.search.schema)
        least = by_reference(self._least(bound_us), TIME)
        return keys.where(f"{TIME} IS NOT NULL AND {TIME} >= {least}")

    def _read(self, segments: Sequence[Segment], io: StateIO) -> DataFrame:
        """The segments of a batch, with what only its own step needs."""
        more = [StructField(name, LongType()) for name in (KEY_PLACE, BEYOND, SINCE)]
        return io.store.read_segments(segments, StructType([*self.search.schema, *more]))

    def _eligible(self, numbered: DataFrame, start: BatchStart) -> DataFrame:
        """The key, time, place and task of each row that is a duplicate if its key is known."""
        fate = fate_case(self.plan, start, late=None)
        good = f"{FATE} = {Fate.ACCUMULATED.value} AND {DEDUP_KEY} IS NOT NULL"
        judged = judged_sql(numbered.columns, self.plan, start, fate)
        columns = f"{DEDUP_KEY}, {TIME}, {KEY_PLACE}, {task_of(KEY_PLACE)} AS {KEY_TASK}"
        return over(numbered, f"SELECT {columns} FROM ({judged}) WHERE {good}")


def sort_out(arrival: Arrival, seen: Callable[[], SeenBefore], job: Job, io: StateIO) -> Sorted:
    """Return a batch with its duplicates marked; as it is without ``dedup_key``."""
    if job.duplicates is None:
        return Sorted(arrival=arrival)
    return job.duplicates.sort(arrival, seen, io)


def duplicates_of(
    plan: PhysicalPlan, lateness: RecordLateness | None, empty: DataFrame
) -> Duplicates | None:
    """Return what finds the duplicates of a plan; None if it has no ``dedup_key``.

    Args:
        plan: the plan.
        lateness: judges rows by the watermark at their place, None if nothing does.
        empty: a static frame without rows, of the prepared columns.
    """
    settings = plan.settings
    if settings.dedup_key is None:
        return None
    assert settings.dedup_horizon_us is not None, "the settings have been checked"
    key = StructField(DEDUP_KEY, empty.schema[DEDUP_KEY].dataType)
    search = KeySearch(
        horizon_us=settings.dedup_horizon_us,
        schema=StructType([key, StructField(TIME, LongType())]),
        tells_since=lateness is not None,
        ranges=key_ranges(key.dataType),
    )
    duplicates = Duplicates(plan=plan, search=search, lateness=lateness)
    # Keys without an order are refused here, not by the first batch.
    search.sorted_keys(duplicates._eligible(_numbered(empty), BatchStart(epoch=0)), None)
    return duplicates


def _numbered(rows: DataFrame) -> DataFrame:
    return selected(rows, "*", f"{ROW_NUMBER} AS {KEY_PLACE}")


def _told(numbered: DataFrame, marks: Sequence[int]) -> DataFrame:
    """The rows of a batch with ``_dup``, by the marks of few duplicates."""
    may_be = may_be_one_of(KEY_PLACE, [place_of_mark(mark) for mark in marks])
    is_marked = is_one_of(mark_of_row(), marks, never=-1)
    others = ", ".join(name for name in numbered.columns if name != KEY_PLACE)
    return over(
        numbered, f"SELECT {others}, {may_be} AND {is_marked} AS {DUPLICATE} FROM {{frame}}"
    )


def _marked(numbered: DataFrame, found: DataFrame) -> DataFrame:
    """The rows of a batch with ``_dup``, in their order."""
    # Keys can be large: with its place, the hash of a key tells as much of a row.
    frame = found.selectExpr(KEY_PLACE, f"xxhash64({DEDUP_KEY}) AS _key_hash")
    same = f"rows.{KEY_PLACE} = marks.{KEY_PLACE} AND xxhash64(rows.{DEDUP_KEY}) = marks._key_hash"
    others = [f"rows.{name}" for name in numbered.columns if name != KEY_PLACE]
    told = f"marks.{KEY_PLACE} IS NOT NULL AS {DUPLICATE}"
    return rejoined(numbered, Marks(frame=frame, same=same), [*others, told])


def _set_tasks(read: Sequence[Segment], known: Sequence[Segment], io: StateIO) -> None:
    """Set the tasks of a batch's keys: what is read, and as many as the batch before brought."""
    if known:
        io.tasks.set_for([*read, *[known[-1]] * GROWTH])
    else:
        io.tasks.set()
