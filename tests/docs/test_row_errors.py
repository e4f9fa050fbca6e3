"""The page on row errors lists every reason, and its examples fail for the reasons it gives."""

from __future__ import annotations

import re

import pytest

from docs.pages import first_cells, section
from tidegate.frontend.guards import guard, known_types
from tidegate.plan.guarded import ROW_ERROR_REASONS

TYPES: dict[str, str | None] = {
    **dict.fromkeys("abymd", "INT"),
    "l": "BIGINT",
    "s": "STRING",
    "p": "STRING",
    "list": "ARRAY<INT>",
}
REASONS = [row for row in first_cells(section("row-errors.md", "Reasons")) if row[0] != "reason"]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_the_page_lists_every_reason_as_in_the_code() -> None:
    assert {code(name)[0]: what for name, what, _ in REASONS} == ROW_ERROR_REASONS


@pytest.mark.parametrize(
    ("reason", "text"),
    [(code(name)[0], text) for name, _, examples in REASONS for text in code(examples)],
)
def test_an_example_of_a_reason_can_fail_for_it(reason: str, text: str) -> None:
    error = guard(text, known_types(TYPES)).error
    assert error is not None
    assert f"'{reason}: " in error


def test_the_rewritten_forms_on_the_page_are_those_of_guard() -> None:
    rows = first_cells(section("row-errors.md", "How it is done"))
    forms = {code(row[0])[0]: code(row[1])[0] for row in rows if code(row[0])}
    types = known_types(TYPES | {"i": "INT"})
    assert {text: guard(text, types).safe for text in forms} == forms
