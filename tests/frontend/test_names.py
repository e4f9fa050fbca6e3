"""Names are parts: no text of one name is mistaken for another, and none of a user's for ours."""

from __future__ import annotations

import pytest

from tidegate.frontend.binding.bind import bind
from tidegate.frontend.grammar.source import read
from tidegate.frontend.guards import guard, known_types
from tidegate.frontend.reading.parse import parse, select_of, streams_of
from tidegate.names import path
from tidegate.plan.settings import Settings
from tidegate.plan.statement import BoundQuery, Column, Relation

WINDOW = "GROUP BY tumblingwindow('ss', 10)"
COLUMNS = {
    "ts": "TIMESTAMP",
    "v": "INT",
    "v + 1": "INT",
    "a": "STRUCT<b: INT, `b.c`: INT>",
    "a.b": "INT",
    "a.b.c": "INT",
    "s.v": "INT",
    "_k0": "INT",
    "null": "INT",
    "`tick": "INT",
    "var": "VARIANT",
}
ODD = Relation(name="s", columns=tuple(Column(name=n, type=k) for n, k in COLUMNS.items()))
TABLE = Relation(
    name="t",
    columns=(Column(name="v", type="INT"), Column(name="w", type="INT")),
    streaming=False,
)


def bound(text: str) -> BoundQuery:
    return bind(parse(text), [ODD], Settings())


def arguments(text: str) -> list[str]:
    return [argument.expression.sql for argument in bound(text).arguments]


def keys(text: str) -> list[str]:
    return [key.expression.sql for key in bound(text).keys]


def items(text: str) -> list[str]:
    return [item.expression.sql for item in bound(text).items]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("`v + 1`", "v + 1"),
        ("`a.b`", "a.b"),
        ("`a.b.c`", "a.`b.c`"),
        ("`a.b`", "s.a.b"),
        ("`s.v`", "s.v"),
        ("`s.v`", "v"),
    ],
)
def test_a_quoted_name_is_not_an_expression_with_the_same_text(one: str, other: str) -> None:
    assert arguments(f"SELECT sum({one}) AS a, sum({other}) AS b FROM s {WINDOW}") == [one, other]
    assert arguments(f"SELECT {one} AS a, {other} AS b FROM s {WINDOW}") == [one, other]
    grouped = f"SELECT {one} AS a, {other} AS b, count(*) AS n FROM s {WINDOW}, {one}, {other}"
    assert keys(grouped) == [one, other]
    assert items(grouped) == ["_k0", "_k1", "_a0"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("`v`", "V"), ("s.v", "`S`.`v`"), ("a.b", "s.A.`B`"), ("`v + 1` + 1", "s.`V + 1` + 1")],
)
def test_a_name_written_in_two_ways_is_one(one: str, other: str) -> None:
    assert arguments(f"SELECT sum({one}) AS a, max({other}) AS b FROM s {WINDOW}") == [one]


def test_a_field_of_a_key_is_found_whatever_dots_are_in_names() -> None:
    text = f"SELECT a.b AS x, a.`b.c` AS y FROM s {WINDOW}, a"
    assert items(text) == ["_k0.b", "_k0.`b.c`"]


def test_having_and_order_by_distinguish_names_from_expressions() -> None:
    query = bound(
        f"SELECT count(*) AS n FROM s {WINDOW}, `v + 1`, v + 1 "
        "HAVING v + 1 > `v + 1` ORDER BY `v + 1`, v + 1"
    )
    assert query.having is not None
    assert query.having.sql == "_k1 > _k0"
    assert [each.expression.sql for each in query.order_by] == ["_k0", "_k1"]


def test_a_variable_of_a_lambda_is_not_taken_for_a_key() -> None:
    text = (
        "SELECT transform(collect_list(v), _k0 -> _k0 + `null`) AS x, "
        f"transform(collect_list(v), X -> x + `null`) AS y FROM s {WINDOW}, `null`"
    )
    assert items(text) == [
        "transform(_a0, variable_k0 -> variable_k0 + _k0)",
        "transform(_a0, X -> x + _k0)",
    ]


def test_a_variable_of_a_lambda_hides_a_column_whatever_its_case() -> None:
    text = f"SELECT transform(collect_list(v), V -> v + 1) AS x FROM s {WINDOW}"
    assert items(text) == ["transform(_a0, V -> v + 1)"]


def test_a_star_quotes_names_that_mean_something_else_to_spark() -> None:
    assert arguments(f"SELECT * FROM s {WINDOW}")[-3:-1] == ["`null`", "```tick`"]


def test_a_path_into_a_variant_is_read_and_case_matters_in_it() -> None:
    text = (
        "SELECT sum(var:x.y[0]::INT) AS a, sum(VAR:x.y[0]::int) AS b, sum(var:x.Y[0]::INT) AS c, "
        f"count(var:['x y']) AS d FROM s {WINDOW}"
    )
    assert arguments(text) == ["var:x.y[0]::INT", "var:x.Y[0]::INT", "var:['x y']"]


def test_operators_on_bits_bind_as_in_spark() -> None:
    assert keys(f"SELECT v | `null` & _k0 AS x FROM s {WINDOW}, `null` & _k0, v") == [
        "`null` & _k0",
        "v",
    ]
    assert items(f"SELECT v | `null` & _k0 AS x FROM s {WINDOW}, `null` & _k0, v") == ["_k1 | _k0"]
    assert items(f"SELECT v & `null` >>> _k0 AS x FROM s {WINDOW}, `null` >>> _k0, v") == [
        "_k1 & _k0"
    ]


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("WITH s AS (SELECT * FROM s) SELECT v FROM s", ["s"]),
        ("WITH a AS (WITH a AS (SELECT * FROM s) SELECT * FROM a) SELECT v FROM a", ["s"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT v FROM b", ["b"]),
        (
            "WITH a AS (SELECT * FROM s), b AS (WITH a AS (SELECT 1) SELECT * FROM a) SELECT v "
            "FROM a",
            ["s"],
        ),
    ],
)
def test_a_name_in_a_with_clause_means_what_it_means_to_spark(
    text: str, streams: list[str]
) -> None:
    select = select_of(read(f"{text} {WINDOW}"))
    assert [each.sql for each in streams_of(select)] == streams


@pytest.mark.parametrize(
    ("relation", "row"),
    [
        ("s", "s.*"),
        ("s AS x", "x.*"),
        ("s AS `x y`", "`x y`.*"),
        ("(SELECT v FROM s) x", "x.*"),
        ("(SELECT v FROM s)", "*"),
        ("t JOIN s USING (v)", "s.*"),
        ("c JOIN t ON c.v = t.v", "c.*"),
    ],
)
def test_the_original_row_is_that_of_the_stream(relation: str, row: str) -> None:
    text = f"WITH c AS (SELECT v FROM s) SELECT count(*) AS n FROM {relation} {WINDOW}"
    assert bind(parse(text), [ODD, TABLE], Settings()).original_row == row


def test_a_column_is_not_confused_with_a_field_of_the_same_dotted_name() -> None:
    columns = {path("a"): "STRUCT<b: STRING>", path("a.b"): "INT", path("s", "v"): "INT"}
    kinds = known_types(columns)
    assert guard("CAST(`a.b` AS BIGINT)", kinds).error is None
    assert guard("CAST(a.b AS BIGINT)", kinds).error is not None
    assert guard("CAST(s.v AS BIGINT)", kinds).error is None
