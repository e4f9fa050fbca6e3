"""Duplicates: rows whose key was first seen at most the horizon ago.

    horizon 60      time   0      40     60     61     100
    rows of a key          first  dup.   dup.   first  dup. (of 61)

The state has, for each key, the time at which it was first seen. A job before ingest brings the
rows of a batch together with the state by key, and writes a segment with the keys that are new and
the places of the rows that are duplicates. Of the state it reads the segments that may have one of
the keys: ``key_ranges.py``. Only a batch with duplicates has these joined to its
rows; any other is taken in as if there were no ``dedup_key``.

Of each key the job looks at the time that the state has, else at that of its first row in the
batch. A row *beyond* the horizon of it is rare, and may be the first of others: the rows beyond are
judged one by one, in a second job that reads only them.

With lateness exact to the record, a key may be forgotten within the batch: ``forgotten.py``.

Keys are kept as they are, no hash of them: two keys are the same if Spark says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    BinaryType,
    DateType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.engine.rows.fates import BatchStart, Fate, fate_case, judge
from tidegate.engine.rows.forgotten import KNOWN, Forgotten, one_by_one
from tidegate.engine.rows.key_ranges import KeyRanges, Range, key_ranges, range_of
from tidegate.engine.rows.rejoin import Marks, rejoined
from tidegate.engine.tasks import files_for
from tidegate.errors import ExecutionError
from tidegate.plan.columns import BEYOND, DEDUP_KEY, DUPLICATE, FATE, KEY_PLACE, SINCE, TIME
from tidegate.plan.time_columns import LEAST_TIME_US
from tidegate.spark.observe import observed
from tidegate.spark.statements import ROW_NUMBER, by_reference, over_all, selected
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

# Keys that hardly repeat: a dictionary of them costs a third of writing them. In version 2 Parquet
# writes the differences of whole numbers, which takes a quarter less time, and a third of the bytes
# if keys rise. For texts it would look for prefixes that they share, which has not been measured.
WRITE_OPTIONS = {"parquet.enable.dictionary": "false"}
NUMBERS = {**WRITE_OPTIONS, "parquet.writer.version": "v2"}
_WHOLE_NUMBERS = (IntegralType, DateType, TimestampType, TimestampNTZType)


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
        horizon_us: a row up to so much after the first of its key is a duplicate.
        schema: the columns of the table ``duplicates``: the key, and ``_t``, the time at which it
            was first seen. The segment of a batch has others beside them, for its own step.
        lateness: judges rows by the watermark at their place; None: by the one before their batch.
        ranges: says which segments may have the keys of a batch; None: nothing does.
    """

    plan: PhysicalPlan
    horizon_us: int
    schema: StructType
    lateness: RecordLateness | None = None
    ranges: KeyRanges | None = None

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
        forgotten = self.lateness and Forgotten(self.lateness, self.horizon_us, arrival, seen())
        watched = forgotten.watched(numbered) if forgotten else numbered

        def first_job(read: Sequence[Segment]) -> tuple[DataFrame | None, _Written]:
            _set_tasks(read, known, io)
            keys = self._known(read, start.bound_us, io) if read else None
            return keys, self._write("keys", self.sorted_keys(watched, keys, start), start, io)

        read = known if self.ranges is None else self.ranges.likely(known)
        keys, first = first_job(read)
        if len(read) < len(known) and self._overlaps_others(first, known, read):
            keys, first = first_job(known)
        self._learn(first, known)
        written = [first]
        if written[0].beyond:
            rows = self._read([written[0].segment], io).where(f"{BEYOND} IS NOT NULL")
            rows = rows.selectExpr(DEDUP_KEY, f"{BEYOND} AS {TIME}", KEY_PLACE)
            more = one_by_one(rows, self.horizon_us)
            written.append(self._write("more-keys", more, start, io))
        if forgotten and forgotten.may_be(written[0].since_us):
            sorted_keys = self._read([each.segment for each in written], io)
            written = [self._write("keys-anew", forgotten.anew(sorted_keys, keys), start, io)]
        segments = tuple(each.segment for each in written)
        if self.ranges is not None:
            for segment in segments:
                self.ranges.add(segment.name, first.keys)
        left = tuple(segment for segment in segments if segment.rows)
        count = sum(each.duplicates for each in written)
        if not count:
            return Sorted(arrival=arrival, segments=left)
        found = self._read(segments, io).where(f"{KEY_PLACE} IS NOT NULL AND {BEYOND} IS NULL")
        judged = replace(start, has_duplicates=True)
        marked = replace(arrival, rows=_marked(numbered, found), start=judged)
        return Sorted(arrival=marked, segments=left, count=count)

    def of_table(self, rows: DataFrame, start: BatchStart) -> tuple[DataFrame, BatchStart]:
        """Return the rows of a table with its duplicates marked, and what they are judged by."""
        numbered = _numbered(rows)
        judged = one_by_one(self._eligible(numbered, start), self.horizon_us)
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
        return MERGED_SPAN * span_us <= self.horizon_us or len(segments) >= MANY_SEGMENTS

    def merged(
        self, segments: Sequence[Segment], epoch: int, bound_us: int | None, io: StateIO
    ) -> Segment | None:
        """Write the keys of segments as one, without those that are forgotten."""
        keys = self._known(segments, bound_us, io).coalesce(files_for(segments))
        bounds = (f"min({TIME})", f"max({TIME})")
        merged = io.write_counted(epoch, "merged-keys", keys, bounds, self._write_options)
        if merged is not None and self.ranges is not None:
            self.ranges.add(merged.name, self.ranges.of_all(segments))
        return merged

    def _overlaps_others(
        self, written: _Written, known: Sequence[Segment], read: Sequence[Segment]
    ) -> bool:
        """Whether a batch may have keys of segments that its job has not read."""
        if written.keys is None or self.ranges is None:
            return bool(written.rows)
        names = {segment.name for segment in read}
        others = [segment for segment in known if segment.name not in names]
        return self.ranges.overlap(others, written.keys)

    def _learn(self, written: _Written, known: Sequence[Segment]) -> None:
        if self.ranges is not None and written.keys is not None:
            self.ranges.learn(known, written.keys)

    @property
    def _write_options(self) -> Mapping[str, str]:
        is_number = isinstance(self.schema[DEDUP_KEY].dataType, _WHOLE_NUMBERS)
        return NUMBERS if is_number else WRITE_OPTIONS

    def _least(self, bound_us: int | None) -> int:
        """The least time at which a key that is not forgotten was first seen.

        It is forgotten once W > time + horizon + lateness, and the bound is W - lateness.
        """
        if bound_us is None:
            return LEAST_TIME_US
        return max(LEAST_TIME_US, bound_us - self.horizon_us)

    def _known(self, segments: Sequence[Segment], bound_us: int | None, io: StateIO) -> DataFrame:
        keys = io.store.read_segments(segments, self.schema)
        least = by_reference(self._least(bound_us), TIME)
        return keys.where(f"{TIME} IS NOT NULL AND {TIME} >= {least}")

    def _read(self, segments: Sequence[Segment], io: StateIO) -> DataFrame:
        """The segments of a batch, with what only its own step needs."""
        more = [StructField(name, LongType()) for name in (KEY_PLACE, BEYOND, SINCE)]
        return io.store.read_segments(segments, StructType([*self.schema, *more]))

    def _eligible(self, numbered: DataFrame, start: BatchStart) -> DataFrame:
        """The key, time and place of each row that is a duplicate if its key is known."""
        fate = fate_case(self.plan, start, late=None)
        good = f"{FATE} = {Fate.ACCUMULATED.value} AND {DEDUP_KEY} IS NOT NULL"
        return (
            judge(numbered, self.plan, start, fate).where(good).select(DEDUP_KEY, TIME, KEY_PLACE)
        )

    def _write(self, what: str, rows: DataFrame, start: BatchStart, io: StateIO) -> _Written:
        """Write sorted rows as a segment, and count them on the way."""
        ranges = self.ranges if self.ranges is not None and self.ranges.are_watched else None
        watched, seen = observed(
            rows,
            {
                "new": f"count({TIME})",
                "first": f"min({TIME})",
                "last": f"max({TIME})",
                "others": f"count({KEY_PLACE})",
                "beyond": f"count({BEYOND})",
                **({"since": f"min({SINCE})"} if SINCE in rows.columns else {}),
                **({} if ranges is None else ranges.observed),
            },
        )
        name, files = io.write(start.epoch, what, watched, self._write_options)
        found = seen()
        segment = Segment(
            name=name,
            first_us=found["first"] or 0,
            last_us=found["last"] or 0,
            rows=found["new"],
            files=files,
        )
        beyond = found["beyond"]
        return _Written(
            segment=segment,
            duplicates=found["others"] - beyond,
            beyond=beyond,
            since_us=found.get("since"),
            rows=found["new"] + found["others"],
            keys=None if ranges is None else range_of(found["least"], found["greatest"]),
        )

    def sorted_keys(
        self, numbered: DataFrame, known: DataFrame | None, start: BatchStart
    ) -> DataFrame:
        """The rows of a batch: ``_t`` of those that are the first of their key, else ``_place``."""
        frames = {"rows": self._eligible(numbered, start)}
        rows = "TABLE {rows}"
        if known is not None:
            frames["known"] = known
            rows += f" UNION ALL SELECT {DEDUP_KEY}, {TIME}, {KNOWN} AS {KEY_PLACE} FROM {{known}}"
        # In a sort, long texts that begin alike take longer than their hashes; those of texts that
        # a collation takes for equal differ.
        is_text = self.schema[DEDUP_KEY].dataType in (StringType(), BinaryType())
        by = f"xxhash64({DEDUP_KEY}), {DEDUP_KEY}" if is_text else DEDUP_KEY
        # A key that was seen anew may be in the state twice; its later time counts.
        order = (
            f"OVER (PARTITION BY {by} ORDER BY {KEY_PLACE}, {TIME} DESC ROWS UNBOUNDED PRECEDING)"
        )
        first = f"first_value({TIME}) {order} AS _seen, first_value({KEY_PLACE}) {order} AS _first"
        seen = f"SELECT *, {first} FROM ({rows})"
        is_first, is_beyond = f"{KEY_PLACE} = _first", f"{TIME} - _seen > {self.horizon_us}L"
        since = ""
        if self.lateness is not None:
            # A row beyond the horizon may be the first of others.
            since = f", IF({is_first}, NULL, IF({is_beyond}, {TIME}, _seen)) AS {SINCE}"
        return over_all(
            frames,
            f"SELECT {DEDUP_KEY}, IF({is_first}, {TIME}, NULL) AS {TIME}, "
            f"IF({is_first}, NULL, {KEY_PLACE}) AS {KEY_PLACE}, "
            f"IF({is_beyond}, {TIME}, NULL) AS {BEYOND}{since} "
            f"FROM ({seen}) WHERE {KEY_PLACE} > {KNOWN}",
        )


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
    duplicates = Duplicates(
        plan=plan,
        horizon_us=settings.dedup_horizon_us,
        schema=StructType([key, StructField(TIME, LongType())]),
        lateness=lateness,
        ranges=key_ranges(key.dataType),
    )
    # Keys without an order are refused here, not by the first batch.
    duplicates.sorted_keys(_numbered(empty), None, BatchStart(epoch=0))
    return duplicates


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A segment of a batch; its rows are the keys that are new.

    ``since_us`` is the least ``_since``, None if there is none. ``rows`` are all rows that have a
    key, ``keys`` is the range of their keys, None if it is unknown.
    """

    segment: Segment
    duplicates: int
    beyond: int
    rows: int
    since_us: int | None = None
    keys: Range | None = None


def _numbered(rows: DataFrame) -> DataFrame:
    return selected(rows, "*", f"{ROW_NUMBER} AS {KEY_PLACE}")


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
