"""A window is read back from the fingerprint of its plan."""

from __future__ import annotations

import pytest

from tidegate.errors import StateError
from tidegate.inspection.fingerprint import window_of
from tidegate.plan.windows import (
    WINDOWS,
    Count,
    Cumulate,
    Hopping,
    Session,
    Sliding,
    State,
    Tumbling,
    Window,
)
from tidegate.planner.identity import _window_identity
from tidegate.time import TimeUnit

MS = TimeUnit.MILLISECOND

EXAMPLES: tuple[Window, ...] = (
    Tumbling(time_unit=MS, size=10_000, offset=-3),
    Hopping(time_unit=MS, size=60_000, slide=7),
    Cumulate(time_unit=MS, size=60_000, step=5_000, offset=1),
    Session(time_unit=MS, gap=5),
    Sliding(time_unit=MS, lookback=0, lookahead=3, when="a = '5s'", partition_by=("u", "v w")),
    State(open='a > "0" and b=1', emit="b = 1", partition_by=("u",)),
    Count(count=3, every=2),
)


@pytest.mark.parametrize("window", EXAMPLES, ids=lambda window: window.kind)
def test_the_window_of_a_fingerprint_is_the_one_that_made_it(window: Window) -> None:
    text = _window_identity(window)
    assert _window_identity(window_of({"window": text})) == text


def test_there_is_an_example_of_every_kind() -> None:
    assert {type(window) for window in EXAMPLES} == set(WINDOWS)


@pytest.mark.parametrize(
    "text", ["", "circular radius=1", "tumbling size=", 'session gaps="5s"', "count count=3"]
)
def test_an_unknown_window_is_refused_by_name(text: str) -> None:
    with pytest.raises(StateError, match=f"this release does not know: {text}\n"):
        window_of({"window": text})
