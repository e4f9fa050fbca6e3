"""Which of the relations in FROM are tables that it joins to the stream."""

from __future__ import annotations

import pytest

from tidegate.frontend.binding.joins import joined_tables
from tidegate.frontend.grammar.source import read
from tidegate.frontend.reading.parse import select_of


@pytest.mark.parametrize(
    ("relation", "joined"),
    [
        ("clicks", ()),
        ("clicks JOIN users USING (user)", ("users",)),
        ("Clicks AS c LEFT JOIN users u ON c.user = u.user", ("u",)),
        ("users u JOIN clicks ON clicks.user = u.user", ("u",)),
        ("clicks c JOIN users a ON c.user = a.user JOIN users b ON c.user = b.user", ("a", "b")),
        ("(SELECT * FROM clicks) c JOIN (SELECT * FROM users) u ON c.user = u.user", ("u",)),
        ("slow JOIN known ON slow.user = known.user", ("known",)),
        ("clicks LATERAL VIEW explode(array(1, 2)) e AS n", ()),
    ],
)
def test_the_names_of_joined_tables(relation: str, joined: tuple[str, ...]) -> None:
    text = (
        "WITH slow AS (SELECT * FROM clicks WHERE ms > 9), known AS (SELECT user FROM users) "
        f"SELECT count(*) AS n FROM {relation} GROUP BY countwindow(3)"
    )
    assert joined_tables(select_of(read(text)), "clicks") == joined
