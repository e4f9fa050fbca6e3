"""The window of a checkpoint, read back from the fingerprint of its plan.

hopping size="1m" slide="10s" offset="0s"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tidegate.errors import StateError
from tidegate.plan.windows import WINDOWS, Window
from tidegate.time import TimeUnit, parse_duration

_UNIT = "time_unit"


def window_of(fingerprint: Mapping[str, str]) -> Window:
    """Return the window of a fingerprint; its sizes are in microseconds.

    Raises:
        StateError: it is not the text of a window that this release knows.
    """
    text = fingerprint.get("window", "")
    kind, _, rest = text.partition(" ")
    try:
        (window,) = (each for each in WINDOWS if each.kind == kind)
        given = dict(_parameters(rest))
        names = {field.name for field in fields(window)}
        has_unit = _UNIT in names
        values = {name: _value(given[name], has_unit) for name in names - {_UNIT}}
        if has_unit:
            values[_UNIT] = TimeUnit.MICROSECOND
        return window(**values)
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"the checkpoint holds the state of a window that this release does not know: {text}"
            "\n\nRead it with the release that wrote it."
        ) from error


def _parameters(text: str) -> list[tuple[str, Any]]:
    """Return the pairs of ``name=JSON name=JSON ..``."""
    decoder, pairs, place = json.JSONDecoder(), [], 0
    while place < len(text):
        equals = text.index("=", place)
        value, end = decoder.raw_decode(text, equals + 1)
        pairs.append((text[place:equals], value))
        place = end + 1
    return pairs


def _value(value: Any, has_unit: bool) -> Any:  # noqa: ANN401 - a value of JSON
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str) and has_unit:
        return _duration(value)
    return value


def _duration(text: str) -> int | str:
    """Return microseconds; a condition of a sliding window stays text."""
    sign = -1 if text.startswith("-") else 1
    try:
        return sign * parse_duration(text.removeprefix("-"))
    except ValueError:
        return text
