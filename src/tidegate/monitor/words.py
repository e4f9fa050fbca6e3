"""Numbers and times in few characters, and text from data that a terminal may show."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.inspection.shown import time_text

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-=+*#@"


def plain(text: object) -> str:
    """Return a text without characters that control a terminal."""
    return "".join(
        each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in str(text)
    )


def short(number: float | None) -> str:
    """Return a number in few characters: 950, 1.2k, 3.4M; a dash for None."""
    if number is None:
        return "-"
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= unit * 0.9995:
            return f"{_digits(number / unit)}{letter}"
    return _digits(number)


def seconds(number: float | None) -> str:
    """Return a duration: 120 ms, 3.5 s, 12 min, 5 h, 3 d; a dash for None."""
    if number is None:
        return "-"
    if abs(number) < 1:
        return f"{_digits(number * 1000)} ms" if number else "0 s"
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if abs(number) >= unit * 2:
            return f"{_digits(number / unit)} {name}"
    return f"{_digits(number)} s"


def micros(number: int | None) -> str:
    """Return a duration of microseconds."""
    return seconds(None if number is None else number / 1_000_000)


def clock_time(time_us: int | None, near_us: int | None = None) -> str:
    """Return the time of day; with the date if it is not that of another time; UTC."""
    text, other = time_text(time_us), time_text(near_us if near_us is not None else time_us)
    if text is None or other is None:
        return "-"
    text = text.removesuffix("Z").partition(".")[0]
    return text[11:] if text[:10] == other[:10] else text.replace("T", " ")


def sparkline(values: Sequence[float | None], width: int, *, utf8: bool = True) -> str:
    """Return the newest values as a line of bars from 0 to the greatest; blanks for None."""
    bars = _BARS if utf8 else _PLAIN_BARS
    shown = values[-width:]
    greatest = max((value for value in shown if value is not None), default=0) or 1
    return "".join(
        " " if value is None else bars[min(7, int(max(0, value) / greatest * 7.999))]
        for value in shown
    )


def _digits(number: float) -> str:
    size = abs(number)
    places = 0 if size >= 100 else 1 if size >= 10 else 2
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
