"""A case of a ``.case`` file as data, and the protocol of an engine that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tidegate.errors import TidegateError

# The clock of a plain ``batch``: 2100-01-01, so that no event time is in its future.
FAR_AHEAD_US = 4_102_444_800_000_000

# The kind of side output that each block checks.
SIDE_BLOCKS: dict[str, str] = {
    "late": "late",
    "errors": "error",
    "duplicates": "duplicate",
    "evicted": "evicted",
}

# The counters of a ``counts`` block.
COUNTERS = (
    "rows_in",
    "accumulated",
    "late",
    "error",
    "duplicate",
    "evicted",
    "filtered",
    "outside_windows",
    "partial",
)


class CaseError(TidegateError):
    """A ``.case`` file cannot be read: file, line, what is wrong and how to fix it."""

    def __init__(self, what: str, *, path: str, line: int, mend: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}, line {line}: {what}\n\n{mend}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a table as written; ``quoted`` text is never NULL, a number or a time."""

    text: str
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        return self.text == "NULL" and not self.quoted

    def __str__(self) -> str:
        return f'"{self.text}"' if self.quoted else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a stream or table and its Spark SQL type, in capitals."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The source of a case."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A static table; ``rows`` are typed values."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """An expected table: column names and cells; both empty for ``nothing``."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must be observed after a step; None where the case does not say."""

    emitted: Rows | None = None
    side: Mapping[str, Rows] = field(default_factory=dict)
    checks_watermark: bool = False
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows arrive, as typed values in the order of the stream's columns."""

    line: int
    rows: tuple[tuple[object, ...], ...]
    clock_us: int | None
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time passes without rows."""

    line: int
    clock_us: int
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The query is stopped and resumed from its checkpoint."""

    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The end of the stream."""

    line: int
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """``stop(flush=True)``: open state windows are emitted."""

    line: int
    expected: Expected


Step: TypeAlias = Batch | Clock | Stop | Drain | Flush


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case.

    ``ordered``: the order of emitted rows matters. ``any_cuts``: the case has ``cuts = "any"``.
    """

    path: str
    line: int
    name: str
    stream: Stream
    tables: tuple[Table, ...]
    settings: Mapping[str, object]
    any_cuts: bool
    query: str
    ordered: bool
    steps: tuple[Step, ...]
    final: Rows | None
    counts: Mapping[str, int]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRow:
    """A row of side output: the original row (or empty), the reason, and how late it was."""

    original: Mapping[str, object]
    reason: str | None = None
    late_by_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What an engine did in one step.

    ``emitted`` are rows by column name, in order; times are ``datetime`` with a zone. ``side`` is
    by kind: ``late``, ``error``, ``duplicate``, ``evicted``.
    """

    columns: tuple[str, ...]
    emitted: tuple[Mapping[str, object], ...] = ()
    side: Mapping[str, tuple[SideRow, ...]] = field(default_factory=dict)
    watermark_us: int | None = None


class CaseEngine(Protocol):
    """Runs the query of a case, step by step."""

    def batch(self, rows: tuple[tuple[object, ...], ...], clock_us: int | None) -> Observed:
        """Run a batch of rows; ``clock_us`` is None for a plain ``batch``."""

    def clock(self, clock_us: int) -> Observed:
        """Let time pass."""

    def stop(self) -> None:
        """Stop, and resume from the checkpoint."""

    def drain(self) -> Observed:
        """End the stream."""

    def flush(self) -> Observed:
        """Emit open state windows."""

    def counts(self) -> Mapping[str, int]:
        """The counters so far, by the names of ``COUNTERS``."""

    def close(self) -> None:
        """Release all resources."""


# Makes an engine for a case; raises TidegateError if the statement or a setting is refused.
EngineFactory: TypeAlias = Callable[[Case], CaseEngine]
