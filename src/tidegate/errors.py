"""The errors that a user can see: what is wrong, where, and what to do.

One class for each kind of thing a user can fix. Our own bugs are an ``assert``, never one of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range ``[start, end)`` of character offsets in the text of a statement."""

    start: int
    end: int


class TidegateError(Exception):
    """The base of all errors that a user can fix; ``str(error)`` is the whole message.

    Attributes:
        transient: the kind of cause (``kafka``, ``database``, ..) if the failure may pass by
            itself, so that starting again may be enough; None if it stays.
        transform: the name of the query that failed, of several that run together; None: the first.
    """

    transient: str | None = None
    transform: str | None = None


class ConfigError(TidegateError):
    """A setting or a configuration file is wrong."""


class StateError(TidegateError):
    """A checkpoint cannot be used: it belongs to another query, or parts of it are missing."""


class ExecutionError(TidegateError):
    """A query stopped while running."""


class QueryError(TidegateError):
    """A statement is refused.

    The message has three parts, separated by blank lines: the place and what is wrong; the line of
    the statement with carets under the place; what to do.

    Args:
        what: what is wrong, with the value and the rule, without a full stop.
        sql: the whole statement.
        span: the place in ``sql``.
        mend: what to write instead, a full sentence.
        origin: where the statement comes from, e.g. ``query`` or ``pipeline.toml,
            transforms.delays.sql``.
    """

    def __init__(
        self, what: str, *, sql: str, span: Span, mend: str, origin: str = "query"
    ) -> None:
        self.what = what
        self.sql = sql
        self.span = span
        self.mend = mend
        self.origin = origin
        super().__init__(self._render())

    @property
    def line(self) -> int:
        """The line of the place, from 1."""
        return self.sql.count("\n", 0, self._start) + 1

    @property
    def column(self) -> int:
        """The column of the place, from 1, in characters."""
        return self._start - self._line_start + 1

    @property
    def _start(self) -> int:
        return max(0, min(self.span.start, len(self.sql)))

    @property
    def _line_start(self) -> int:
        return self.sql.rfind("\n", 0, self._start) + 1

    def _render(self) -> str:
        line_end = self.sql.find("\n", self._start)
        text = self.sql[self._line_start : len(self.sql) if line_end < 0 else line_end]
        width = max(1, min(self.span.end, self._line_start + len(text)) - self._start)
        margin = f"  {self.line} | "
        gutter = " " * (len(margin) - 2) + "| "
        # A tab before the place stays a tab, so that the carets line up.
        indent = "".join("\t" if c == "\t" else " " for c in text[: self.column - 1])
        return (
            f"{self.origin}, line {self.line}, column {self.column}: {self.what}\n\n"
            f"{margin}{text}\n{gutter}{indent}{'^' * width}\n\n{self.mend}"
        )


@contextmanager
def naming(transform: str) -> Iterator[None]:
    """Note the name of a query on a failure in it, unless another name is there already."""
    try:
        yield
    except Exception as error:
        if getattr(error, "transform", None) is None:
            with suppress(AttributeError):
                error.transform = transform  # type: ignore[attr-defined]
        raise
