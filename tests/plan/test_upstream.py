"""The watermark that follows from the closing of another query: no result comes behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.compile import compile_statement
from tidegate.errors import TidegateError
from tidegate.plan.settings import Lateness, OnIdle, Settings, TimeMode
from tidegate.plan.statement import Column, Relation
from tidegate.plan.upstream import Follows, ResultTime, Upstream
from tidegate.plan.windows import Count, Cumulate, Hopping, Session, Sliding, Tumbling, Window
from tidegate.planner.results import result_columns, upstream_of
from tidegate.time import TimeUnit

US = TimeUnit.SECOND.micros
CLICKS = Relation(
    name="clicks",
    columns=(Column(name="ts", type="TIMESTAMP"), Column(name="page", type="STRING")),
)
PER_MINUTE = (
    "SELECT page AS p, count(*) AS n, avg(length(page)) AS long, now() AS made, "
    "window_start() AS s, window_end() AS e FROM clicks GROUP BY tumblingwindow('mi', 1), page"
)
BY_TS = Settings(event_time_field="ts")


def follows(window: Window, time: ResultTime, **changes: object) -> Follows:
    upstream = Upstream(name="x", window=window, mode=TimeMode.EVENT, at_once=False, early=False)
    return Follows(upstream=replace(upstream, **changes), time=time)


def windows_of(window: Window) -> list[tuple[int, int]]:
    """All windows of a grid around 0, in seconds: start and end."""
    around = range(-8, 8)
    match window:
        case Tumbling(size=size, offset=offset):
            return [(offset + n * size, offset + (n + 1) * size) for n in around]
        case Hopping(size=size, slide=slide, offset=offset):
            return [(offset + n * slide, offset + n * slide + size) for n in around]
        case Cumulate(size=size, step=step, offset=offset):
            steps = range(step, size + 1, step)
            return [(offset + n * size, offset + n * size + each) for n in around for each in steps]
        case _:
            raise AssertionError(window)


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(time_unit=TimeUnit.SECOND, size=5, offset=2),
        Hopping(time_unit=TimeUnit.SECOND, size=7, slide=3, offset=1),
        Hopping(time_unit=TimeUnit.SECOND, size=2, slide=5),
        Cumulate(time_unit=TimeUnit.SECOND, size=6, step=2, offset=-1),
    ],
)
@given(bound_us=st.integers(-10 * US, 10 * US) | st.integers(-10, 10).map(lambda s: s * US))
def test_no_window_of_a_grid_that_is_open_has_a_time_behind_the_watermark(
    window: Window, bound_us: int
) -> None:
    still_open = [(s * US, e * US) for s, e in windows_of(window) if e * US > bound_us]
    assert (
        follows(window, ResultTime.LAST).watermark_us(bound_us) <= min(e for _, e in still_open) - 1
    )
    assert follows(window, ResultTime.END).watermark_us(bound_us) <= min(e for _, e in still_open)
    assert follows(window, ResultTime.START).watermark_us(bound_us) == min(s for s, _ in still_open)


def test_the_watermark_reaches_the_end_of_a_window_with_the_last_one_it_holds() -> None:
    minutes = Tumbling(time_unit=TimeUnit.MINUTE, size=1)
    hour_us = 3600 * US
    for time in ResultTime:
        assert follows(minutes, time).watermark_us(hour_us) >= hour_us
        assert follows(minutes, time).watermark_us(hour_us - 1) < hour_us + (time is ResultTime.END)
    assert follows(minutes, ResultTime.LAST).watermark_us(None) is None


def test_sessions_and_sliding_windows_bound_their_times_too() -> None:
    session = Session(time_unit=TimeUnit.SECOND, gap=3)
    # A row at exactly the gap may still come, and then the session ends later.
    assert follows(session, ResultTime.LAST).watermark_us(10) == 9
    assert follows(session, ResultTime.END).watermark_us(10) == 10
    sliding = Sliding(time_unit=TimeUnit.SECOND, lookback=2, lookahead=1)
    assert follows(sliding, ResultTime.LAST).watermark_us(5 * US) == 5 * US
    assert follows(sliding, ResultTime.START).watermark_us(5 * US) == 2 * US
    live = {"mode": TimeMode.PROCESSING, "at_once": True}
    assert follows(replace(sliding, lookahead=None), ResultTime.LAST, **live).watermark_us(10) == 9
    assert follows(Count(count=2), ResultTime.LAST).upstream.times == ()


def test_the_types_of_results_are_known_without_spark() -> None:
    plan = compile_statement(PER_MINUTE, [CLICKS], BY_TS).physical
    assert [(column.name, column.type) for column in result_columns(plan)] == [
        ("p", "STRING"),
        ("n", "BIGINT"),
        ("long", "DOUBLE"),
        ("made", "TIMESTAMP"),
        ("s", "TIMESTAMP"),
        ("e", "TIMESTAMP"),
    ]


def refusal(below: str, settings: Settings | None = None, upstream: str = PER_MINUTE) -> str:
    plan = compile_statement(upstream, [CLICKS], BY_TS).physical
    relation = Relation(name="x", columns=result_columns(plan), upstream=upstream_of("x", plan))
    with pytest.raises(TidegateError) as refused:
        compile_statement(below, [relation], settings or Settings())
    return str(refused.value)


BELOW = "SELECT sum(n) AS n FROM x GROUP BY tumblingwindow('hh', 1)"


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (Settings(watermark_lag_us=1), "The setting watermark_lag is not for the results"),
        (Settings(allowed_lateness_us=1), "The setting allowed_lateness is not"),
        (Settings(lateness=Lateness.RECORD), "The setting lateness is not"),
        (Settings(shard="p"), "The setting shard is not"),
        (Settings(idle_timeout_us=1), "The setting idle_timeout is not"),
        (Settings(on_idle=OnIdle.ADVANCE), "The setting on_idle is not"),
        (Settings(event_time_field="n"), 'event_time_field = "n": it is not a time of the windows'),
        (Settings(event_time_field="made"), "Or name s and e."),
    ],
)
def test_what_would_set_another_watermark_is_refused(settings: Settings, what: str) -> None:
    assert what in refusal(BELOW, settings)


def test_statements_that_do_not_follow_the_closing_are_refused() -> None:
    assert "Leave WATERMARK and its lateness out" in refusal(
        f"{BELOW} WATERMARK (INTERVAL 1 SECOND)"
    )
    assert "made is not a time of the windows of x" in refusal(f"{BELOW} ON made")
    hidden = refusal(
        "WITH y AS (SELECT * FROM x) SELECT sum(n) AS n FROM y GROUP BY tumblingwindow('hh', 1)"
    )
    assert "hides the windows of the results of x" in hidden
    counts = "SELECT count(*) AS n FROM clicks GROUP BY countwindow(3)"
    assert "x has count windows, which close when a row says so" in refusal(BELOW, None, counts)
    sessions = (
        "SELECT count(*) AS n, window_start() AS s FROM clicks GROUP BY sessionwindow('ss', 3)"
    )
    assert "s is not a time of the windows" in refusal(f"{BELOW} ON s", None, sessions)
    early = (
        "SELECT count(*) AS n, is_final() AS f, window_id() AS id FROM clicks "
        "GROUP BY tumblingwindow('mi', 1) EMIT EARLY EVERY INTERVAL 1 SECOND"
    )
    for settings in (Settings(), Settings(time=TimeMode.PROCESSING)):
        assert "its provisional results would count" in refusal(BELOW, settings, early)
