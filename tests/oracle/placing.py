"""What all window kinds share: rows, emitted windows, and comparisons with the watermark.

A kind *places* the rows of a batch against the watermark before it, then *closes* what the new
watermark makes due.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALLOWED = "allowed_lateness_exceeded"


@dataclass(frozen=True)
class Row:
    """A row to place: its values, the source's row, time, arrival, keys."""

    values: tuple
    original: tuple
    time: int
    order: int
    keys: tuple
    key_text: str
    partition: tuple
    partition_text: str
    flags: dict[str, bool]

    @property
    def place(self) -> tuple[int, int]:
        return self.time, self.order


@dataclass(frozen=True)
class Closed:
    """An emitted window, with the bounds it shows; rows in (time, arrival) order."""

    start: int
    end: int
    rows: list[Row]
    trigger: int | None = None


def reached(watermark: int | None, time: int) -> bool:
    """W >= time; without a watermark nothing is reached."""
    return watermark is not None and watermark >= time


def passed(watermark: int | None, time: int) -> bool:
    """W > time."""
    return watermark is not None and watermark > time


@dataclass
class Placement:
    """The fate of the rows of a batch that are in no window, or not in all of theirs."""

    late: list[tuple[Row, int]] = field(default_factory=list)
    evicted: list[tuple[Row, str]] = field(default_factory=list)
    outside: int = 0
    partial: int = 0
    accumulated: int = 0

    def add_late(self, row: Row, before: int | None, closed_at: int) -> None:
        assert before is not None
        self.late.append((row, max(0, before - closed_at) // 1000))


@dataclass(frozen=True)
class Limits:
    """Lateness and quotas, the same for every kind."""

    lateness: int
    max_groups: int | None
    max_rows: int | None


class Kind:
    """What all kinds do."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def place(self, rows: list[Row], before: int | None) -> Placement:
        raise NotImplementedError

    def join(self, row: Row, before: int | None) -> Placement:
        """Place a row alone, judged by the watermark at its place in its shard."""
        return self.place([row], before)

    def close(self, watermark: int | None) -> list[Closed]:
        """The windows that the watermark makes due."""
        raise NotImplementedError

    def early(self) -> list[Closed]:
        """The open windows whose provisional results go out."""
        raise NotImplementedError

    def drain(self) -> tuple[list[Closed], int | None]:
        """All windows, and the watermark at which all of them are closed."""
        raise NotImplementedError

    def flush(self) -> list[Closed]:
        return []
