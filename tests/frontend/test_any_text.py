"""Whatever is written, the answer is a statement or a refusal with a place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.expressions import COLUMNS, EXPRESSIONS
from frontend.schema import RELATIONS
from frontend.test_parse import CALLS
from frontend.test_refusals import CLAUSES, GRAMMAR, MEANINGS, NAMES, PLACES, with_window
from tidegate.errors import QueryError
from tidegate.frontend.binding.bind import bind
from tidegate.frontend.reading.parse import parse
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation

EVENTS = Relation(name="events", columns=COLUMNS)
STATEMENTS = [
    *(f"SELECT who, count(*) AS n FROM clicks GROUP BY who, {call}" for call, _ in CALLS),
    *(f"SELECT count(*) AS n FROM clicks {clauses}" for clauses, _ in CLAUSES),
    *(with_window(text) for text, _ in (*GRAMMAR, *PLACES, *NAMES, *MEANINGS)),
    *(f"SELECT max({each}) FROM events GROUP BY countwindow(1)" for each in EXPRESSIONS),
]
WORDS = sorted(
    {word for text in STATEMENTS for word in re.findall(r"\w+|[^\w\s]", text)}
    | {"LATERAL VIEW", "UNION", "VALUES", "PIVOT", "TABLESAMPLE", "QUALIFY", "--", "/*", "\0", "é"}
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(STATEMENTS))
    pieces = re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", text)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(pieces) - 1)))
        word = draw(st.sampled_from(WORDS))
        match draw(st.sampled_from(["leave out", "put in", "replace", "repeat"])):
            case "leave out":
                pieces[place : place + 1] = []
            case "put in":
                pieces.insert(place, f" {word} ")
            case "replace":
                pieces[place : place + 1] = [word]
            case "repeat":
                pieces.insert(place, "".join(pieces[place : place + 4]))
    return "".join(pieces)


def refusal(text: str) -> QueryError | None:
    try:
        bind(parse(text), [*RELATIONS, EVENTS], Settings())
    except QueryError as error:
        return error
    return None


def answer(text: str) -> None:
    error = refusal(text)
    if error is not None:
        assert 0 <= error.span.start <= len(text)
        assert "^" in str(error)
        assert error.mend


@settings(max_examples=600, deadline=None)
@given(mutated())
def test_a_mutated_statement_is_accepted_or_refused(text: str) -> None:
    answer(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    answer(text)


@pytest.mark.parametrize(
    "expression",
    [
        "max((i + j)::decimal( \x00 10, 2))",
        "max(CAST(i AS decimal(x)))",
        "max(regexp_extract(s, '(b)', '²'))",
    ],
)
def test_a_number_that_is_none_is_no_fault_of_ours(expression: str) -> None:
    answer(f"SELECT {expression} FROM events GROUP BY countwindow(1)")


def test_deep_nesting_is_refused() -> None:
    text = f"SELECT {'(' * 3000}1{')' * 3000} FROM clicks GROUP BY countwindow(1)"
    assert "nested too deeply" in str(refusal(text))
