"""Schemas as DDL text, e.g. ``ts TIMESTAMP, price DECIMAL(10,2)``, read without Spark."""

from __future__ import annotations

import re

from tidegate.names import nearest
from tidegate.plan.statement import Column
from tidegate.plan.types import TYPE_NAMES

_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<bare>\w+))\s*[:\s]\s*(?P<type>[A-Za-z_]\w*)(?P<rest>.*)",
    re.DOTALL,
)
_AFTER_TYPE = re.compile(
    r"\s+(?:NOT\s+NULL|COMMENT|DEFAULT|COLLATE)\b.*", re.DOTALL | re.IGNORECASE
)


def parse_schema(text: str) -> tuple[Column, ...]:
    """Return the columns of a DDL schema; simple types are in capitals.

    >>> parse_schema("ts timestamp, v DECIMAL(10,2)")[1]
    Column(name='v', type='DECIMAL(10,2)')

    Raises:
        ValueError: a column has no type or one that Spark does not know, or two have the same name.
    """
    columns = tuple(_column(part) for part in _split(text))
    if not columns:
        raise ValueError("a schema needs at least one column")
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name} is declared twice")
    return columns


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        elif character in "(<":
            depth += 1
        elif character in ")>":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    if depth != 0:
        raise ValueError("unbalanced brackets")
    parts.append(text[start:])
    return [part.strip() for part in parts] if text.strip() else []


def _column(part: str) -> Column:
    match = _COLUMN.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not a column: write a name and a type, e.g. ts TIMESTAMP")
    word = match["type"].upper()
    if word not in TYPE_NAMES:
        near = nearest(word, TYPE_NAMES)
        hint = f"did you mean {near}?" if near else f"Spark has {', '.join(TYPE_NAMES)}"
        raise ValueError(f"{match['type']} is not a type of Spark SQL: {hint}")
    name = match["bare"] or match["quoted"].replace("``", "`")
    rest = _AFTER_TYPE.sub("", match["rest"]).strip()
    # Inside a STRUCT the names of fields keep their case.
    inside = rest if "struct" in (word + rest).lower() else rest.upper()
    return Column(
        name=name, type=word + inside if inside[:1] in ("", "(", "<") else f"{word} {inside}"
    )
