"""The open windows that close next, read within limits however many windows are open.

Windows on a grid of panes are found by pyarrow, from the column of panes: no row of the state
becomes a Python object. Windows of other kinds are found row by row, if there are few rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate, islice
from typing import Any

from tidegate.engine.windows.panes.grid import PaneGrid, pane_grid
from tidegate.inspection.checkpoint import Checkpoint
from tidegate.inspection.fingerprint import window_of
from tidegate.inspection.open_windows import first_end, group_columns, start_of
from tidegate.plan.columns import PANE
from tidegate.plan.windows import Cumulate, Hopping, Tumbling

# State rows of which single columns are read, and rows that may become Python objects.
MOST_PANE_ROWS = 5_000_000
MOST_ROWS = 100_000

# Panes that are looked at one by one.
MOST_PANES = 200_000

# Comparisons of a pane with a window, when groups of overlapping windows are counted.
MOST_COMPARED = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWindow:
    """An open window; ``groups`` is None where counting them would take long."""

    start_us: int
    end_us: int
    rows: int
    groups: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWindows:
    """Open windows in order of their end, as far as they are listed.

    Attributes:
        windows: those that close next.
        total: how many there are; None if they were not counted.
        note: why not all of them are listed; None if they are.
    """

    windows: Sequence[NextWindow] = ()
    total: int | None = None
    note: str | None = None


def next_windows(checkpoint: Checkpoint, most: int) -> NextWindows:
    """Return the open windows of a checkpoint that close next, at most so many.

    Raises:
        StateError: a file is damaged, or pyarrow is not installed.
    """
    window = window_of(checkpoint.plan.fingerprint)
    tables = checkpoint.manifest.tables
    on_grid = isinstance(window, Tumbling | Hopping | Cumulate)
    rows = sum(segment.rows for segment in (tables.windows if on_grid else tables.of_windows))
    if rows > (MOST_PANE_ROWS if on_grid else MOST_ROWS):
        return NextWindows(
            note=f"not listed: the state has {rows:,} rows; tidegate state --windows reads them"
        )
    if isinstance(window, Tumbling | Hopping | Cumulate):
        return _of_panes(checkpoint, pane_grid(window), most)
    found = checkpoint.counted_windows()
    listed = [
        NextWindow(
            start_us=each.start_us, end_us=each.end_us, rows=each.rows, groups=len(each.groups)
        )
        for each in found[:most]
    ]
    return NextWindows(windows=listed, total=len(found), note=_first_of(len(listed), len(found)))


def _of_panes(checkpoint: Checkpoint, grid: PaneGrid, most: int) -> NextWindows:
    bound_us = checkpoint.manifest.bound_us
    segments = checkpoint.manifest.tables.windows
    if not segments:
        return NextWindows(total=0)
    panes = checkpoint.reader.table(segments, [PANE]).column(PANE)
    compute = import_module("pyarrow.compute")
    if bound_us is not None:
        panes = panes.filter(compute.greater_equal(panes, grid.first_open(bound_us)))
    counted = compute.value_counts(panes)
    order = compute.sort_indices(counted.field("values"))[:MOST_PANES]
    starts = counted.field("values").take(order).to_pylist()
    sizes = counted.field("counts").take(order).to_pylist()
    ranges = _ranges_of_ends(starts, grid, bound_us)
    total = sum(len(each) for each in ranges) if len(counted) <= MOST_PANES else None
    if grid.single:
        total = len(counted)
    ends = list(islice((end for each in ranges for end in each), most))
    sums = [0, *accumulate(sizes)]
    windows = []
    for end_us in ends:
        start_us = start_of(grid, end_us)
        first, last = bisect_left(starts, start_us), bisect_left(starts, end_us)
        windows.append(NextWindow(start_us=start_us, end_us=end_us, rows=sums[last] - sums[first]))
    windows = _with_groups(checkpoint, windows, grid)
    return NextWindows(windows=windows, total=total, note=_first_of(len(windows), total))


def _ranges_of_ends(panes: Iterable[int], grid: PaneGrid, bound_us: int | None) -> list[range]:
    """The ends of the open windows that hold one of some panes, as ascending separate ranges."""
    ranges: list[range] = []
    stride_us = grid.stride_us
    for pane_us in panes:
        first_us, last_us = first_end(grid, pane_us), grid.last_end(pane_us)
        if bound_us is not None and first_us <= bound_us:
            first_us = grid.next_end(bound_us)
        if ranges and first_us <= ranges[-1][-1] + stride_us:
            first_us, last_us = ranges[-1][0], max(ranges[-1][-1], last_us)
            ranges.pop()
        if first_us <= last_us:
            ranges.append(range(first_us, last_us + 1, stride_us))
    return ranges


def _with_groups(
    checkpoint: Checkpoint, windows: list[NextWindow], grid: PaneGrid
) -> list[NextWindow]:
    """Windows with their numbers of groups, where these are quickly counted."""
    if not windows or sum(window.rows for window in windows) > MOST_PANE_ROWS:
        return windows
    keys = group_columns(checkpoint.manifest, checkpoint.plan)
    if not keys:
        return [replace(window, groups=min(1, window.rows)) for window in windows]
    first_us = min(window.start_us for window in windows)
    end_us = max(window.end_us for window in windows)
    segments = checkpoint.manifest.tables.windows
    near = tuple(each for each in segments if each.first_us < end_us and each.last_us >= first_us)
    arrow = import_module("pyarrow")
    try:
        rows = checkpoint.reader.table(near, [PANE, *keys])
        of_panes = rows.group_by([PANE, *keys]).aggregate([])
        if grid.single:
            counted = of_panes.group_by(PANE).aggregate([([], "count_all")]).to_pydict()
            numbers = dict(zip(counted[PANE], counted["count_all"], strict=True))
            return [replace(each, groups=numbers.get(each.start_us, 0)) for each in windows]
        if of_panes.num_rows * len(windows) > MOST_COMPARED:
            return windows
        return [replace(each, groups=_groups_in(each, of_panes, keys)) for each in windows]
    except (arrow.ArrowException, TypeError):
        return windows  # Keys of a type that pyarrow does not group by.


def _groups_in(window: NextWindow, of_panes: Any, keys: Sequence[str]) -> int:  # noqa: ANN401 - of pyarrow
    """The number of groups of a window, from the groups of panes."""
    compute = import_module("pyarrow.compute")
    panes = of_panes.column(PANE)
    after = compute.greater_equal(panes, window.start_us)
    inside = of_panes.filter(compute.and_(after, compute.less(panes, window.end_us)))
    return int(inside.group_by(list(keys)).aggregate([]).num_rows)


def _first_of(listed: int, total: int | None) -> str | None:
    if total is None:
        return f"the first {listed:,}"
    return None if listed == total else f"the first {listed:,} of {total:,}"
