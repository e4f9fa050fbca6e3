"""The watermark never goes back and is the minimum over the active shards."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.plan.logical import Authority, EventTime, WatermarkSpec
from tidegate.plan.settings import OnIdle, TimeMode
from tidegate.state.shard_map import SeenShards, Shard
from tidegate.state.watermark import WatermarkState, advance

SPEC = WatermarkSpec(
    mode=TimeMode.EVENT,
    event_time=EventTime(sql="_t", text="t", authority=Authority.SQL, why="the test says so"),
    lag_us=0,
    lag_authority=Authority.DEFAULT,
    lateness_us=0,
    lateness_authority=Authority.DEFAULT,
    shard="s",
    shard_authority=Authority.SETTING,
    shard_expiry_us=None,
    idle_timeout_us=None,
    on_idle=OnIdle.HOLD,
    null_event_time_fallback=False,
    max_future_skew_us=0,
    emit_on_close=False,
)

times = st.integers(-100, 100)
batches = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), times), st.integers(0, 40)), max_size=12
)


@given(batches, st.integers(0, 30), st.none() | st.integers(1, 50), st.sampled_from(OnIdle))
def test_the_watermark_never_goes_back(
    script: list[tuple[dict[str, int], int]], lag: int, timeout: int | None, on_idle: OnIdle
) -> None:
    spec = replace(SPEC, lag_us=lag, idle_timeout_us=timeout, on_idle=on_idle)
    state, clock, before = WatermarkState(), 0, None
    for seen, passed in script:
        clock += passed
        state = advance(state, SeenShards(times=seen), clock, spec)
        assert before is None or (state.watermark_us is not None and state.watermark_us >= before)
        before = state.watermark_us


@given(st.lists(st.dictionaries(st.sampled_from("abc"), times, min_size=1), min_size=1))
def test_without_an_idle_timeout_it_is_the_minimum_over_the_shards(
    script: list[dict[str, int]],
) -> None:
    state, greatest, expected = WatermarkState(), {}, []
    for clock, seen in enumerate(script):
        state = advance(state, SeenShards(times=seen), clock, SPEC)
        greatest = {k: max(seen.get(k, v), v) for k, v in {**seen, **greatest}.items()}
        expected.append(min(greatest.values()))
        assert state.watermark_us == max(expected)


def test_an_idle_shard_leaves_the_minimum_at_exactly_the_timeout() -> None:
    spec = replace(SPEC, idle_timeout_us=30)
    state = WatermarkState(
        shards={"a": Shard(event_time_us=50, clock_us=20), "b": Shard(event_time_us=1, clock_us=0)},
        watermark_us=1,
    )
    assert advance(state, SeenShards(), 29, spec).watermark_us == 1
    assert advance(state, SeenShards(), 30, spec).watermark_us == 50


def test_in_processing_time_it_is_just_after_the_clock() -> None:
    spec = replace(SPEC, mode=TimeMode.PROCESSING)
    assert advance(WatermarkState(), {}, 7, spec).watermark_us == 8
    assert advance(WatermarkState(watermark_us=8), {}, 5, spec).watermark_us == 8
