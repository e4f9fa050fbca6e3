"""What a guarded expression is written as, and what is left as it was."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.expressions import COLUMNS, EXPRESSIONS
from tidegate.errors import TidegateError
from tidegate.frontend.binding.functions import known_functions
from tidegate.frontend.guards import guard, guard_argument, guard_from, known_types
from tidegate.frontend.guards.functions import LIKELY_REASONS, SIGNATURES, TWINS
from tidegate.frontend.guards.special import SPECIAL
from tidegate.frontend.guards.types import read_type
from tidegate.plan.guarded import ROW_ERROR_REASONS, Guarded, error_literal, first_error
from tidegate.plan.types import SqlType, decimal_result

TYPES = known_types(
    {
        "i": "INT",
        "j": "INT",
        "l": "BIGINT",
        "d": "DOUBLE",
        "s": "STRING",
        "price": "DECIMAL(10,2)",
        "wide": "DECIMAL(38,2)",
        "ts": "TIMESTAMP",
        "dt": "DATE",
        "list": "ARRAY<INT>",
        "map": "MAP<STRING, INT>",
        "rec": "STRUCT<x: INT, y: STRUCT<z: STRING>>",
        "info.v": "STRING",
        "odd": None,
    }
)


def safe(text: str) -> str:
    return guard(text, TYPES).safe


def error(text: str) -> str | None:
    return guard(text, TYPES).error


@pytest.mark.parametrize(
    "text",
    [
        "i",
        "i = 1 AND s = 'x'",
        "d + 1",
        "d * d - 2.5D",
        "d / 2",
        "i / 2",
        "i % 7",
        "i div 7",
        "-1",
        "-d",
        "price + price",
        "price * price",
        "price / 4",
        "CAST(i AS BIGINT)",
        "CAST(i AS STRING)",
        "CAST(price AS DOUBLE)",
        "i::DOUBLE",
        "string(i)",
        "DATE '2026-01-01' < dt",
        "1L + 0 * 1.5D",
        "s || i",
        "upper(s)",
        "substring(s, 2, 3)",
        "hour(ts)",
        "year(dt)",
        "dt + 1",
        "date_trunc('HOUR', ts)",
        "map['a']",
        "rec.y.z",
        "size(list)",
        "transform(list, x -> x > 1)",
        "CASE WHEN i > 1 THEN s ELSE 'none' END",
        "coalesce(i, 0)",
        "s IN ('a', 'b')",
        "s LIKE 'a%'",
        "try_cast(s AS INT)",
        "try_divide(i, j)",
        "try_element_at(list, 5)",
        "INTERVAL 1 DAY 2 HOURS",
        "i IS NOT NULL",
        "my_function(i, s)",
        "`i` /* as it is */ <=> J",
    ],
)
def test_an_expression_that_cannot_fail_stays_as_written(text: str) -> None:
    assert guard(text, TYPES) == Guarded(safe=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i / j", "try_divide(i, j)"),
        ("i + j * 2 - 3", "try_subtract(try_add(i, try_multiply(j, 2)), 3)"),
        ("(i + 1) * d", "(try_add(i, 1)) * d"),
        ("i % j", "try_mod(i, j)"),
        ("i div j", "CASE WHEN (j = 0 AND i IS NOT NULL) THEN NULL ELSE i div j END"),
        ("-i", "try_subtract(0, i)"),
        ("-l", "try_subtract(0L, l)"),
        ("wide * 2", "try_multiply(wide, 2)"),
        ("CAST(s AS DECIMAL(5, 2))", "try_cast(s AS DECIMAL(5, 2))"),
        ("s::int", "try_cast(s AS int)"),
        ("bigint(d)", "try_cast(d AS BIGINT)"),
        ("s = 1", "try_cast(s AS BIGINT) = 1"),
        ("info.v > 1.5", "try_cast(info.v AS DOUBLE) > 1.5"),
        ("s NOT IN (1, 2)", "try_cast(s AS BIGINT) NOT IN (1, 2)"),
        ("dt > s", "dt > try_cast(s AS DATE)"),
        ("coalesce(s, 0)", "coalesce(try_cast(s AS BIGINT), 0)"),
        ("list[i]", "get(list, i)"),
        ("list[l]", "CASE WHEN (l < 0 OR l >= array_size(list)) THEN NULL ELSE list[l] END"),
        ("element_at(list, 2)", "try_element_at(list, 2)"),
        ("to_date(s)", "try_to_date(s)"),
        ("to_timestamp(s, 'yyyy')", "try_to_timestamp(s, 'yyyy')"),
        ("year(s)", "year(try_cast(s AS DATE))"),
        ("substring(s FROM l FOR 3)", "substring(s FROM try_cast(l AS INT) FOR 3)"),
        ("my_function(i / j)", "my_function(try_divide(i, j))"),
        (
            "CASE WHEN i = 1 THEN i / j ELSE 0 END",
            "CASE WHEN i = 1 THEN try_divide(i, j) ELSE 0 END",
        ),
        ("i / j IS NULL", "try_divide(i, j) IS NULL"),
        ("raise_error('no')", "NULL"),
        ("try_add(s, 1)", "try_add(try_cast(s AS BIGINT), 1)"),
    ],
)
def test_an_expression_that_can_fail_gets_the_form_that_yields_null(
    text: str, expected: str
) -> None:
    assert safe(text) == expected


@pytest.mark.parametrize(
    ("text", "value", "fails", "told"),
    [
        ("i / j", "try_divide(i, j)", "j = 0 AND i IS NOT NULL", "division_by_zero: i / j"),
        ("1 / j", "try_divide(1, j)", "j = 0", "division_by_zero: 1 / j"),
        (
            "CAST(s AS INT)",
            "try_cast(s AS INT)",
            "try_cast(s AS INT) IS NULL AND s IS NOT NULL",
            "invalid_cast: CAST(s AS INT)",
        ),
        (
            "list[i]",
            "get(list, i)",
            "i < 0 OR i >= array_size(list)",
            "invalid_index: list[i]",
        ),
        ("list[0]", "get(list, 0)", "0 >= array_size(list)", "invalid_index: list[0]"),
        (
            "s = 1",
            "(try_cast(s AS BIGINT) = 1)",
            "try_cast(s AS BIGINT) IS NULL AND s IS NOT NULL",
            "invalid_cast: s",
        ),
    ],
)
def test_an_error_looks_at_null_values_only_and_names_what_the_user_wrote(
    text: str, value: str, fails: str, told: str
) -> None:
    guarded = guard(text, TYPES)
    assert guarded.suspect == f"{value} IS NULL"
    assert guarded.error == f"CASE WHEN {fails} THEN '{told}' END"


def test_a_branch_that_is_not_taken_is_not_an_error() -> None:
    assert error("CASE WHEN j = 0 THEN 0 ELSE i / j END") == (
        "CASE WHEN ((j = 0) IS NOT TRUE) AND (j = 0 AND i IS NOT NULL) "
        "THEN 'division_by_zero: i / j' END"
    )
    assert error("j <> 0 AND i / j > 1") == (
        "CASE WHEN ((j <> 0) IS NOT FALSE) AND (j = 0 AND i IS NOT NULL) "
        "THEN 'division_by_zero: i / j' END"
    )


def test_a_fault_that_can_hide_behind_a_value_makes_the_row_suspect() -> None:
    assert guard("coalesce(i / j, 0)", TYPES).suspect == "(j = 0 AND i IS NOT NULL)"
    assert guard("coalesce(i / j, 0) = 1 OR i % j = 2", TYPES).suspect == (
        "(j = 0 AND i IS NOT NULL) OR "
        "(((coalesce(try_divide(i, j), 0) = 1) IS NOT TRUE) AND (j = 0 AND i IS NOT NULL))"
    )


def test_of_several_errors_the_first_in_the_text_is_named() -> None:
    found = error("CAST(s AS INT) / j")
    assert found is not None
    assert found.index("'invalid_cast: CAST(s AS INT)'") < found.index("'division_by_zero: ")


def test_an_error_that_occurs_twice_is_named_once() -> None:
    found = error("i / j + i / j")
    assert found is not None
    assert found.count("'division_by_zero: i / j'") == 1


def test_quotes_and_line_breaks_of_the_text_are_escaped_in_an_error() -> None:
    found = error("to_date(s,\n   'dd\\'MM')")
    assert found is not None
    assert "'invalid_cast: to_date(s, \\'dd\\\\\\'MM\\')'" in found
    assert error_literal("overflow", "a\n  b") == "'overflow: a b'"


def test_a_call_with_a_lambda_that_can_fail_goes_into_a_net() -> None:
    text = "transform(list, x -> i / x)"
    net = f"try_add(INTERVAL '0' DAY, reduce(array({text}), INTERVAL '0' DAY, (sum, each) -> sum))"
    assert safe(text) == f"CASE WHEN {net} IS NOT NULL THEN {text} END"
    assert error(text) == f"CASE WHEN {net} IS NULL THEN 'division_by_zero: {text}' END"


def test_an_unknown_function_goes_into_a_net_but_the_users_own_does_not() -> None:
    assert safe("make_date(i, 1, 1)").startswith("CASE WHEN try_add(")
    assert safe("my_function(i, 1, 1)") == "my_function(i, 1, 1)"


def test_a_net_contains_the_text_as_written_and_no_other_nets() -> None:
    nested = "conv(conv(conv(s, 10, 36), 36, 16), 16, 10)"
    assert safe(nested).count("conv(") == 6


def test_a_wrong_literal_is_a_mistake_of_the_statement() -> None:
    assert safe("s RLIKE '('") == "s RLIKE '('"
    assert safe("s RLIKE odd").startswith("CASE WHEN try_add(")


def test_an_operation_on_an_unknown_type_can_fail() -> None:
    assert safe("odd + 1").startswith("CASE WHEN try_add(")
    assert safe("coalesce(odd, 1)").startswith("CASE WHEN try_add(")
    assert safe("coalesce(odd, 'none')") == "coalesce(odd, 'none')"
    assert safe("odd > 1").startswith("CASE WHEN try_add(")
    assert safe("missing::INT") == "try_cast(missing AS INT)"


def test_a_subquery_is_left_alone() -> None:
    text = "i IN (SELECT CAST(v AS INT) FROM info)"
    assert guard(text, TYPES) == Guarded(safe=text)


def test_text_under_an_aggregate_of_numbers_is_an_error_where_it_is_no_number() -> None:
    found = guard_argument("s", TYPES, ["count", "sum"])
    kept = "CASE WHEN try_cast(s AS DOUBLE) IS NOT NULL THEN s END"
    fails = "try_cast(s AS DOUBLE) IS NULL AND s IS NOT NULL"
    assert found == Guarded(
        safe=kept,
        suspect=f"({kept}) IS NULL",
        error=f"CASE WHEN {fails} THEN 'invalid_cast: s' END",
    )
    assert guard_argument("s", TYPES, ["count", "max"]) == Guarded(safe="s")
    condition = guard_argument("s", TYPES, ["bool_and"])
    assert condition.safe == "CASE WHEN try_cast(s AS BOOLEAN) IS NOT NULL THEN s END"
    assert guard_argument("i", TYPES, ["sum"]) == Guarded(safe="i")


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_every_way_to_write_an_expression_is_understood_with_types_and_without(text: str) -> None:
    for columns in ({column.name: column.type for column in COLUMNS}, {}):
        types = known_types(columns)
        guarded = guard(text, types)
        again = guard(guarded.safe, types)
        assert (guarded.error is None) <= (guarded.safe == text)
        assert again.safe


@settings(deadline=None)
@given(
    st.recursive(
        st.sampled_from(["i", "j", "d", "s", "odd", "1", "2.5", "NULL", "list[i]", "rec.x"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/%=<"), inner).map(lambda t: f"({' '.join(t)})"),
            inner.map(lambda t: f"CAST({t} AS INT)"),
            inner.map(lambda t: f"-({t})"),
            st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
            st.tuples(inner, inner, inner).map(
                lambda t: f"CASE WHEN {t[0]} IS NULL THEN {t[1]} ELSE {t[2]} END"
            ),
        ),
        max_leaves=8,
    )
)
def test_brackets_stay_in_balance_and_operations_have_their_form(text: str) -> None:
    guarded = guard(text, TYPES)
    for made in (guarded.safe, guarded.suspect or "", guarded.error or ""):
        assert made.count("(") == made.count(")")
        assert made.count("CASE") == made.count(" END")
        # What is made can be read again.
        assert not made or guard(made, TYPES)


def test_errors_of_several_expressions_are_one_and_those_of_where_come_first() -> None:
    one, two = (Guarded(safe=f"v{n}", suspect=f"s{n}", error=f"e{n}") for n in (1, 2))
    plain = Guarded(safe="v")
    assert first_error([plain, plain], plain) is None
    assert first_error([plain, one]) == "CASE WHEN (s1) THEN e1 END"
    assert first_error([one, two]) == "CASE WHEN (s1) OR (s2) THEN coalesce(e1, e2) END"
    assert first_error([one], plain) == "CASE WHEN (s1) THEN CASE WHEN v THEN e1 END END"
    assert first_error([plain], one) == "CASE WHEN (s1) THEN e1 END"
    assert first_error([two], one) == (
        "CASE WHEN (s1) OR (s2) THEN coalesce(e1, CASE WHEN v1 THEN e2 END) END"
    )


def test_the_tables_name_existing_functions_and_documented_reasons() -> None:
    functions = known_functions().names
    named = SIGNATURES.keys() | TWINS.keys() | SPECIAL.keys()
    named |= {twin.name for twin in TWINS.values()}
    named |= {name for names in LIKELY_REASONS.values() for name in names}
    assert named - functions == set()
    assert LIKELY_REASONS.keys() <= ROW_ERROR_REASONS.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(10,2)", SqlType(name="DECIMAL", precision=10, scale=2)),
        ("DECIMAL", SqlType(name="DECIMAL", precision=10, scale=0)),
        ("integer", SqlType(name="INT")),
        ("varchar(20)", SqlType(name="STRING")),
        ("string collate UTF8_LCASE", SqlType(name="STRING")),
        ("interval day to second", SqlType(name="INTERVAL")),
        ("array<int>", SqlType(name="ARRAY", element=SqlType(name="INT"))),
        (
            "map<string,decimal(5,1)>",
            SqlType(
                name="MAP",
                key=SqlType(name="STRING"),
                element=SqlType(name="DECIMAL", precision=5, scale=1),
            ),
        ),
        ("", None),
        ("something new<", None),
        ("decimal(x, 2)", None),
        ("decimal( \x00 10, 2)", None),
    ],
)
def test_types_are_read_as_ddl_and_as_spark_shows_them(text: str, expected: SqlType | None) -> None:
    assert read_type(text) == expected


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected", "overflows"),
    [
        ("+", "DECIMAL(10,2)", "DECIMAL(10,2)", "DECIMAL(11,2)", False),
        ("*", "DECIMAL(10,2)", "DECIMAL(10,2)", "DECIMAL(21,4)", False),
        ("/", "DECIMAL(10,2)", "DECIMAL(10,2)", "DECIMAL(23,13)", False),
        ("/", "DECIMAL(10,2)", "DECIMAL(1,0)", "DECIMAL(14,6)", False),
        ("%", "DECIMAL(10,2)", "DECIMAL(1,0)", "DECIMAL(3,2)", False),
        ("+", "DECIMAL(38,0)", "DECIMAL(1,0)", "DECIMAL(38,0)", True),
        ("/", "DECIMAL(38,0)", "DECIMAL(10,10)", "DECIMAL(38,6)", True),
    ],
)
def test_decimals_have_the_digits_that_spark_gives_them(
    operator: str, left: str, right: str, expected: str, overflows: bool
) -> None:
    one, two = read_type(left), read_type(right)
    assert one is not None
    assert two is not None
    assert decimal_result(operator, one, two) == (read_type(expected), overflows)


TABLES = {
    "r": {"ts": "TIMESTAMP", "raw": "STRING", "a": "BIGINT", "b": "BIGINT"},
    "d": {"id": "BIGINT", "n": "STRING"},
}
FROM_CLAUSES = {
    "r": "r",
    "r JOIN d ON r.raw = d.id": "r JOIN d ON try_cast(r.raw AS BIGINT) = d.id",
    "r AS x JOIN d ON x.raw = id AND x.a / x.b > 1": (
        "r AS x JOIN d ON try_cast(x.raw AS BIGINT) = id AND try_divide(x.a, x.b) > 1"
    ),
    "(SELECT ts, a / b AS q FROM r WHERE a % b > 1) AS x": (
        "(SELECT ts, try_divide(a, b) AS q FROM r WHERE try_mod(a, b) > 1) AS x"
    ),
    "(SELECT * FROM r WHERE a IN (SELECT 1 / id AS z FROM d)) x": (
        "(SELECT * FROM r WHERE a IN (SELECT try_divide(1, id) AS z FROM d)) x"
    ),
    "(SELECT ts, sum(a / b) AS s FROM r GROUP BY ts, a / b ORDER BY a / b) x": (
        "(SELECT ts, sum(try_divide(a, b)) AS s FROM r GROUP BY ts, try_divide(a, b) "
        "ORDER BY try_divide(a, b)) x"
    ),
    "(SELECT a / b AS q FROM r UNION ALL SELECT CAST(n AS DOUBLE) AS q FROM d) x": (
        "(SELECT try_divide(a, b) AS q FROM r UNION ALL SELECT try_cast(n AS DOUBLE) AS q FROM d) x"
    ),
    # What is named by its text stays, and so does a join on what nobody knows the type of.
    "(SELECT a / b FROM r) x": "(SELECT a / b FROM r) x",
    "r JOIN (SELECT max(n) AS m FROM d) x ON a = m": (
        "r JOIN (SELECT max(n) AS m FROM d) x ON a = m"
    ),
}


@pytest.mark.parametrize(("written", "safe"), FROM_CLAUSES.items())
def test_an_expression_that_can_fail_in_from_yields_null(written: str, safe: str) -> None:
    assert guard_from("", written, known_types({}, TABLES)) == ("", safe)


def test_a_cte_knows_the_types_of_the_one_before() -> None:
    ctes = "WITH x AS (SELECT CAST(raw AS INT) AS n FROM r), y AS (SELECT n + 1 AS m FROM x)"
    safe = (
        "WITH x AS (SELECT try_cast(raw AS INT) AS n FROM r), "
        "y AS (SELECT try_add(n, 1) AS m FROM x)"
    )
    assert guard_from(ctes, "y", known_types({}, TABLES)) == (safe, "y")


SUBQUERIES = {
    "a IN (SELECT 1 / id AS z FROM d)": "a IN (SELECT try_divide(1, id) AS z FROM d)",
    "a NOT IN (SELECT 1 / id AS z FROM d)": "a NOT IN (SELECT try_divide(1, id) AS z FROM d)",
    "NOT EXISTS (SELECT 1 FROM d WHERE 1 / id > 1)": (
        "NOT EXISTS (SELECT 1 FROM d WHERE try_divide(1, id) > 1)"
    ),
    # The row outside is known by its columns; of what nobody knows nothing is written anew.
    "EXISTS (SELECT 1 FROM d WHERE d.id = r.a)": "EXISTS (SELECT 1 FROM d WHERE d.id = r.a)",
    "EXISTS (SELECT 1 FROM d WHERE d.n = r.a)": (
        "EXISTS (SELECT 1 FROM d WHERE try_cast(d.n AS BIGINT) = r.a)"
    ),
    "EXISTS (SELECT 1 FROM d WHERE d.id = other.b / 2)": (
        "EXISTS (SELECT 1 FROM d WHERE d.id = other.b / 2)"
    ),
    "s NOT LIKE (SELECT max(n) AS m FROM d)": "s NOT LIKE (SELECT max(n) AS m FROM d)",
    "s NOT LIKE (SELECT max(n) AS m FROM d) ESCAPE '!'": (
        "s NOT LIKE (SELECT max(n) AS m FROM d) ESCAPE '!'"
    ),
    "s NOT BETWEEN (SELECT min(n) AS m FROM d) AND 'x'": (
        "s NOT BETWEEN (SELECT min(n) AS m FROM d) AND 'x'"
    ),
}


@pytest.mark.parametrize(("written", "safe"), SUBQUERIES.items())
def test_a_subquery_of_an_expression_is_null_where_it_would_raise(written: str, safe: str) -> None:
    guarded = guard(written, known_types({"a": "BIGINT", "r.a": "BIGINT", "s": "STRING"}, TABLES))
    assert (guarded.safe, guarded.error) == (safe, None)


def test_a_call_with_any_number_of_arguments_is_guarded_or_left_to_spark() -> None:
    for name in sorted(known_functions().names):
        for count in (0, 1, 5):
            # Some names begin another grammar, such as CAST.
            with contextlib.suppress(TidegateError):
                guard(f"{name}({', '.join(['x'] * count)})", known_types({"x": "INT"}))
