"""Calls of aggregates for the tests, read from text; the test rows have one column of each type."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from tidegate.errors import Span
from tidegate.plan.statement import Aggregate, Argument, Expression

# The columns of the rows: the name in calls, and the declared type.
TYPES = {
    "small": "INT",
    "big": "BIGINT",
    "ratio": "DOUBLE",
    "ratio2": "DOUBLE",
    "single": "FLOAT",
    "price": "DECIMAL(10,2)",
    "exact": "DECIMAL(18,6)",
    "wide": "DECIMAL(38,6)",
    "word": "STRING",
    "flag": "BOOLEAN",
    "other": "BOOLEAN",
    "list": "ARRAY<INT>",
    "map": "MAP<STRING,INT>",
    "pause": "INTERVAL DAY TO SECOND",
    "day": "DATE",
    "const": "DOUBLE",
}
NAMES = {column: f"_x{place}" for place, column in enumerate(TYPES)}
SCHEMA = ", ".join(f"{NAMES[column]} {ddl}" for column, ddl in TYPES.items())

_CALL = re.compile(r"(\w+)\((DISTINCT )?(.*?)\)(?: FILTER \((\w+)\))?")


@dataclass(frozen=True)
class Call:
    """A call, the equivalent call of Spark, and the view in which both results are compared."""

    aggregate: Aggregate
    text: str
    native: str
    view: str


def call(text: str, native: str = "", view: str = "{}") -> Call:
    """Read e.g. ``sum(DISTINCT small) FILTER (flag)``; ``native`` is Spark's call if it differs."""
    match = _CALL.fullmatch(text)
    assert match is not None, text
    function, distinct, inside, filter_ = match.groups()
    args = tuple(NAMES.get(each, each) for each in inside.split(", ")) if inside != "*" else ()
    aggregate = Aggregate(
        name=f"_a{abs(hash(text))}",
        function=function,
        args=args,
        distinct=bool(distinct),
        filter=NAMES[filter_] if filter_ else None,
        text=text,
        span=Span(0, 1),
    )
    native = native or f"{function}({distinct or ''}{inside}){{filter}}"
    filtered = f" FILTER (WHERE {filter_})" if filter_ else ""
    return Call(aggregate, text, named(native.replace("{filter}", filtered)), view)


def named(sql: str) -> str:
    """Return SQL with the names of the columns in the test rows."""
    return re.sub(r"\b[a-z]+2?\b(?!\()", lambda m: NAMES.get(m[0], m[0]), sql)


def arguments(*, typed: bool) -> tuple[Argument, ...]:
    """Return the arguments of all calls, with or without their types."""
    return tuple(
        Argument(
            name=NAMES[column],
            expression=Expression(sql=column, span=Span(0, 1)),
            type=ddl if typed else None,
        )
        for column, ddl in TYPES.items()
    )


def values(chance: random.Random) -> tuple[object, ...]:
    """Return a row of values, with NULLs and many repetitions."""
    picked = (
        chance.randint(-5, 5),
        chance.randint(-(2**50), 2**50),
        chance.uniform(-100, 100),
        chance.gauss(1000.0, 1.0),
        float(chance.randint(-8, 8)) / 4,
        Decimal(chance.randint(-(10**9), 10**9)).scaleb(-2),
        Decimal(chance.randint(-(10**17), 10**17)).scaleb(-6),
        Decimal(chance.randint(-(10**30), 10**30)).scaleb(-6),
        chance.choice(["a", "b", "c", "dd"]),
        chance.random() < 0.6,
        chance.random() < 0.5,
        [chance.randint(0, 2), None],
        {"k": chance.randint(0, 9)},
        timedelta(seconds=4 * chance.randint(0, 10**6)),
        datetime(2026, 1, 1 + chance.randint(0, 20)).date(),  # noqa: DTZ001 - a date has no zone
        0.1,
    )
    return tuple(None if chance.random() < 0.15 else value for value in picked)
