"""What the cases do not show of the oracle: ends, quotas, duplicates, failed results, clocks."""

from __future__ import annotations

import pytest

from .oracle import Oracle, Outcome, QueryFailed
from .parse import Refused
from .values import moment

COLUMNS = [("ts", "TIMESTAMP"), ("k", "STRING"), ("v", "BIGINT")]
SECOND = 1_000_000
FAR = 10**15


def oracle(select: str, **settings: object) -> Oracle:
    return Oracle(f"SELECT {select}", "t", COLUMNS, {"event_time_field": "ts", **settings})


def clocked(select: str, **settings: object) -> Oracle:
    return Oracle(f"SELECT {select}", "t", COLUMNS, {"time": "processing", **settings})


def rows(*found: tuple[float, str, int | None]) -> list[tuple]:
    return [(moment(int(time * SECOND)), key, value) for time, key, value in found]


def values(outcome: Outcome) -> list[tuple]:
    return [tuple(row.values()) for row in outcome.emitted]


def test_a_count_window_with_a_step_shows_the_last_rows_and_fewer_at_the_start() -> None:
    query = clocked("collect_list(v) FROM t GROUP BY countwindow(3, 2)")
    given = query.batch(rows(*((0, "a", v) for v in range(1, 6))), SECOND)
    assert values(given) == [([1, 2],), ([2, 3, 4],)]
    assert values(query.drain()) == [([3, 4, 5],)]


def test_after_a_drain_rows_for_the_emitted_windows_are_late() -> None:
    query = oracle("sum(v) FROM t GROUP BY tumblingwindow('ss', 10)")
    query.batch(rows((1, "a", 1)), FAR)
    assert values(query.drain()) == [(1,)]
    again = query.batch(rows((9, "a", 2), (10, "a", 3)), FAR)
    assert [(side.kind, side.late_by_ms) for side in again.side] == [("late", 0)]
    assert values(query.drain()) == [(3,)]


def test_a_clock_that_stands_still_makes_nothing_late() -> None:
    query = clocked("count(*) FROM t GROUP BY statewindow(v = 1, v = 2)")
    query.batch(rows((0, "a", 1)), SECOND)
    query.batch(rows((0, "a", 5)), SECOND)
    assert values(query.batch(rows((0, "a", 2)), SECOND)) == [(3,)]
    assert query.counts["late"] == 0


def test_an_earlier_row_of_a_known_key_is_a_duplicate_and_one_beyond_the_horizon_is_not() -> None:
    settings = {"dedup_key": "k", "dedup_horizon": "10s", "watermark_lag": "1h"}
    query = oracle("count(*) FROM t GROUP BY tumblingwindow('ss', 100)", **settings)
    given = query.batch(rows((50, "a", 1), (20, "a", 1), (60, "a", 1), (61, "a", 1)), FAR)
    assert [side.kind for side in given.side] == ["duplicate", "duplicate"]
    assert values(query.drain()) == [(2,)]


def test_rows_beyond_the_quota_of_a_group_are_evicted() -> None:
    query = oracle(
        "k, collect_list(v) FROM t GROUP BY tumblingwindow('ss', 10), k", max_rows_per_group=2
    )
    given = query.batch(rows((1, "a", 1), (2, "a", 2), (3, "a", 3), (4, "b", 4)), FAR)
    assert [side.reason for side in given.side] == ["max_rows_per_group"]
    assert values(query.drain()) == [("a", [1, 2]), ("b", [4])]


def test_a_result_that_fails_is_an_error_and_the_other_groups_are_emitted() -> None:
    query = oracle("k, 6 / sum(v) FROM t GROUP BY tumblingwindow('ss', 10), k")
    query.batch(rows((1, "a", 0), (1, "b", 3)), FAR)
    drained = query.drain()
    assert values(drained) == [("b", 2.0)]
    assert [(side.kind, side.reason, side.original) for side in drained.side] == [
        ("error", "division_by_zero", None)
    ]


def test_the_policy_fail_stops_at_the_first_error() -> None:
    query = oracle("sum(1 / v) FROM t GROUP BY tumblingwindow('ss', 10)", error_policy="fail")
    with pytest.raises(QueryFailed):
        query.batch(rows((1, "a", 0)), FAR)


def test_a_row_late_for_some_of_its_hops_is_partial() -> None:
    query = oracle("count(*) FROM t GROUP BY hoppingwindow('ss', 10, 5)")
    query.batch(rows((12, "a", 1)), FAR)
    query.batch(rows((8, "a", 1)), FAR)
    assert query.counts["partial"] == 1
    assert query.counts["accumulated"] == 2


def test_a_sliding_row_is_late_by_the_end_of_its_last_window() -> None:
    query = oracle("count(*) FROM t GROUP BY slidingwindow('ss', 10, 5)")
    query.batch(rows((100, "a", 1)), FAR)
    given = query.batch(rows((84, "a", 1)), FAR)
    assert [(side.kind, side.late_by_ms) for side in given.side] == [("late", 1_000)]


def test_a_row_that_falls_back_on_the_clock_does_not_move_the_watermark() -> None:
    query = oracle("count(*) FROM t GROUP BY tumblingwindow('ss', 10)", null_event_time="fallback")
    given = query.batch([(None, "a", 1), *rows((1, "a", 1))], FAR)
    assert given.watermark_us == SECOND
    assert given.side == []


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("count(*) FROM t GROUP BY tumblingwindow('ss', -1)", "unsigned whole number"),
        ("count(*) FROM t GROUP BY tumblingwindow('ss', 1.5)", "1.5"),
        ("window_trigger() FROM t GROUP BY countwindow(2)", "sliding windows only"),
        ("count(*) FROM t GROUP BY statewindow(v, v = 1)", "must be BOOLEAN"),
        ("count(*) FROM t GROUP BY sessionwindow('ss', 3) OVER (PARTITION BY k)", "no OVER"),
        ("nosuch(v) FROM t GROUP BY countwindow(2)", "no function nosuch"),
    ],
)
def test_syntax_outside_the_grammar_is_refused(select: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        clocked(select)
