"""The rows that partitions carry over from one close to the next: a log of segments.

A close appends the rows that it released and that a coming window may show. It uses only the
carried rows of *touched* partitions, those with released rows. So a small batch with a large state
reads the log but shuffles little of it. Rows of windows that have ended are still in the log,
followed by a row that marks the end; they are dropped when the log is rewritten. It is rewritten

    if it is small compared with the batch, so that rewriting costs little
    if as many rows were appended as its largest segment has, so that each appended row causes at
    most one other row to be rewritten
    if it has many segments
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.tasks import ROWS_PER_TASK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.windows.operator import Closing
    from tidegate.state.manifest import Segment

# A log counts as small up to this many rows, and up to this many times the rows of the batch.
SMALL_ROWS, SMALL_TIMES = ROWS_PER_TASK, 2
MOST_SEGMENTS = 16

# BOOLEAN, of a scanned row: true if it is released now, false if it was carried.
NEW = "_new"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedState:
    """The segments of a close, by their role.

    Attributes:
        carried: the log, oldest first.
        due: segments that may hold rows to be released now.
        waiting: segments that hold rows not to be released yet; some of them are due as well.
    """

    carried: tuple[Segment, ...]
    due: tuple[Segment, ...]
    waiting: tuple[Segment, ...]

    @property
    def is_small(self) -> bool:
        """Whether the log is to be rewritten."""
        rows = [segment.rows for segment in self.carried]
        if len(rows) >= MOST_SEGMENTS or 2 * max(rows, default=0) <= sum(rows):
            return True
        return sum(rows) <= max(SMALL_ROWS, SMALL_TIMES * sum(s.rows for s in self.due))


def ordered_state(closing: Closing, *, event_time: bool) -> OrderedState:
    """Return the segments of a close; in processing time each batch releases its own rows."""
    carried, others = closing.tables.log, closing.tables.windows
    bound_us, before_us = closing.bound_us, closing.before_us
    if bound_us is None:
        return OrderedState(carried=carried, due=(), waiting=others)
    after_us = before_us if event_time else None
    return OrderedState(
        carried=carried,
        due=tuple(
            segment
            for segment in others
            if (segment.first_us if after_us is None else max(segment.first_us, after_us))
            < bound_us
        ),
        waiting=tuple(segment for segment in others if segment.last_us >= bound_us),
    )


def touched(carried: DataFrame, released: DataFrame, partition: tuple[str, ...]) -> DataFrame:
    """Return the carried rows of partitions that also have released rows."""
    keys = released.selectExpr(*(f"{name} AS {name}_touched" for name in partition))
    same = (functions.col(name).eqNullSafe(functions.col(f"{name}_touched")) for name in partition)
    return carried.join(keys, reduce(and_, same), "left_semi")
