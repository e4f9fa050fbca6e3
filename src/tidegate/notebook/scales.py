"""The axes of a drawing: where its marks are, and what is written at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.time import DURATION_UNITS, floor_to, to_datetime

_S, _M, _H, _D = (DURATION_UNITS[unit] for unit in ("s", "m", "h", "d"))

# Steps between the marks of a time axis, in microseconds.
_TIME_STEPS = (
    *(n * 10**power for power in range(6) for n in (1, 2, 5)),
    *(n * _S for n in (1, 2, 5, 10, 15, 30)),
    *(n * _M for n in (1, 2, 5, 10, 15, 30)),
    *(n * _H for n in (1, 2, 3, 6, 12)),
    *(n * _D for n in (1, 2, 5, 10, 30, 90, 180, 365, 730, 1825, 3650, 36500, 365000)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis from ``low`` to ``high``, with marks and their labels in between."""

    low: int
    high: int
    marks: tuple[tuple[int, str], ...]

    def place(self, value: int) -> float:
        """Return where a value is: 0 at ``low``, 1 at ``high``."""
        return (value - self.low) / (self.high - self.low)


# The axis of times while there are none.
NOTHING = Scale(low=0, high=1, marks=((0, "none yet"),))


def count_scale(greatest: int) -> Scale:
    """Return an axis for counts from 0 to ``greatest``, with at most five marks."""
    step = next(step for step in _count_steps() if step * 4 >= greatest)
    high = max(step, -(-greatest // step) * step)
    return Scale(low=0, high=high, marks=tuple((v, f"{v:,}") for v in range(0, high + 1, step)))


def time_scale(first_us: int, last_us: int) -> Scale:
    """Return an axis for times, with at most five marks.

    Args:
        first_us: the earliest time, microseconds.
        last_us: the latest time.
    """
    span = max(last_us - first_us, 4)
    step = next((step for step in _TIME_STEPS if step * 4 >= span), span)
    low, high = floor_to(first_us, step), -floor_to(-last_us, step)
    high = max(high, low + step)
    return Scale(
        low=low,
        high=high,
        marks=tuple((v, _time_label(v, step)) for v in range(low, high + 1, step)),
    )


def _count_steps() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _time_label(time_us: int, step_us: int) -> str:
    try:
        moment = to_datetime(time_us)
    except OverflowError:
        # A year that has not four digits.
        return f"{time_us // _S:,}" + ("" if step_us >= _S else f".{time_us % _S:06}") + " s"
    if step_us >= _D:
        return moment.date().isoformat()
    if step_us >= _M:
        return f"{moment:%m-%d %H:%M}"
    if step_us >= _S:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M:%S.%f}"
