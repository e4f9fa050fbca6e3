"""The places of panes in a batch: whether a row came after one that closed a window of it.

Job 1 groups the rows of a batch by pane and key, and can tell of each partial where in the batch
its first and its last row were. That is enough to see whether all rows came in time:

    pane            [0, 10)    [10, 20)    [20, 30)        W is the greatest time so far, less 4 s
    first place        0          40          90
    split place        5          55         110           of the rows that are 4 s into the pane
    last place        52          99         120

The first row at 14 or later is at place 55: it closes [0, 10), whose last row has come by then. A
row that is behind would be in a pane with a last place after that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions
from pyspark.sql.types import LongType, StructField, StructType

from tidegate.engine.tasks import BYTES_PER_TASK
from tidegate.plan.columns import FIRST_PLACE, LAST_PLACE, PANE, SPLIT_PLACE
from tidegate.time import floor_to

if TYPE_CHECKING:
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Ingested
    from tidegate.engine.windows.panes.grid import PaneGrid


class Places(Protocol):
    """The places of the rows of a pane, by the names of their columns."""

    def __getitem__(self, name: str, /) -> Any: ...  # noqa: ANN401 - what a row of Spark gives


_COLUMNS = (PANE, FIRST_PLACE, LAST_PLACE, SPLIT_PLACE)
_SCHEMA = StructType([StructField(name, LongType()) for name in _COLUMNS])
_ROW_BYTES = 8 * len(_COLUMNS)


def any_behind(ingested: Ingested, grid: PaneGrid, slack_us: int, io: StateIO) -> bool:
    """Return whether a row of a batch came after one that closed a window of it.

    Args:
        ingested: what job 1 did, over watched rows.
        grid: the windows.
        slack_us: how much later than the end of a window a row is that closes it.
        io: the state.
    """
    partials = io.store.read_segments(ingested.segments, _SCHEMA)
    # In one task nothing is shuffled. Of their columns, however large, only these numbers are read.
    if sum(segment.rows for segment in ingested.segments) * _ROW_BYTES <= BYTES_PER_TASK:
        partials = partials.coalesce(1)
    panes = (
        partials.groupBy(PANE)
        .agg(
            functions.min(FIRST_PLACE).alias(FIRST_PLACE),
            functions.max(LAST_PLACE).alias(LAST_PLACE),
            functions.min(SPLIT_PLACE).alias(SPLIT_PLACE),
        )
        .collect()
    )
    return came_behind(panes, ingested.elsewhere, grid, slack_us)


def came_behind(
    panes: Sequence[Places], elsewhere: Sequence[Places], grid: PaneGrid, slack_us: int
) -> bool:
    """Return whether a row in ``panes`` came after one, there or elsewhere, that closed a window.

    Each has the places of its rows by the names of the columns; elsewhere there is no last one.
    """
    first = _least_places([*panes, *elsewhere], FIRST_PLACE)
    split = _least_places([*panes, *elsewhere], SPLIT_PLACE)
    starts = sorted(first)
    # The first place of all rows in a pane or in a later one.
    from_on = dict(first)
    for start, later in pairwise(reversed(starts)):
        from_on[later] = min(from_on[later], from_on[start])
    for pane in panes:
        closes_at = grid.next_end(pane[PANE]) + slack_us
        splits = floor_to(closes_at, grid.pane_us, grid.offset_us)
        next_start = bisect_right(starts, splits)
        places = [split[splits]] if splits in split else []
        places += [from_on[starts[next_start]]] if next_start < len(starts) else []
        if places and min(places) < pane[LAST_PLACE]:
            return True
    return False


def _least_places(panes: Iterable[Places], column: str) -> dict[int, int]:
    """Return the least place in a column by pane, without rows of no pane or no place."""
    found: dict[int, int] = {}
    for pane in panes:
        start, place = pane[PANE], pane[column]
        if start is not None and place is not None:
            found[start] = min(place, found.get(start, place))
    return found
