"""The types that aggregates return, as far as they are known without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tidegate.plan.types import BIGINT, DOUBLE, MOST_DIGITS, SqlType, decimal_of, simple_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result type of an aggregate.

    Attributes:
        text: a description of the type, for the documentation.
        of: returns the type as DDL for the type of the first argument, either None if unknown.
    """

    text: str
    of: Callable[[str | None], str | None]


def _unknown(given: str | None) -> str | None:
    del given
    return None


def _same(given: str | None) -> str | None:
    return given


def _fixed(name: str) -> Result:
    return Result(text=name, of=lambda given: name)


def _sum_of(given: SqlType) -> SqlType | None:
    if given.is_decimal:
        return decimal_of(min(MOST_DIGITS, given.precision + 10), given.scale)
    if given.is_integral:
        return BIGINT
    return DOUBLE if given.is_float or given.is_text else None


def _avg_of(given: SqlType) -> SqlType | None:
    if given.is_decimal:
        digits = given.precision + 4
        # A wider one loses digits after the point; only Spark knows how many.
        return decimal_of(digits, given.scale + 4) if digits <= MOST_DIGITS else None
    return DOUBLE if given.is_number or given.is_text else None


def _by_rule(rule: Callable[[SqlType], SqlType | None], given: str | None) -> str | None:
    known = None if given is None else simple_type(given)
    found = None if known is None else rule(known)
    return None if found is None else found.ddl


def told(text: str) -> Result:
    """Return a result whose type only Spark knows, with a description."""
    return Result(text=text, of=_unknown)


OF_BIGINT, OF_BOOLEAN, OF_DOUBLE = (_fixed(name) for name in ("BIGINT", "BOOLEAN", "DOUBLE"))
OF_X = Result(text="the type of x", of=_same)
OF_SUM = Result(
    text="BIGINT for integers, DECIMAL(p + 10, s) for decimals, else DOUBLE; NULL on overflow",
    of=partial(_by_rule, _sum_of),
)
OF_AVG = Result(text="DOUBLE, DECIMAL(p + 4, s + 4) for decimals", of=partial(_by_rule, _avg_of))
