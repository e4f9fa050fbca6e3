"""What is due at a close of sessions, and how much that is, told without reading if possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.tasks import GROWTH, few_rows_of
from tidegate.engine.windows.sessions.chains import LAST
from tidegate.engine.windows.sessions.ranges import before, between
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSpans:
    """The spans of segments with a ``_last`` from ``from_us`` to before ``due_us``.

    Without ``from_us`` there are none before.
    """

    spans: DataFrame
    segments: Sequence[Segment]
    due_us: int
    from_us: int | None = None

    @property
    def advance_us(self) -> int:
        """How long the range of their ends is."""
        return self.due_us - self._from_us

    @property
    def interval_us(self) -> int:
        """How far the close went beyond the one before; where there was none, as ``advance_us``."""
        return self.advance_us if self.from_us is None else self.due_us - self.from_us

    def are_few(self, foresight: Foresight) -> bool:
        """Whether their keys fit into one task.

        If neither the last close nor the bounds of segments tell, they are counted, which takes a
        small job: segments of many rows are sorted once they are merged, so it reads what is due.
        """
        few = few_rows_of(self.segments)
        if foresight.most(self.segments, self._from_us, self.due_us) <= few:
            return True
        if sum(map(self._expected, self.segments)) > GROWTH * few:
            return False
        return self.spans.select(LAST).limit(few + 1).count() <= few

    def ending_before(self, until_us: int, io: StateIO) -> DataFrame:
        """The spans, and those of the same segments that are not due yet but end before a time."""
        spans = io.read(self.segments)
        if self.from_us is None:
            return before(spans, until_us, self.segments)
        return between(spans, self.from_us, until_us, self.segments)

    @property
    def _from_us(self) -> int:
        first_us = min(segment.first_us for segment in self.segments)
        return first_us if self.from_us is None else max(first_us, self.from_us)

    def _expected(self, segment: Segment) -> int:
        """How many spans of a segment are due if their ends are spread evenly over its bounds."""
        start_us = max(segment.first_us, self._from_us)
        end_us = min(segment.last_us + 1, self.due_us)
        length_us = segment.last_us + 1 - segment.first_us
        return segment.rows * max(0, end_us - start_us) // length_us


class Foresight:
    """What a close beside many spans has seen of those that end soon, for the next one."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._from_us, self._until_us, self._rows = 0, 0, 0

    def note(self, segments: Sequence[Segment], from_us: int, until_us: int, rows: int) -> None:
        """Note how many spans of segments end from a time until before another one."""
        self._names = frozenset(segment.name for segment in segments)
        self._from_us, self._until_us, self._rows = from_us, until_us, rows

    def most(self, segments: Sequence[Segment], from_us: int, until_us: int) -> int:
        """The most spans of segments, by what is known, that end in such a time."""
        is_within = self._from_us <= from_us and until_us <= self._until_us
        seen = self._names if is_within else frozenset[str]()
        others = sum(segment.rows for segment in segments if segment.name not in seen)
        return others + (self._rows if is_within else 0)
