"""What partitions carry from close to close: a log of segments, and when it is written anew.

A close appends the rows that it released and that a coming window may show, and reads what is
carried of *touched* partitions only, those that it has released rows of. So a small batch beside a
large state reads the log and moves little of it. What has ended is still in the log then, with a
later row that says so; it leaves when the log is written anew, which happens

    when it is small beside the batch, so that reading all of it costs little
    when what was appended is as much as the rest: each row is then rewritten once for each that
    came
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

# A log of so many rows is small beside any batch, and so is one of so many times the batch's rows.
SMALL_ROWS, SMALL_TIMES = ROWS_PER_TASK, 2
MOST_SEGMENTS = 16

# BOOLEAN, of a row that is scanned: it is released now; else it was carried.
NEW = "_new"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedState:
    """The segments of a close, by what becomes of them.

    Attributes:
        carried: the log, oldest first.
        due: those that may hold rows which are released now.
        waiting: those that hold rows which are not released yet; some are due as well.
    """

    carried: tuple[Segment, ...]
    due: tuple[Segment, ...]
    waiting: tuple[Segment, ...]

    @property
    def is_small(self) -> bool:
        """Whether the log is written anew."""
        rows = [segment.rows for segment in self.carried]
        if len(rows) >= MOST_SEGMENTS or 2 * max(rows, default=0) <= sum(rows):
            return True
        return sum(rows) <= max(SMALL_ROWS, SMALL_TIMES * sum(s.rows for s in self.due))


def ordered_state(closing: Closing, *, event_time: bool) -> OrderedState:
    """Return the segments of a close; in processing time a row is released by its own batch."""
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
    """Return the carried rows of partitions that released rows are of."""
    keys = released.selectExpr(*(f"{name} AS {name}_touched" for name in partition))
    same = (functions.col(name).eqNullSafe(functions.col(f"{name}_touched")) for name in partition)
    return carried.join(keys, reduce(and_, same), "left_semi")
