"""The open windows of a state, read without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from state.manifests import SECOND
from tidegate.inspection.open_windows import OpenWindows
from tidegate.state.manifest import Tables
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader

from .checkpoints import Rows, plan_of, put_clicks, put_segment, put_state

# The bounds of windows in seconds, the number of groups, and of state rows.
Shown = list[tuple[float, float, int, int]]


def shown(checkpoint: Path, start_us: int | None = None) -> Shown:
    reader = StateReader(checkpoint)
    windows = OpenWindows(reader, reader.manifest(), reader.plan()).all(start_us)
    return [
        (each.start_us / SECOND, each.end_us / SECOND, len(each.groups), each.rows)
        for each in windows
    ]


def state_of(
    checkpoint: Path, plan: PlanFile, rows: Rows, bound: int | None = None, **facts: Any
) -> None:
    """Write a state of one segment of windows."""
    names = dict.fromkeys(rows[0], "bigint")
    segment = put_segment(checkpoint, "0-aa-batch", rows, facts.pop("time", "_pane"))
    bound_us = None if bound is None else bound * SECOND
    put_state(checkpoint, plan, Tables(windows=(segment,)), bound_us=bound_us, schema=names)


def order(second: int, place: int = 0) -> dict[str, int]:
    return {"t": second * SECOND, "b": 0, "i": place}


def test_windows_that_have_closed_are_not_shown_though_their_rows_are_still_in_a_file(
    tmp_path: Path,
) -> None:
    put_clicks(tmp_path)
    assert shown(tmp_path) == [(10, 20, 2, 3), (20, 30, 1, 1)]
    assert shown(tmp_path, 20 * SECOND) == [(20, 30, 1, 1)]
    assert shown(tmp_path, 0) == []


def test_before_the_first_watermark_every_window_is_open(tmp_path: Path) -> None:
    rows = [{"_pane": -10 * SECOND}, {"_pane": 0}]
    state_of(tmp_path, plan_of('tumbling size="10s" offset="0s"'), rows)
    assert shown(tmp_path) == [(-10, 0, 1, 1), (0, 10, 1, 1)]


#   rows      2    7   12
#   closed to               15
#   open            [5 15) has closed; [10 20) has the row at 12
def test_a_pane_is_in_every_hopping_window_that_holds_it_and_is_open(tmp_path: Path) -> None:
    rows = [{"_pane": second * SECOND} for second in (0, 5, 10)]
    plan = plan_of('hopping size="10s" slide="5s" offset="0s"')
    state_of(tmp_path, plan, rows, bound=10)
    assert shown(tmp_path) == [(5, 15, 1, 2), (10, 20, 1, 1)]


def test_cumulating_windows_share_their_start(tmp_path: Path) -> None:
    rows = [{"_pane": 0}, {"_pane": 10 * SECOND}]
    plan = plan_of('cumulate size="20s" step="5s" offset="0s"')
    state_of(tmp_path, plan, rows, bound=10)
    assert shown(tmp_path) == [(0, 15, 1, 2), (0, 20, 1, 2)]


def test_spans_of_a_key_at_most_the_gap_apart_are_one_session(tmp_path: Path) -> None:
    rows = [
        {"_first": first * SECOND, "_last": last * SECOND, "_k0": key}
        for first, last, key in [(0, 4, 1), (11, 12, 1), (17, 18, 1), (24, 24, 1), (13, 14, 2)]
    ]
    plan = plan_of('session gap="5s"', keys={"_k0": "user"})
    # The session that ended at 4 + 5 has closed; 12 to 17 is exactly the gap.
    state_of(tmp_path, plan, rows, bound=12, time="_last")
    assert shown(tmp_path) == [(13, 19, 1, 1), (11, 23, 1, 2), (24, 29, 1, 1)]


def test_a_sliding_window_waits_for_its_end_and_shows_the_rows_in_range(tmp_path: Path) -> None:
    rows = [
        {"_t": second * SECOND, "_order": order(second), "_trigger": second != 9, "_width": 0}
        for second in (5, 9, 10, 13)
    ]
    panes = [{"_t": 0, "_order": order(0), "_trigger": True, "_width": SECOND}]
    plan = plan_of('sliding lookback="4s" lookahead="3s" when=null partition_by=[]')
    # The window of the row at 5 ends with 8, both ends included; the row at 9 triggers none.
    state_of(tmp_path, plan, rows + panes, bound=9, time="_t")
    assert shown(tmp_path) == [(6, 13, 1, 3), (9, 16, 1, 3)]


def test_a_row_is_in_no_window_that_had_closed_for_its_shard_when_it_came(tmp_path: Path) -> None:
    panes = [{"_pane": 10 * SECOND, "_after": None}, {"_pane": 5 * SECOND, "_after": 15 * SECOND}]
    plan = plan_of('hopping size="15s" slide="5s" offset="0s"')
    state_of(tmp_path / "panes", plan, panes, bound=10)
    assert shown(tmp_path / "panes") == [(0, 15, 1, 1), (5, 20, 1, 2), (10, 25, 1, 1)]
    rows = [
        {
            "_t": t * SECOND,
            "_order": order(t),
            "_trigger": t > 8,
            "_after": after and after * SECOND,
        }
        for t, after in [(10, None), (14, None), (8, 14)]
    ]
    plan = plan_of('sliding lookback="6s" lookahead=null when=null partition_by=[]')
    state_of(tmp_path / "rows", plan, rows, time="_t")
    assert shown(tmp_path / "rows") == [(4, 10, 1, 1), (8, 14, 1, 3)]


#   gap 10    [30] has ended for the row at 38, which came at W = 45; the one at 31 joins that
@pytest.mark.parametrize("merged", [False, True])
def test_sessions_that_have_parted_are_shown_apart(merged: bool, tmp_path: Path) -> None:
    spans = [(30, None, 0, 0), (38, 45, 0, 1), (31, 45, 0, 3), (25, None, 1, 0)]
    rows = [
        {
            "_first": t * SECOND,
            "_last": t * SECOND,
            "_after": after and after * SECOND,
            **(
                {"_came": {"b": epoch, "i": place, "l": t * SECOND}}
                if merged
                else {"_order": {"t": t * SECOND, "b": epoch, "i": place}}
            ),
        }
        for t, after, epoch, place in spans
    ]
    state_of(tmp_path, plan_of('session gap="10s"'), rows[:3], bound=20, time="_last")
    assert shown(tmp_path) == [(30, 40, 1, 1), (31, 48, 1, 2)]
    # One more row, for which both are open, makes one session of them.
    state_of(tmp_path / "later", plan_of('session gap="10s"'), rows, bound=20, time="_last")
    assert shown(tmp_path / "later") == [(25, 48, 1, 4)]


def test_a_sliding_window_that_goes_out_at_once_is_never_open(tmp_path: Path) -> None:
    rows = [{"_t": 0, "_order": order(0), "_trigger": True}]
    plan = plan_of('sliding lookback="4s" lookahead=null when=null partition_by=[]', emit="at_once")
    state_of(tmp_path, plan, rows, time="_t")
    assert shown(tmp_path) == []


def test_a_state_window_is_open_from_the_row_that_opened_it_until_one_emits(
    tmp_path: Path,
) -> None:
    log = [
        {"_t": place * SECOND, "_order": order(place), "_p0": partition, "_open": o, "_emit": e}
        for place, partition, o, e in [
            (1, "a", True, True),
            (2, "a", False, False),
            (3, "a", False, True),
            (4, "a", True, False),
            (5, "b", False, True),
            (6, "a", True, False),
        ]
    ]
    plan = plan_of('state open="o" emit="e" partition_by=["k"]', columns={"_p0": "k"})
    logged = Tables(log=(put_segment(tmp_path, "0-aa-log", log, "_t"),))
    put_state(tmp_path, plan, logged, schema=dict.fromkeys(log[0], "bigint"))
    assert shown(tmp_path) == [(4, 6, 1, 2)]


@pytest.mark.parametrize(
    ("window", "reached", "open_"),
    [
        ("count count=3 every=null partition_by=[]", 3, []),
        ("count count=3 every=null partition_by=[]", 5, [(4, 5, 1, 2)]),
        ("count count=4 every=3 partition_by=[]", 3, []),
        ("count count=4 every=3 partition_by=[]", 4, [(3, 4, 1, 2)]),
    ],
)
def test_a_count_window_is_open_while_rows_are_missing(
    window: str, reached: int, open_: Shown, tmp_path: Path
) -> None:
    log = [
        {"_t": place * SECOND, "_order": order(place), "_all": True, "_ordinal": place}
        for place in range(1, reached + 1)
    ]
    logged = Tables(log=(put_segment(tmp_path, "0-aa-log", log, "_t"),))
    put_state(tmp_path, plan_of(window), logged, schema=dict.fromkeys(log[0], "bigint"))
    assert shown(tmp_path) == open_
