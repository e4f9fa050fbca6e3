"""The sizes of windows: checked numbers and intervals, and the windows they make."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from sqlglot import exp

from tidegate.errors import Span
from tidegate.frontend.grammar.nodes import WindowParameter, span_of
from tidegate.frontend.grammar.source import Source
from tidegate.frontend.reading.durations import Duration, common_unit, read_interval
from tidegate.frontend.refusal import Refusal
from tidegate.plan.windows import Cumulate, Hopping, Session, Tumbling, Window
from tidegate.time import TimeUnit

_LARGEST_US = 2**62

# Refuses a duration: its text, its microseconds, its place.
Check = Callable[[str, int, Span], None]

# The sizes of each kind of window, and whether it takes an OFFSET.
KIND_SIZES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "TUMBLING": (("SIZE",), ("OFFSET",)),
    "HOPPING": (("SIZE", "SLIDE"), ("OFFSET",)),
    "SESSION": (("GAP",), ()),
    "CUMULATE": (("SIZE", "STEP"), ("OFFSET",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWindow:
    """A window with its place, and what it says about event time."""

    window: Window
    span: Span
    event_time: exp.Expr | None = None
    lag: WindowParameter | None = None
    lateness: WindowParameter | None = None


def from_durations(kind: str, durations: list[Duration]) -> Window:
    """Return the window of a kind from its sizes and, where there is one more, its offset."""
    unit = common_unit([duration.micros for duration in durations])
    numbers = [duration.micros // unit.micros for duration in durations]
    sized = len(KIND_SIZES[kind][0])
    offset = numbers[sized] if len(numbers) > sized else 0
    return of_kind(kind, unit, numbers[:sized], offset, durations[sized - 1].span)


def of_kind(kind: str, unit: TimeUnit, sizes: list[int], offset: int, last_span: Span) -> Window:
    """Return the window of a kind from its sizes in units."""
    match kind:
        case "TUMBLING":
            return Tumbling(time_unit=unit, size=sizes[0], offset=offset)
        case "HOPPING":
            return Hopping(time_unit=unit, size=sizes[0], slide=sizes[1], offset=offset)
        case "SESSION":
            return Session(time_unit=unit, gap=sizes[0])
    size, step = sizes
    if size % step:
        raise Refusal(
            f"the step of {step} {unit.value} does not divide the size of {size} {unit.value}",
            last_span,
            f"Write a step that divides {size}, e.g. {gcd(size, step)}.",
        )
    return Cumulate(time_unit=unit, size=size, step=step, offset=offset)


def read_duration(source: Source, parameter: exp.Expr, check: Check | None) -> Duration:
    """Return the interval of a parameter or an argument, checked."""
    node = parameter.args["expression"] if isinstance(parameter, WindowParameter) else parameter
    duration = read_interval(source.slice(node), span_of(node))
    if check is not None:
        check(duration.text, duration.micros, duration.span)
    if abs(duration.micros) > _LARGEST_US:
        raise _too_long(duration.text, duration.span)
    return duration


def whole_number(source: Source, node: exp.Expr, unit: TimeUnit, least: int) -> int:
    """Return an argument that is an unsigned whole number of units, ``least`` or more."""
    text, span = source.slice(node), span_of(node)
    if not re.fullmatch(r"\d+", text):
        raise Refusal(
            f"{text} in {_call_name(node)} must be an unsigned whole number",
            span,
            f"Write a number of {least} or more, e.g. 10.",
        )
    value = int(text)
    if value < least:
        raise Refusal(
            f"{text} in {_call_name(node)} is too small; the minimum is {least}",
            span,
            f"Write a number of {least} or more, e.g. 10.",
        )
    if value * unit.micros > _LARGEST_US:
        raise _too_long(text, span)
    return value


def whole_offset(source: Source, node: exp.Expr, unit: TimeUnit) -> int:
    """Return an argument that is a whole number of units."""
    text, span = source.slice(node), span_of(node)
    if not re.fullmatch(r"[+-]?\s*\d+", text):
        raise Refusal(
            f"{text} in {_call_name(node)} must be a whole number",
            span,
            "Write a whole number, e.g. 3 or -3.",
        )
    value = int(re.sub(r"\s", "", text))
    if abs(value) * unit.micros > _LARGEST_US:
        raise _too_long(text, span)
    return value


def positive(text: str, micros: int, span: Span) -> None:
    """Refuse a duration that is not positive."""
    if micros <= 0:
        raise Refusal(
            f"{text} is not positive; sizes, slides, steps and gaps must be",
            span,
            "Write an interval longer than nothing, e.g. INTERVAL '10' SECOND.",
        )


def not_negative(text: str, micros: int, span: Span) -> None:
    """Refuse a negative duration."""
    if micros < 0:
        raise Refusal(
            f"{text} is negative; a lag or a lateness must be 0 or more",
            span,
            "Write e.g. INTERVAL '5' SECOND.",
        )


def _call_name(argument: exp.Expr) -> str:
    return argument.parent.name if argument.parent is not None else "a window"


def _too_long(text: str, span: Span) -> Refusal:
    return Refusal(
        f"{text} is longer than the maximum of 146,000 years",
        span,
        "Write something shorter.",
    )
