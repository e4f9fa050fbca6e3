"""The places of panes tell whether a row of a batch came after one that closed its window."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tidegate.engine.windows.panes.grid import PaneGrid, pane_grid
from tidegate.engine.windows.panes.places import came_behind
from tidegate.plan.columns import FIRST_PLACE, LAST_PLACE, PANE, SPLIT_PLACE
from tidegate.plan.windows import Cumulate, Hopping, PaneWindow, Tumbling
from tidegate.time import TimeUnit, floor_to

US = TimeUnit.MICROSECOND
WINDOWS: tuple[PaneWindow, ...] = (
    Tumbling(time_unit=US, size=10),
    Tumbling(time_unit=US, size=7, offset=-3),
    Hopping(time_unit=US, size=10, slide=4, offset=1),
    Cumulate(time_unit=US, size=12, step=3),
)


def places(rows: list[tuple[int, int]], grid: PaneGrid, slack: int) -> list[dict[str, int | None]]:
    """Return what job 1 tells of rows, pairs of place and time."""
    panes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, time in rows:
        panes[floor_to(time, grid.pane_us, grid.offset_us)].append((place, time))
    return [
        {
            PANE: pane,
            FIRST_PLACE: min(place for place, _ in found),
            LAST_PLACE: max(place for place, _ in found),
            SPLIT_PLACE: min(
                (
                    place
                    for place, time in found
                    if (time - grid.offset_us) % grid.pane_us >= slack % grid.pane_us
                ),
                default=None,
            ),
        }
        for pane, found in panes.items()
    ]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_it_is_seen_whether_a_row_came_after_one_that_closed_its_window(
    window: PaneWindow,
) -> None:
    grid = pane_grid(window)
    dice = random.Random(str(window))
    seen = set()
    for _ in range(400):
        slack, jitter = dice.randint(0, 15), dice.randint(0, 20)
        times = [place // 2 - dice.randint(0, jitter) for place in range(dice.randint(1, 60))]
        moves_only = {place for place in range(len(times)) if dice.random() < 0.2}
        greatest, behind = None, False
        for place, time in enumerate(times):
            if greatest is not None and place not in moves_only:
                behind |= grid.next_end(floor_to(time, grid.pane_us, grid.offset_us)) <= (
                    greatest - slack
                )
            greatest = time if greatest is None else max(greatest, time)
        rows = list(enumerate(times))
        counted = places([row for row in rows if row[0] not in moves_only], grid, slack)
        others = places([row for row in rows if row[0] in moves_only], grid, slack)
        assert came_behind(counted, others, grid, slack) is behind, (times, slack, moves_only)
        seen.add(behind)
    assert seen == {True, False}
