"""A refusal that does not know yet which statement it is about."""

from __future__ import annotations

from tidegate.errors import QueryError, Span


class Refusal(Exception):
    """What is wrong, where in the text, and how to fix it."""

    def __init__(self, what: str, span: Span, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.span = span
        self.mend = mend

    def error(self, text: str, origin: str) -> QueryError:
        """Return the error about a statement."""
        return QueryError(self.what, sql=text, span=self.span, mend=self.mend, origin=origin)
