"""The windows of a statement: lengths in microseconds, conditions and partition keys as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hops:
    """Tumbling and hopping: [s, s + size) for s on the grid of slide."""

    size: int
    slide: int
    offset: int = 0


@dataclass(frozen=True)
class Cumulate:
    size: int
    step: int
    offset: int = 0


@dataclass(frozen=True)
class Session:
    gap: int


@dataclass(frozen=True)
class Sliding:
    lookback: int
    lookahead: int | None = None
    when: str | None = None
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    open: str
    emit: str
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class Count:
    count: int
    every: int | None = None
    partition: tuple[str, ...] = ()


Window = Hops | Cumulate | Session | Sliding | State | Count
