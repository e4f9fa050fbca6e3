"""An expression that cannot stop the query, with the error of a row on which it would have.

``frontend/guards`` makes one from the text of an expression. The engine computes both texts side by
side, and Spark computes common parts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Reasons of row errors.
DIVISION_BY_ZERO = "division_by_zero"
INVALID_ARGUMENT = "invalid_argument"
INVALID_CAST = "invalid_cast"
INVALID_INDEX = "invalid_index"
OVERFLOW = "overflow"
RAISED = "raised"

# The reason of a row whose record could not be read whole: no expression failed on it.
MALFORMED_RECORD = "malformed_record"

ROW_ERROR_REASONS = {
    DIVISION_BY_ZERO: "a divisor is 0",
    INVALID_ARGUMENT: "a function cannot work with the value it is given",
    INVALID_CAST: "a value cannot be read as another type",
    INVALID_INDEX: "an array has no element at the index",
    OVERFLOW: "a result, or a value to cast, is out of the range of the type",
    RAISED: "the statement raises it with raise_error or assert_true",
}

_SEPARATOR = ": "


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A guarded expression as Spark SQL texts.

    Attributes:
        safe: the expression, of the same type; a failing part is NULL and it never raises.
        suspect: BOOLEAN, true for every row on which something fails (and for others); None if
            nothing can fail, and ``safe`` is then the expression as written.
        error: STRING, NULL for a row on which nothing fails, else the reason and the text of the
            first failing part, ``division_by_zero: total / parts``; None if nothing can fail.
    """

    safe: str
    suspect: str | None = None
    error: str | None = None


def first_error(guards: Iterable[Guarded], where: Guarded | None = None) -> str | None:
    """Return SQL for the first error of a row; None if nothing can fail.

    One OR of all suspicions comes first. Spark always computes it, so it can share common parts
    with the expressions themselves. The errors are computed for suspect rows only.

    Args:
        guards: the expressions computed for the row.
        where: the WHERE clause. Its error comes first, and a row that it removes has no error.
    """
    others = [each for each in guards if each.error is not None]
    errors = [each.error for each in others if each.error is not None]
    suspects = [each.suspect for each in others if each.suspect is not None]
    error = _coalesced(errors)
    if where is not None and error is not None:
        error = f"CASE WHEN {where.safe} THEN {error} END"
    if where is not None and where.error is not None and where.suspect is not None:
        suspects = [where.suspect, *suspects]
        error = _coalesced([where.error, *([error] if error is not None else [])])
    if error is None:
        return None
    return f"CASE WHEN {' OR '.join(f'({each})' for each in suspects)} THEN {error} END"


def _coalesced(errors: list[str]) -> str | None:
    return errors[0] if len(errors) == 1 else f"coalesce({', '.join(errors)})" if errors else None


def malformed_error(text: str) -> str:
    """Return the text that gives the error of a malformed record by the column of its text."""
    return f"concat('{MALFORMED_RECORD}{_SEPARATOR}', {text})"


def is_malformed(error: str) -> str:
    """Return the condition under which an error is that of a malformed record."""
    return f"startswith({error}, '{MALFORMED_RECORD}{_SEPARATOR}')"


def reason_sql(error: str) -> str:
    """Return SQL that extracts the reason of an error."""
    return f"substring_index({error}, '{_SEPARATOR}', 1)"


def detail_sql(error: str) -> str:
    """Return SQL that extracts the failing expression of an error."""
    return f"substring({error}, position('{_SEPARATOR}' IN {error}) + {len(_SEPARATOR)})"


def error_literal(reason: str, detail: str) -> str:
    """Return a reason and the text of an expression as one SQL literal."""
    return f"'{_escaped(f'{reason}{_SEPARATOR}{detail}')}'"


def reasons_of(guarded: Guarded) -> dict[str, tuple[str, ...]]:
    """Return the reasons for which an expression can fail, each with the parts that can."""
    found: dict[str, list[str]] = {}
    for literal in _LITERAL.finditer(guarded.error or ""):
        reason, _, detail = literal[0][1:-1].partition(_SEPARATOR)
        detail = re.sub(r"\\(.)", r"\1", detail)
        parts = found.setdefault(reason, [])
        parts += [] if detail in parts else [detail]
    return {reason: tuple(parts) for reason, parts in found.items()}


def in_words(error: str, words: Mapping[str, str]) -> str:
    """Return an error with the names of columns in its details replaced by ``words``."""

    def said(name: re.Match[str]) -> str:
        return _escaped(words.get(name[0], name[0]))

    return _LITERAL.sub(lambda literal: re.sub(r"\b_\w+\b", said, literal[0]), error)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")


# A result of ``error_literal`` within the text of an error.
_LITERAL = re.compile(rf"'(?:{'|'.join(ROW_ERROR_REASONS)}){_SEPARATOR}(?:[^'\\]|\\.)*'")
