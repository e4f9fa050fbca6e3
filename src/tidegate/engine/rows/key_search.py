"""The job over the keys of a batch: finds the keys that are new and the rows that are duplicates.

It shuffles the rows by their keys and sorts them, together with the keys of the state that may be
among them. Where keys rise with time, none of the state may be, and each task that reads the batch
may have keys of its own. Then nothing is shuffled:

    task       0        1         2
    keys    1 - 40   41 - 90   91 - 120        all rows of a key are in one task

Whether the keys of tasks are apart is known only after the job, from the files that it has written,
one of each task. If they are not, the job is run again, with a shuffle. One task alone has all rows
of all keys.

Where keys also rise from row to row, rows in place are not sorted: Spark takes them for sorted, and
each is compared with the one before. If one is less, or a key may have three rows, all are searched
again, and sorted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    DateType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.engine.rows.forgotten import KNOWN
from tidegate.engine.rows.key_ranges import (
    Attempts,
    KeyRanges,
    Range,
    range_of,
    range_of_all,
)
from tidegate.engine.rows.marks import (
    FALLS,
    MARKS,
    MOST_OF_TASK,
    PLACE_BITS,
    all_of,
    found_all,
    mark_of_row,
    read_marks,
)
from tidegate.plan.columns import BEYOND, DEDUP_KEY, KEY_PLACE, KEY_TASK, MARK, SINCE, TIME
from tidegate.spark.calls import OTHER_SPARK
from tidegate.spark.footers import stats_of_all
from tidegate.spark.in_place import InPlace, in_place
from tidegate.spark.observe import observed
from tidegate.spark.statements import is_among_first, over, over_all, selected
from tidegate.state.manifest import Segment, StateFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO
    from tidegate.spark.footers import Footer

_LOG = logging.getLogger("tidegate")

# Keys that hardly repeat: a dictionary of them costs a third of writing them. In version 2 Parquet
# writes the differences of whole numbers, which takes a quarter less time, and a third of the bytes
# if keys rise; beside keys of another fixed size, that is true of their times. For texts it would
# look for prefixes that they share, which has not been measured.
WRITE_OPTIONS = {"parquet.enable.dictionary": "false"}
DIFFERENCES = {**WRITE_OPTIONS, "parquet.writer.version": "v2"}
_FIXED_SIZE = (IntegralType, FloatType, DoubleType, DateType, TimestampType, TimestampNTZType)

# Rows stay in place only in up to this many tasks: the driver reads a footer for each.
_MOST_IN_PLACE = 8

# Types whose bounds in Parquet are values of Python that are ordered as in Spark. Those of a FLOAT
# are not the same values, and those of a DECIMAL are whole numbers.
_BOUNDED = (IntegralType, DoubleType, StringType)

# What is observed of keys: bounds and counts.
_COUNTS = {
    "new": f"count({TIME})",
    "first": f"min({TIME})",
    "last": f"max({TIME})",
    "others": f"count({KEY_PLACE})",
    "beyond": f"count({BEYOND})",
}

# The columns that are written, after a shuffle and of rows in place.
_SHUFFLED = (DEDUP_KEY, TIME, KEY_PLACE, BEYOND)
_STAYED = (DEDUP_KEY, TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the job has found and written.

    Attributes:
        segment: what was written; its rows are the keys that are new.
        duplicates: how many rows are duplicates.
        beyond: how many rows are beyond the horizon.
        rows: how many have a key.
        since_us: the least ``_since``, None if there is none.
        keys: the range of the keys, None if it is unknown.
        marks: ``mark_of_row`` of the duplicates, None if it is not known of all of them.
    """

    segment: Segment
    duplicates: int
    beyond: int
    rows: int
    since_us: int | None = None
    keys: Range | None = None
    marks: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What a search in place has written.

    Attributes:
        rows: how many rows were observed.
        marks: those that are listed, None if they are too many.
        footers: of the files that have rows; none if they cannot be read.
        ranges: of the keys of tasks, None if two tasks may have the same key.
    """

    name: str
    files: tuple[StateFile, ...]
    rows: int
    marks: Sequence[int] | None
    footers: Sequence[Footer]
    ranges: Sequence[Range] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySearch:
    """Searches the keys of batches.

    Attributes:
        horizon_us: a row up to so much after the first of its key is a duplicate.
        schema: the columns of the table ``duplicates``.
        tells_since: whether rows tell when their key was first seen.
        ranges: the ranges of the keys of segments; None: nothing is known of any.
        attempts: says in which batches to try a search in place.
        rising: says in which of these to try one without a sort.
    """

    horizon_us: int
    schema: StructType
    tells_since: bool
    ranges: KeyRanges | None
    attempts: Attempts = field(default_factory=Attempts)
    rising: Attempts = field(default_factory=Attempts)

    def run(self, rows: DataFrame, known: DataFrame | None, epoch: int, io: StateIO) -> Found:
        """Search the rows of a batch, and write the keys that are new.

        Args:
            rows: the key, time, place and task of each row that is a duplicate if its key is known.
            known: the keys of the state that may be among them, None if there are none.
            epoch: the step.
            io: the state, with the number of tasks of a shuffle.
        """
        if known is None and self._most_tasks() and self.attempts.take_turn():
            stays = in_place(rows)
            if stays is None or not self._may_stay(stays.tasks, io):
                self.attempts.put_off()
            else:
                found = self._searched_in_place(stays, epoch, io)
                self.attempts.note(succeeded=found is not None)
                if found is not None:
                    return found
        keys = self.sorted_keys(rows, known)
        aggregates = {**_COUNTS, **self._observed_range}
        columns: tuple[str, ...] = _SHUFFLED
        if self.tells_since:
            aggregates["since"] = f"min({SINCE})"
            columns = (*columns, SINCE)
        watched, seen = observed(keys, aggregates, MARKS)
        found = self._written("keys", selected(watched, *columns), seen, epoch, io)
        return replace(found, marks=all_of(found.duplicates, read_marks(seen()["marks"])))

    def look_up_ranges(self, known: Sequence[Segment], io: StateIO) -> None:
        """Learn the ranges of segments that an earlier process has written."""
        if self.ranges is None or not isinstance(self.schema[DEDUP_KEY].dataType, _BOUNDED):
            return
        for segment in self.ranges.unknown(known):
            try:
                footers = io.footers(segment.name, segment.files, (DEDUP_KEY,))
            except OTHER_SPARK as error:
                # If the file is damaged, the job that reads it says so.
                _LOG.debug("the footers of %s cannot be read: %s", segment.name, error)
                continue
            keys = stats_of_all([each.columns[DEDUP_KEY] for each in footers if each.rows])
            self.ranges.add(segment.name, range_of(keys.least, keys.greatest))

    def write(self, what: str, rows: DataFrame, epoch: int, io: StateIO) -> Found:
        """Write rows that have been judged one by one as a segment, and count them on the way."""
        watched, seen = observed(rows, {**_COUNTS, **self._observed_range})
        return self._written(what, watched, seen, epoch, io)

    def _most_tasks(self) -> int:
        """In how many tasks rows may be searched in place."""
        if self.tells_since:
            return 0  # The rows are observed, which does not work in place.
        if self.ranges is None:
            return 1
        return _MOST_IN_PLACE if isinstance(self.schema[DEDUP_KEY].dataType, _BOUNDED) else 0

    def _may_stay(self, tasks: int, io: StateIO) -> bool:
        """Whether rows of so many tasks stay, as they do unless a shuffle had twice as many."""
        return tasks <= self._most_tasks() and io.tasks.count <= 2 * tasks

    def _searched_in_place(self, stays: InPlace, epoch: int, io: StateIO) -> Found | None:
        """Search rows where they are; None if that may not have found all duplicates.

        A key may be in two tasks, rows beyond the horizon, or duplicates too many to list.
        """
        written = self._written_in_order(stays, epoch, io)
        if written is None or written.ranges is None:
            return None
        time = stats_of_all([each.columns[TIME] for each in written.footers])
        rows = sum(each.rows for each in written.footers)
        if time.values is None or (time.values and time.least is None) or rows != written.rows:
            return None
        duplicates = rows - time.values
        if (marks := all_of(duplicates, written.marks)) is None:
            return None
        segment = Segment(
            name=written.name,
            first_us=time.least or 0,
            last_us=time.greatest or 0,
            rows=time.values,
            files=written.files,
        )
        return Found(
            segment=segment,
            duplicates=duplicates,
            beyond=0,
            rows=rows,
            keys=range_of_all(written.ranges),
            marks=marks,
        )

    def _written_in_order(self, stays: InPlace, epoch: int, io: StateIO) -> _Written | None:
        """Search rows without a sort if keys rise, else sorted.

        Texts with a collation, which have no ranges, are sorted: equal ones differ in their hashes.
        """
        is_bounded = isinstance(self.schema[DEDUP_KEY].dataType, _BOUNDED)
        if self.ranges is not None and is_bounded and self.rising.take_turn():
            written = self._written_in_place(stays, epoch, io, rises=True)
            rises = written is not None and found_all(written.marks)
            self.rising.note(succeeded=rises)
            # Without ranges, or with too many marks, a search of sorted rows would be in vain.
            if written is not None and (rises or None in (written.ranges, written.marks)):
                return written
        return self._written_in_place(stays, epoch, io, rises=False)

    def _written_in_place(
        self, stays: InPlace, epoch: int, io: StateIO, *, rises: bool
    ) -> _Written | None:
        rows = stays.frame((KEY_TASK, DEDUP_KEY, KEY_PLACE) if rises else ())
        if rows is None:
            return None
        keys = self.rising_keys(rows) if rises else self.sorted_keys(rows, None, stays=True)
        # What the footers tell is not observed: that would take a fifth of the job's CPU time.
        watched, seen = observed(keys, {"rows": "count(1)"}, MARKS)
        name, files = io.write(epoch, "keys", selected(watched, *_STAYED), self.write_options)
        footers: Sequence[Footer] | None = None
        try:
            footers = [each for each in io.footers(name, files, _STAYED) if each.rows]
        except OTHER_SPARK as error:
            _LOG.debug("the footers of %s cannot be read: %s", name, error)
        return _Written(
            name=name,
            files=files,
            rows=seen()["rows"],
            marks=read_marks(seen()["marks"]),
            footers=footers or (),
            ranges=None if footers is None else self._apart(footers),
        )

    def _apart(self, tasks: Sequence[Footer]) -> Sequence[Range] | None:
        """Return the ranges of the keys of tasks, None if two may have the same key."""
        if self.ranges is None:
            # There is one task, and the bounds of its keys mean nothing.
            return () if len(tasks) <= 1 else None
        return self.ranges.apart([each.columns.get(DEDUP_KEY) for each in tasks])

    def _written(
        self,
        what: str,
        rows: DataFrame,
        seen: Callable[[], dict[str, Any]],
        epoch: int,
        io: StateIO,
    ) -> Found:
        name, files = io.write(epoch, what, rows, self.write_options)
        counted = seen()
        segment = Segment(
            name=name,
            first_us=counted["first"] or 0,
            last_us=counted["last"] or 0,
            rows=counted["new"],
            files=files,
        )
        beyond = counted["beyond"]
        return Found(
            segment=segment,
            duplicates=counted["others"] - beyond,
            beyond=beyond,
            since_us=counted.get("since"),
            rows=counted["new"] + counted["others"],
            keys=range_of(counted.get("least"), counted.get("greatest")),
        )

    @property
    def write_options(self) -> Mapping[str, str]:
        """How Parquet writes the keys."""
        is_fixed = isinstance(self.schema[DEDUP_KEY].dataType, _FIXED_SIZE)
        return DIFFERENCES if is_fixed else WRITE_OPTIONS

    @property
    def _observed_range(self) -> Mapping[str, str]:
        ranges = self.ranges
        return {} if ranges is None or not ranges.are_watched else ranges.observed

    def sorted_keys(
        self, rows: DataFrame, known: DataFrame | None, *, stays: bool = False
    ) -> DataFrame:
        """The rows of a batch: ``_t`` of those that are the first of their key, else ``_place``.

        Of rows in place, if it ``stays``, there is ``_mark`` alone.
        """
        frames = {"rows": rows}
        listed = "TABLE {rows}"
        if known is not None:
            frames["known"] = known
            columns = f"{DEDUP_KEY}, {TIME}"
            listed = (
                f"SELECT {columns}, {KEY_PLACE} FROM {{rows}} "
                f"UNION ALL SELECT {columns}, {KNOWN} AS {KEY_PLACE} FROM {{known}}"
            )
        # In a sort, long texts that begin alike take longer than their hashes; those of texts that
        # a collation takes for equal differ.
        is_text = self.schema[DEDUP_KEY].dataType in (StringType(), BinaryType())
        by = f"xxhash64({DEDUP_KEY}), {DEDUP_KEY}" if is_text and not stays else DEDUP_KEY
        # A key that was seen anew may be in the state twice; its later time counts.
        order = (
            f"OVER (PARTITION BY {by} ORDER BY {KEY_PLACE}, {TIME} DESC ROWS UNBOUNDED PRECEDING)"
        )
        first = f"first_value({TIME}) {order} AS _seen, first_value({KEY_PLACE}) {order} AS _first"
        seen = f"SELECT *, {first} FROM ({listed})"
        is_first, is_beyond = f"{KEY_PLACE} = _first", f"{TIME} - _seen > {self.horizon_us}L"
        has_none = f"{is_first} OR {is_beyond} OR {KEY_PLACE} >= {1 << PLACE_BITS}L"
        few = f"IF({is_among_first(MOST_OF_TASK)}, {mark_of_row()}, NULL)"
        told = [
            DEDUP_KEY,
            f"IF({is_first}, {TIME}, NULL) AS {TIME}",
            f"IF({has_none}, NULL, {few}) AS {MARK}",
        ]
        if not stays:
            told.append(f"IF({is_first}, NULL, {KEY_PLACE}) AS {KEY_PLACE}")
            told.append(f"IF({is_beyond}, {TIME}, NULL) AS {BEYOND}")
        if self.tells_since:
            # A row beyond the horizon may be the first of others.
            told.append(f"IF({is_first}, NULL, IF({is_beyond}, {TIME}, _seen)) AS {SINCE}")
        return over_all(
            frames, f"SELECT {', '.join(told)} FROM ({seen}) WHERE {KEY_PLACE} > {KNOWN}"
        )

    def rising_keys(self, rows: DataFrame) -> DataFrame:
        """The rows of a batch in place, as ``sorted_keys`` returns them if their keys rise.

        A key and its time are compared with those before it in its task, which must have numbered
        the rows. ``found_all`` says whether that was enough: of three rows of a key, the last may
        be beyond the horizon unseen; the first key of a task that falls is marked.
        """
        order = f"OVER (PARTITION BY {KEY_TASK} ORDER BY {DEDUP_KEY}, {KEY_PLACE})"
        before = f"lag({DEDUP_KEY}) {order} AS _before, lag({TIME}) {order} AS _seen"
        is_again = f"coalesce({DEDUP_KEY} = _before, false)"
        is_marked = (
            f"{is_again} AND {TIME} - _seen <= {self.horizon_us}L "
            f"AND {KEY_PLACE} < {1 << PLACE_BITS}L"
        )
        falls = f"IF({is_among_first(1)}, {FALLS}L, NULL)"
        few = f"IF({is_among_first(MOST_OF_TASK)}, {mark_of_row()}, NULL)"
        mark = f"IF({DEDUP_KEY} < _before, {falls}, IF({is_marked}, {few}, NULL))"
        time = f"IF({is_again}, NULL, {TIME})"
        seen = f"SELECT *, {before} FROM {{frame}}"
        return over(rows, f"SELECT {DEDUP_KEY}, {time} AS {TIME}, {mark} AS {MARK} FROM ({seen})")
