"""A built expression: a type, and a function that gives its value for a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from .values import cast, order_key, widest

Run = Callable[[object], object]


@dataclass(frozen=True)
class Built:
    """An expression: the type of its value, and its value for a row."""

    type: str
    run: Run


class Scope(Protocol):
    """What names mean in a place of the statement."""

    null_on_error: bool

    def resolve(self, node: exp.Expression) -> Built | None:
        """The meaning of a node that is more than its parts, e.g. a column; else None."""


def constant(value: object, kind: str) -> Built:
    return Built(kind, lambda env: value)


def strict(kind: str, compute: Callable[..., object], *parts: Built) -> Built:
    """NULL when a part is NULL."""

    def run(env: object) -> object:
        values = [part.run(env) for part in parts]
        return None if any(value is None for value in values) else compute(*values)

    return Built(kind, run)


def coerced(part: Built, kind: str) -> Built:
    """A part cast to a type, as Spark does by itself."""
    if part.type in (kind, "NULL") or kind == "NULL":
        return part
    return Built(kind, lambda env: cast(part.run(env), part.type, kind))


def compare(left: Built, right: Built, test: Callable[[object, object], bool]) -> Built:
    kind = widest(left.type, right.type)
    return strict(
        "BOOLEAN",
        lambda a, b: test(order_key(a), order_key(b)),
        coerced(left, kind),
        coerced(right, kind),
    )


def choose(branches: list[tuple[Built, Built]], default: Built) -> Built:
    """The value of the first branch whose condition is true; the others are not evaluated."""
    kind = widest(*(value.type for _, value in branches), default.type)
    ready = [(condition, coerced(value, kind)) for condition, value in branches]
    last = coerced(default, kind)

    def run(env: object) -> object:
        for condition, value in ready:
            if condition.run(env) is True:
                return value.run(env)
        return last.run(env)

    return Built(kind, run)
