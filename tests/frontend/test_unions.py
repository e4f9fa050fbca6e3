"""Streams that FROM unites: what they become, and what is refused, with its place in «..»."""

from __future__ import annotations

import pytest

from frontend.schema import marked
from tidegate.compile import Compiled, compile_statement
from tidegate.errors import QueryError
from tidegate.plan.columns import SOURCE
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation

COLUMNS = parse_schema("ts TIMESTAMP, v INT")
RELATIONS = (
    Relation(name="a", columns=COLUMNS),
    Relation(name="b", columns=COLUMNS[::-1]),
    Relation(name="c", columns=None),
    Relation(name="other", columns=COLUMNS[:1]),
    Relation(name="t", columns=COLUMNS, streaming=False),
    Relation(name="k", columns=COLUMNS, streaming=False),
)


def compiled(text: str) -> Compiled:
    window = " GROUP BY tumblingwindow('ss', 10)"
    return compile_statement(text + window, RELATIONS, Settings(event_time_field="ts"))


@pytest.mark.parametrize(
    ("from_", "members", "relation", "row"),
    [
        ("a UNION ALL b", "a b", "`a UNION ALL b`", "`a UNION ALL b`.*"),
        ("A union all `b`", "a b", "`a UNION ALL b`", "`a UNION ALL b`.*"),
        ("a UNION ALL b UNION ALL c", "a b c", "`a UNION ALL b UNION ALL c`", None),
        ("a UNION ALL b e", "a b", "`a UNION ALL b` e", "e.*"),
        ("a UNION ALL BY NAME b", "a b", "`a UNION ALL b`", None),
        (
            "(a UNION ALL b) AS e JOIN t ON e.v = t.v",
            "a b",
            "`a UNION ALL b` AS e JOIN t ON",
            "e.*",
        ),
        ("(SELECT * FROM a UNION ALL SELECT * FROM b)", "a b", "`a UNION ALL b`", None),
        ("((SELECT * FROM a) UNION ALL (SELECT * FROM b)) e", "a b", "`a UNION ALL b` e", "e.*"),
    ],
)
def test_streams_that_from_unites_are_one_stream_of_which_each_is_a_shard(
    from_: str, members: str, relation: str, row: str | None
) -> None:
    field = "e.ts" if "JOIN" in from_ else "ts"
    plan = compiled(f"SELECT max({field}) AS last FROM {from_}").physical.prepare
    assert plan.source.members == tuple(members.split())
    assert plan.source.united
    assert plan.source.name == " UNION ALL ".join(plan.source.members)
    assert plan.source.columns == COLUMNS
    assert plan.from_clause.relation.startswith(relation)
    assert plan.watermark.shard == SOURCE
    assert row is None or plan.original_row == row


def test_tables_may_be_united_in_a_subquery_beside_a_stream() -> None:
    union = "(SELECT * FROM t UNION SELECT * FROM k)"
    plan = compiled(f"SELECT count(*) AS n FROM a JOIN {union} u ON a.v = u.v").physical.prepare
    assert plan.source == RELATIONS[0]
    assert plan.from_clause.relation == f"a JOIN {union} u ON a.v = u.v"


REFUSED = [
    ("«a UNION b»", "UNION compares all rows of the streams with each other", "a UNION ALL b"),
    ("«a EXCEPT b»", "EXCEPT compares all rows", "Write FROM a UNION ALL b"),
    ("(«SELECT * FROM a INTERSECT SELECT * FROM b»)", "INTERSECT compares all", "UNION ALL b"),
    ("a UNION ALL «a»", "a is united with itself", "Name each stream once."),
    ("«a UNION ALL other»", "a has the column v, other has not", "matched by name, in any order"),
    ("a UNION ALL «t»", "t is a table", "joined"),
    ("a UNION ALL «bb»", "there is no stream or table bb", "Did you mean b?"),
    ("(«SELECT v, ts FROM a UNION ALL SELECT ts, v FROM b»)", "hides which", "FROM a UNION ALL b"),
    ("(«SELECT * FROM a WHERE v > 1 UNION ALL SELECT * FROM b») x", "hides which", "UNION ALL b"),
    ("t JOIN «a UNION ALL b» ON true", "united only right after FROM", "FROM a UNION ALL b"),
    ("a x «UNION» ALL b", "an alias of the whole union goes after it", "FROM stream"),
    ("a JOIN «b» ON a.v = b.v", "a and b are both streams", "FROM a UNION ALL b"),
    ("a UNION ALL b JOIN «c» ON true", "a UNION ALL b and c are both streams", "UNION ALL"),
]


def check(text: str, what: str, mend: str) -> None:
    plain, start, end = marked(text)
    with pytest.raises(QueryError) as caught:
        compiled(plain)
    error = caught.value
    assert what in error.what
    assert mend in error.mend
    assert (error.span.start, error.span.end) == (start, end)


@pytest.mark.parametrize(("from_", "what", "mend"), REFUSED)
def test_streams_that_cannot_be_united_are_refused_at_their_place(
    from_: str, what: str, mend: str
) -> None:
    check(f"SELECT count(*) AS n FROM {from_}", what, mend)


def test_streams_are_not_united_in_a_with_clause() -> None:
    union = "SELECT * FROM a UNION ALL SELECT * FROM b"
    text = f"WITH e AS («{union}») SELECT count(*) AS n FROM e"
    check(text, "united only right after FROM", "FROM a UNION ALL b")
    text = "WITH e AS (SELECT * FROM a) SELECT count(*) AS n FROM «e» UNION ALL b"
    check(text, "e is a query in WITH", "Name the streams themselves.")
