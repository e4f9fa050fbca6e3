"""The ranges of keys in segments, so that a batch reads only segments that may have its keys.

Many keys rise with time: numbers, ids that begin with a time. Then few of the state's segments, or
none, have keys between the least and the greatest of a batch:

    segment of epoch  7       8       9          the batch: 31 to 40
    keys          1 - 10   11 - 20   21 - 30     no segment is read

The range of a batch is known only after its job. So the job reads as many of the newest segments as
the batch before overlapped, at first none, and it is run again, with all of them, if it turns out
that another one overlaps. Where all segments overlap, as with random keys, all are read at once.
So after a start, one batch with such keys may be searched twice.

Ranges are in memory only. After a restart those of older segments come from the footers of their
files; segments that tell none are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
)

from tidegate.plan.columns import DEDUP_KEY
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from tidegate.spark.footers import ColumnStats

# The least and the greatest key, as Spark orders them.
Range: TypeAlias = tuple[Any, Any]

# Ranges of so many segments are remembered, more than a table has.
_MOST_RANGES = 1_000

# After so many batches in a row that overlapped all segments, ranges are no longer looked at.
_PATIENCE = 8

# A first failed attempt is repeated after 8 batches; after each further one the pause is four times
# as long, but never longer than 512 batches.
_PAUSE, _LONGER, _LONGEST = 8, 4, 512

# Keys in the order that Python gives them too.
_ORDERED = (IntegralType, DecimalType, FloatType, DoubleType)


@dataclass(slots=True)
class KeyRanges:
    """What is known of the keys of a query's segments.

    ``key`` is the key (Spark SQL) with values that Python orders as Spark orders the keys.
    """

    key: str
    _ranges: dict[str, Range] = field(default_factory=dict)
    # How many of the newest segments the last batch overlapped, at first none. Segments of unknown
    # ranges do not count.
    _overlapped: int = 0
    _in_vain: int = 0
    # Segments whose files have been asked for their range.
    _asked: set[str] = field(default_factory=set)
    # Segments are merged beside the batch that asks.
    _lock: Lock = field(default_factory=Lock)

    @property
    def observed(self) -> Mapping[str, str]:
        """The least and the greatest key of a batch, as aggregates (Spark SQL)."""
        return {"least": f"min({self.key})", "greatest": f"max({self.key})"}

    @property
    def are_watched(self) -> bool:
        """Whether the range of a batch is worth observing."""
        return self._in_vain < _PATIENCE

    def likely(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Return the segments that a batch is likely to overlap, and those of unknown ranges."""
        if not self.are_watched:
            return tuple(segments)
        newest = {each.name for each in self._newest_first(segments)[: self._overlapped]}
        return tuple(s for s in segments if s.name in newest or s.name not in self._ranges)

    def unknown(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the segments whose range is unknown, each of them once."""
        if not self.are_watched:
            return []
        unknown = [segment for segment in segments if segment.name not in self._ranges]
        found = [segment for segment in unknown if segment.name not in self._asked]
        self._asked = {segment.name for segment in unknown}
        return found

    def apart(self, tasks: Sequence[ColumnStats | None]) -> Sequence[Range] | None:
        """Return the ranges of the keys of tasks; None if two may have the same key.

        Then the next batch may have keys of this one.

        Args:
            tasks: the bounds of the keys of each, None if they are not told.
        """
        told = [range_of(each.least, each.greatest) for each in tasks if each is not None]
        known = [each for each in told if each is not None]
        if len(tasks) > 1 and len(known) < len(tasks):
            return None
        if not are_apart(known):
            self.expect_overlap()
            return None
        return known

    def expect_overlap(self) -> None:
        """Let the next batch read all segments, since keys do not seem to rise."""
        self._overlapped = _MOST_RANGES

    def overlap(self, segments: Collection[Segment], batch: Range) -> bool:
        """Whether a batch may have keys of one of some segments."""
        return any(self._overlaps(segment, batch) for segment in segments)

    def learn(self, segments: Sequence[Segment], batch: Range) -> None:
        """Remember how a batch overlaps the segments before it."""
        found = [self._overlaps(each, batch) for each in self._newest_first(segments)]
        if not found:
            return
        self._overlapped = max((n for n, overlaps in enumerate(found, 1) if overlaps), default=0)
        self._in_vain = self._in_vain + 1 if all(found) else 0

    def add(self, segment: str, keys: Range | None) -> None:
        """Remember the range of a new segment, unless it is unknown."""
        if keys is None:
            return
        with self._lock:
            while len(self._ranges) >= _MOST_RANGES:
                self._ranges.pop(next(iter(self._ranges)))
            self._ranges[segment] = keys

    def of_all(self, segments: Sequence[Segment]) -> Range | None:
        """Return the range of several segments together, None if one is unknown."""
        found = [self._ranges.get(segment.name) for segment in segments]
        ranges = [each for each in found if each is not None]
        return range_of_all(ranges) if len(ranges) == len(found) else None

    def _newest_first(self, segments: Sequence[Segment]) -> list[Segment]:
        known = [segment for segment in segments if segment.name in self._ranges]
        return sorted(known, key=lambda segment: segment.last_us, reverse=True)

    def _overlaps(self, segment: Segment, batch: Range) -> bool:
        keys = self._ranges.get(segment.name)
        return keys is None or (keys[0] <= batch[1] and batch[0] <= keys[1])


@dataclass(slots=True)
class Attempts:
    """Says in which batches to try what may fail: the more often it has, the fewer."""

    _pause: int = _PAUSE
    _left: int = 0

    def take_turn(self) -> bool:
        """Count a batch; return whether to try in it."""
        self._left = max(0, self._left - 1)
        return self._left == 0

    def put_off(self) -> None:
        """Pause, because there was nothing to try."""
        self._left = _PAUSE

    def note(self, *, succeeded: bool) -> None:
        """Record an attempt; after each that fails in a row the pause is longer."""
        self._left = 0 if succeeded else self._pause
        self._pause = _PAUSE if succeeded else min(_LONGER * self._pause, _LONGEST)


def are_apart(tasks: Iterable[Range]) -> bool:
    """Whether no two tasks have keys in common, by the ranges of their keys."""
    in_order = sorted(tasks, key=lambda keys: keys[0])
    # NaN, which Spark takes for the greatest number of all, is in no order here.
    return all(before[1] < after[0] for before, after in pairwise(in_order))


def key_ranges(kind: DataType) -> KeyRanges | None:
    """Return an object that remembers ranges of keys of a type; None if they are in no order here.

    Texts with a collation have an order of their own.
    """
    if not isinstance(kind, _ORDERED) and kind != StringType():
        return None
    # As bytes, because texts of Spark may be such that Python cannot have.
    key = f"CAST({DEDUP_KEY} AS BINARY)" if kind == StringType() else DEDUP_KEY
    return KeyRanges(key=key)


def range_of_all(ranges: Sequence[Range]) -> Range | None:
    """Return the range of several together, None if there are none."""
    if not ranges:
        return None
    return min(least for least, _ in ranges), max(greatest for _, greatest in ranges)


def range_of(least: object, greatest: object) -> Range | None:
    """Return a range; None if there are no keys, or NaN is one of them."""
    # Spark takes NaN for the greatest number of all, Python for none.
    is_nan = isinstance(greatest, float) and isnan(greatest)
    return None if greatest is None or is_nan else (least, greatest)
