"""Streams and tables that the tests name, and how a test shows a place in a statement."""

from __future__ import annotations

from tidegate.frontend.binding.bind import bind
from tidegate.frontend.reading.parse import parse
from tidegate.plan.settings import Settings
from tidegate.plan.statement import BoundQuery, Column, Relation


def columns(ddl: str) -> tuple[Column, ...]:
    """Return columns of ``name TYPE; name TYPE``."""
    pairs = (each.strip().partition(" ") for each in ddl.split(";"))
    return tuple(Column(name=name, type=kind) for name, _, kind in pairs)


RELATIONS = (
    Relation(
        name="clicks",
        columns=columns(
            "ts TIMESTAMP; who STRING; v INT; rec STRUCT<x: INT, y: STRUCT<z: STRING>>"
        ),
    ),
    Relation(name="info", columns=columns("k STRING; name STRING; v INT"), streaming=False),
    Relation(name="raw", columns=None),
    Relation(name="other", columns=columns("a INT")),
)


def bound(text: str) -> BoundQuery:
    """Parse and bind a statement over ``RELATIONS``."""
    return bind(parse(text), RELATIONS, Settings())


def marked(text: str) -> tuple[str, int, int]:
    """Return a statement without its marks «..», and the start and end of the marked place."""
    start, end = text.index("«"), text.index("»") - 1
    return text.replace("«", "").replace("»", ""), start, end
