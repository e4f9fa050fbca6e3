"""Thousands of broken statements: each is taken or refused with a place, and none hangs."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest

from tidegate.cases import Case, read_cases
from tidegate.compile import compile_statement
from tidegate.errors import ConfigError, QueryError
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Column, Relation

CASES = [
    case
    for file in sorted(Path(__file__).parents[1].joinpath("spec").glob("*.case"))
    for case in read_cases(file)
]
TOKEN = re.compile(r"\s+|\w+|'[^']*'|[^\w\s]")
WORDS = sorted({word for case in CASES for word in TOKEN.findall(case.query) if word.strip()})
STRANGE = (
    "' \" ` /* -- ( ) [ ] { ; , \0 é \u2028 \ufeff 🌊 -> => :: : ? @x $ \\ 0x 1e999 "
    "AS CASE END IN INTERVAL UNION VALUES"
).split(" ")
STRANGE += ["AS 1", "a AS 1", "* EXCEPT (v)", "OVER ()", "ORDER BY ts", "9" * 40]
STATEMENTS = 3_000
# One may take long because the machine is busy; a hang takes longer.
LONGEST_SECONDS = 5.0


def relations(case: Case) -> list[Relation]:
    given = [case.stream, *case.tables]
    return [
        Relation(
            name=each.name,
            columns=tuple(Column(name=column.name, type=column.type) for column in each.columns),
            streaming=place == 0,
        )
        for place, each in enumerate(given)
    ]


def mutated(statement: str, chance: random.Random) -> str:
    pieces = TOKEN.findall(statement)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, other = chance.randrange(len(pieces) + 1), chance.randrange(len(pieces) + 1)
        match chance.randrange(9):
            case 0:
                del pieces[at : at + 1]
            case 1:
                pieces[at:at] = pieces[at : at + chance.randint(1, 5)]
            case 2:
                pieces[min(at, other) : max(at, other)] = []
            case 3 if pieces:
                a, b = at % len(pieces), other % len(pieces)
                pieces[a], pieces[b] = pieces[b], pieces[a]
            case 4:
                pieces.insert(at, f" {chance.choice(WORDS)} ")
            case 5:
                pieces[at : at + 1] = [chance.choice(WORDS)]
            case 6:
                pieces.insert(at, f" {chance.choice(STRANGE)} ")
            case 7:
                pieces[at : at + 1] = [chance.choice(STRANGE)]
            case _:
                ends = [place for place, piece in enumerate(pieces) if piece in "),"] or [at]
                pieces.insert(chance.choice(ends), f" {chance.choice(STRANGE)} ")
        pieces = pieces or [" "]
    return "".join(pieces)


def refusal(text: str, known: list[Relation]) -> QueryError | ConfigError | None:
    """Return what a user is told of a statement; None when it can be planned."""
    try:
        compile_statement(text, known, Settings())
    except (QueryError, ConfigError) as error:
        return error
    return None


def answer(text: str, known: list[Relation]) -> None:
    """Plan a statement, or see that its refusal has a place and a mend."""
    error = refusal(text, known)
    if isinstance(error, QueryError):
        assert 0 <= error.span.start <= len(text)
        assert "^" in str(error)
        assert error.what.strip()
        assert error.mend.strip()


@pytest.mark.parametrize("seed", range(4))
def test_a_broken_statement_of_a_case_is_taken_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    known = [relations(case) for case in CASES]
    times = [monotonic()]
    for _ in range(STATEMENTS // 4):
        place = chance.randrange(len(CASES))
        text = mutated(CASES[place].query, chance)
        try:
            answer(text, known[place])
        except Exception as error:
            error.add_note(f"the statement was {text!r}")
            raise
        times.append(monotonic())
    assert max(after - before for before, after in pairwise(times)) < LONGEST_SECONDS
