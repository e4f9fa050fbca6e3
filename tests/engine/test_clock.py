"""The clock of the steps where the machine's clock leaps; a day is the unit of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.engine.clock import MICROS_PER_DAY, Clock, Gap, Leap, next_clock

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def run(*machine: float, may_return: bool = True) -> tuple[list[float], list[Leap | None]]:
    """Return the clock of each batch, and what was told of it, by the machine's, in days."""
    clock: Clock | None = None
    clocks, leaps = [], []
    for days in machine:
        clock, leap = next_clock(clock, int(days * MICROS_PER_DAY), may_return=may_return)
        clocks.append(clock.us / MICROS_PER_DAY)
        leaps.append(leap)
    return clocks, leaps


def test_the_clock_is_the_machines_and_small_leaps_are_not_told() -> None:
    assert run(10, 10.25, 11) == ([10, 10.25, 11], [None] * 3)


def test_a_machine_that_was_far_ahead_for_a_while_is_followed_there_and_back() -> None:
    clocks, leaps = run(10, 10.25, 500, 500.5, 10.5, 10.75)
    assert clocks == [10, 10.25, 500, 500.5, 10.5, 10.75]
    assert leaps == [None, None, Leap.AHEAD, None, Leap.RETURNED, None]


def test_a_machine_that_was_far_ahead_twice_returns_over_both_gaps() -> None:
    assert run(10, 500, 900, 10.5, 10.75)[0] == [10, 500, 900, 10.5, 10.75]


def test_after_a_return_the_clock_is_never_before_the_gap() -> None:
    assert run(10, 500, 9.5, 10.25)[0] == [10, 500, 10, 10.25]


@pytest.mark.parametrize("back", [10.625, 10.5, 9])
def test_a_machine_that_goes_back_otherwise_is_waited_for_at_half_the_speed(back: float) -> None:
    clocks, leaps = run(10, 11, back, back + 0.25, 11, 11.5, 12.5)
    assert clocks[2] == 11
    assert clocks[3] == 11.125
    assert leaps[2] is Leap.BACK
    assert leaps[3] is None
    assert clocks == sorted(clocks)
    assert clocks[-1] == 12.5


def test_a_step_back_after_a_long_stop_is_no_return() -> None:
    # Stopped from 10 to 12.5; an hour later the clock is set back by two hours, into the stop.
    clocks, leaps = run(10, 12.5, 12.5 + 1 / 24, 12.5 - 1 / 24)
    assert clocks[-1] == clocks[-2]
    assert leaps[-1] is Leap.BACK


def test_a_clock_that_may_not_return_goes_on_from_where_it_was() -> None:
    clocks, _ = run(10, 500, 10.5, 11, may_return=False)
    assert clocks == [10, 500, 500, 500.25]


@given(st.lists(st.integers(0, 40 * MICROS_PER_DAY), max_size=30))
def test_the_clock_goes_back_only_into_a_gap_and_time_that_passes_moves_it(
    machine: list[int],
) -> None:
    clock: Clock | None = None
    for machine_us in machine:
        before, (clock, leap) = clock, next_clock(clock, machine_us)
        if before is None:
            continue
        if clock.us < before.us:
            assert leap is Leap.RETURNED
            assert any(gap.from_us <= clock.us < gap.to_us for gap in before.gaps)
        elif machine_us > before.machine_us + 1:
            assert clock.us > before.us or clock.us == machine_us
        assert all(isinstance(gap, Gap) for gap in clock.gaps)


def test_windows_by_a_clock_that_was_far_ahead_close_once_and_go_on(
    interpreted: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = tidegate.sql(
        "SELECT count(*) AS n, unix_seconds(window_start()) AS s FROM r"
        " GROUP BY tumblingwindow('ss', 10)",
        streams={"r": "v BIGINT"},
        settings={"time": "processing"},
        spark=interpreted,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=1)
    row = interpreted.sql("SELECT 1L AS v")
    far = 400 * 86_400

    def batch(second: int) -> tuple[list[tuple[int, int]], int, int]:
        outcome = stepper.batch(row, second * 1_000_000)
        windows = [(row["s"], row["n"]) for row in outcome.rows]
        return windows, outcome.report.late, outcome.report.clock_leaps

    assert [batch(second) for second in (101, 104)] == [([], 0, 0)] * 2
    # The clock is set wrong, for two batches: what was open closes.
    assert batch(far + 1) == ([(100, 2)], 0, 1)
    assert batch(far + 12) == ([(far, 1)], 0, 0)
    # It is right again. The window of that time goes out, and the row is late for its own, which
    # has closed; the next one is open.
    assert batch(107) == ([(far + 10, 1)], 1, 1)
    assert batch(113) == ([], 0, 0)
    assert batch(125) == ([(110, 1)], 0, 0)
    # It goes back by a little: time goes on, slower.
    assert batch(119) == ([], 0, 1)
    assert batch(131) == ([(120, 2)], 0, 0)
    assert [record.getMessage() for record in caplog.records] == [
        "the machine's clock jumped ahead; if the query was not stopped for that long, it is "
        "wrong: it was 1970-01-01T00:01:44Z and is now 1971-02-05T00:00:01Z",
        "the machine's clock was set back to before it had jumped ahead; the query's clock follows "
        "it: it was 1971-02-05T00:00:12Z and is now 1970-01-01T00:01:47Z",
        "the machine's clock was set back; until it has caught up, the query's clock runs at half "
        "speed: it was 1970-01-01T00:02:05Z and is now 1970-01-01T00:01:59Z",
    ]
