"""The kinds of side output: the table that settings, arguments, counts and docs follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutputKind:
    """A kind of rows that could not be used.

    Attributes:
        name: its key under ``side_output``, its counter in ``Counts`` and the ``kind`` of a record.
        argument: the argument of ``Query.start`` that takes its sink.
        example: the name of a sink, for help texts.
        has_results: whether failed results are also records of this kind.
    """

    name: str
    argument: str
    example: str
    has_results: bool = False


KINDS = (
    SideOutputKind(name="late", argument="late", example="late_rows"),
    SideOutputKind(name="error", argument="errors", example="bad_rows", has_results=True),
)
