"""Cells and values: reads a cell as a Spark SQL type, compares it with a value, formats a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation

from tidegate.cases.model import Cell
from tidegate.time import from_datetime, to_datetime

RELATIVE_TOLERANCE = 1e-9

# The date of a time written without one.
DEFAULT_DATE = date(2026, 1, 1)

_MOMENT = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\d)(?:[ T]|$))?(?P<clock>\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?Z?"
)
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_cell(cell: Cell, type_name: str) -> object:
    """Return the value of a cell of a Spark SQL type (in capitals); None for NULL.

    Raises:
        ValueError: the text is not a value of the type, or cells cannot have this type.
    """
    if cell.is_null:
        return None
    if type_name.startswith("ARRAY<"):
        return [read_cell(item, type_name[6:-1].strip()) for item in split_array(cell.text)]
    reader = _READERS.get(type_name.partition("(")[0].strip())
    if reader is None:
        raise ValueError(
            f"a cell cannot be written as {type_name}; "
            f"the types are {', '.join(_READERS)} and ARRAY<..>"
        )
    try:
        return reader(cell.text)
    except (ValueError, InvalidOperation):
        raise ValueError(f"{cell.text!r} is not a value of type {type_name}") from None


def read_time(text: str) -> int:
    """Return the microseconds of ``10:00:01.250`` (on the default date) or ``1969-12-31 23:59:59``.

    Raises:
        ValueError: the text is neither.
    """
    match = _MOMENT.fullmatch(text)
    if match is None or not (match["date"] or match["clock"]):
        raise ValueError(f"{text!r} is not a time: write 10:00:01.250, or 2026-01-02 10:00:01.250")
    day = date.fromisoformat(match["date"]) if match["date"] else DEFAULT_DATE
    clock = time.fromisoformat(match["clock"]) if match["clock"] else time()
    return from_datetime(datetime.combine(day, clock, UTC))


def split_array(text: str) -> list[Cell]:
    """Return the items of ``[1, "a b", NULL]``.

    Raises:
        ValueError: the text is not in square brackets.
    """
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError(f"{text!r} is not an array: write [1, 2]")
    items: list[str] = [""]
    depth, quoted = 0, False
    for char in text[1:-1]:
        quoted ^= char == '"'
        depth += 0 if quoted else (char == "[") - (char == "]")
        if char == "," and depth == 0 and not quoted:
            items.append("")
        else:
            items[-1] += char
    return [] if items == [""] else [read_text(item.strip()) for item in items]


def read_text(text: str) -> Cell:
    """Return the cell of a text, without its quotes."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return Cell(text=text[1:-1], quoted=True)
    return Cell(text=text)


def cell_matches(cell: Cell, value: object) -> bool:
    """Return whether a cell denotes a value; the value's type decides how the cell is read."""
    if value is None or cell.is_null:
        return value is None and cell.is_null
    try:
        return _matches_typed(cell, value)
    except (ValueError, InvalidOperation):
        return False


def show_value(value: object) -> str:
    """Return a value as a cell would be written."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return _show_moment(value)
        case list() | tuple() if not hasattr(value, "asDict"):
            return "[" + ", ".join(show_value(item) for item in value) + "]"
        case str() if not value or "  " in value or " " in value or value == "NULL":
            return f'"{value}"'
        case _:
            return str(value)


def _matches_typed(cell: Cell, value: object) -> bool:
    match value:
        case bool():
            return _read_boolean(cell.text) == value
        case int() | float() | Decimal():
            return not cell.quoted and _same_number(cell.text, value)
        case datetime():
            return read_time(cell.text) == from_datetime(value)
        case date():
            return date.fromisoformat(cell.text) == value
        case list():
            items = split_array(cell.text)
            return len(items) == len(value) and all(map(cell_matches, items, value))
        case _:
            return cell.text == str(value)


def _same_number(text: str, value: int | float | Decimal) -> bool:
    if text in _SPECIAL_FLOATS or not math.isfinite(value):
        expected = _SPECIAL_FLOATS.get(text)
        return expected is not None and (
            expected == value or (math.isnan(expected) and math.isnan(value))
        )
    # Decimal compares integers beyond 2^53 and decimals without rounding.
    expected_exact, found = Decimal(text), Decimal(value)
    return abs(expected_exact - found) <= Decimal(RELATIVE_TOLERANCE) * max(
        abs(expected_exact), abs(found)
    )


def _show_moment(moment: datetime) -> str:
    moment = to_datetime(from_datetime(moment))
    fraction = f".{moment.microsecond:06d}".removesuffix("000")
    clock = f"{moment:%H:%M:%S}" + (fraction if moment.microsecond else "")
    return clock if moment.date() == DEFAULT_DATE else f"{moment.date().isoformat()} {clock}"


def _read_boolean(text: str) -> bool:
    words = {"true": True, "false": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _read_float(text: str) -> float:
    return _SPECIAL_FLOATS[text] if text in _SPECIAL_FLOATS else float(text)


def _read_moment(text: str) -> datetime:
    return to_datetime(read_time(text))


_READERS: dict[str, Callable[[str], object]] = {
    "STRING": str,
    "BOOLEAN": _read_boolean,
    "TINYINT": int,
    "SMALLINT": int,
    "INT": int,
    "INTEGER": int,
    "BIGINT": int,
    "LONG": int,
    "FLOAT": _read_float,
    "DOUBLE": _read_float,
    "DECIMAL": Decimal,
    "DATE": date.fromisoformat,
    "TIMESTAMP": _read_moment,
}
