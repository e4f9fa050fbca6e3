from __future__ import annotations

import pytest

from frontend.schema import RELATIONS, bound
from tidegate.frontend.binding.bind import bind
from tidegate.frontend.reading.parse import parse
from tidegate.plan.settings import Settings
from tidegate.plan.statement import BoundQuery, UserFunction

WINDOW = "GROUP BY tumblingwindow('ss', 10)"


def items(query: BoundQuery) -> dict[str, str]:
    return {item.name: item.expression.sql for item in query.items}


def keys(query: BoundQuery) -> dict[str, str]:
    return {key.name: key.expression.sql for key in query.keys}


def arguments(query: BoundQuery) -> dict[str, str]:
    return {argument.name: argument.expression.sql for argument in query.arguments}


def aggregates(query: BoundQuery) -> dict[str, tuple[object, ...]]:
    return {a.name: (a.function, a.args, a.distinct, a.filter) for a in query.aggregates}


def test_a_grouped_query_is_cut_into_keys_aggregates_and_items() -> None:
    query = bound(
        f"SELECT upper(who) AS w, sum(v) / count(*) AS mean, window_start() AS s, window_end(), "
        f"window_id() AS id, emit_epoch() AS e FROM clicks {WINDOW}, upper( WHO ) "
        "HAVING sum(v) > 1 ORDER BY mean DESC, count(*)"
    )
    assert keys(query) == {"_k0": "upper( WHO )"}
    assert arguments(query) == {"_x0": "v"}
    assert aggregates(query) == {
        "_a0": ("sum", ("_x0",), False, None),
        "_a1": ("count", (), False, None),
    }
    assert items(query) == {
        "w": "_k0",
        "mean": "_a0 / _a1",
        "s": "_start",
        "window_end()": "_end",
        "id": "_id",
        "e": "_epoch",
    }
    assert query.having is not None
    assert query.having.sql == "_a0 > 1"
    assert [each.expression.sql for each in query.order_by] == ["(_a0 / _a1)", "_a1"]
    assert query.source is RELATIONS[0]
    assert not query.is_row_query


@pytest.mark.parametrize(
    ("call", "aggregate", "made_of"),
    [
        ("count(*)", ("count", (), False, None), {}),
        ("count( v )", ("count", ("_x0",), False, None), {"_x0": "v"}),
        ("sum(1)", ("sum", ("_x0",), False, None), {"_x0": "1"}),
        (
            "count(DISTINCT v, who)",
            ("count", ("_x0", "_x1"), True, None),
            {"_x0": "v", "_x1": "who"},
        ),
        (
            "max_by(v + 1, ts)",
            ("max_by", ("_x0", "_x1"), False, None),
            {"_x0": "v + 1", "_x1": "ts"},
        ),
        (
            "percentile_approx(v, array(0.5, 0.9))",
            ("percentile_approx", ("_x0", "array(0.5, 0.9)"), False, None),
            {"_x0": "v"},
        ),
        (
            "sum(v) FILTER (WHERE who = 'ann' AND v > 1)",
            ("sum", ("_x0",), False, "_x1"),
            {"_x0": "v", "_x1": "who = 'ann' AND v > 1"},
        ),
        ("first(v) IGNORE NULLS", ("first", ("_x0", "true"), False, None), {"_x0": "v"}),
        ("last(v IGNORE NULLS)", ("last", ("_x0", "true"), False, None), {"_x0": "v"}),
        ("last_value(v) RESPECT NULLS", ("last", ("_x0",), False, None), {"_x0": "v"}),
        ("last_row(v)", ("last", ("_x0",), False, None), {"_x0": "v"}),
        ("NDV(v)", ("approx_count_distinct", ("_x0",), False, None), {"_x0": "v"}),
        ("deduplicate(v)", ("collect_set", ("_x0",), False, None), {"_x0": "v"}),
        ("every(v > 0)", ("bool_and", ("_x0",), False, None), {"_x0": "v > 0"}),
        ("any(v > 0)", ("bool_or", ("_x0",), False, None), {"_x0": "v > 0"}),
        ("some(v > 0)", ("bool_or", ("_x0",), False, None), {"_x0": "v > 0"}),
        ("stddevs(v)", ("stddev_samp", ("_x0",), False, None), {"_x0": "v"}),
    ],
)
def test_an_aggregate_is_its_function_its_arguments_and_its_modifiers(
    call: str, aggregate: tuple[object, ...], made_of: dict[str, str]
) -> None:
    query = bound(f"SELECT {call} AS x FROM clicks {WINDOW}")
    assert aggregates(query) == {"_a0": aggregate}
    assert arguments(query) == made_of
    assert query.aggregates[0].text == call
    assert items(query) == {"x": "_a0"}


def test_equal_calls_are_one_aggregate_however_they_are_written() -> None:
    query = bound(
        "SELECT sum(v) AS a, SUM( clicks.V ) AS b, sum(`v`) AS c, "
        f"sum(v) FILTER (WHERE v > 1) AS d, sum(DISTINCT v) AS e FROM clicks {WINDOW}"
    )
    assert items(query) == {"a": "_a0", "b": "_a0", "c": "_a0", "d": "_a1", "e": "_a2"}
    assert arguments(query) == {"_x0": "v", "_x1": "v > 1"}


def test_string_literals_are_case_sensitive() -> None:
    query = bound(f"SELECT max(who = 'a') AS a, max(who = 'A') AS b FROM clicks {WINDOW}")
    assert items(query) == {"a": "_a0", "b": "_a1"}


def test_a_row_query_keeps_the_largest_expressions_over_the_row() -> None:
    query = bound(
        "SELECT v, v + 1 AS w, concat(who, ' ', window_id(), upper(who)) AS c, 1 AS one "
        f"FROM clicks {WINDOW} ORDER BY w, v DESC, 1"
    )
    assert query.is_row_query
    assert arguments(query) == {"_x0": "v", "_x1": "v + 1", "_x2": "who", "_x3": "upper(who)"}
    assert items(query) == {
        "v": "_x0",
        "w": "_x1",
        "c": "concat(_x2, ' ', _id, _x3)",
        "one": "1",
    }
    assert [each.expression.sql for each in query.order_by] == ["_x1", "_x0", "_x0"]


def test_a_star_stands_for_the_columns_of_the_stream_in_their_order() -> None:
    query = bound(f"SELECT *, v + 1 AS w FROM clicks {WINDOW}")
    assert items(query) == {"ts": "_x0", "who": "_x1", "v": "_x2", "rec": "_x3", "w": "_x4"}
    assert not query.star
    assert list(items(bound(f"SELECT * EXCEPT (rec, ts) FROM clicks {WINDOW}"))) == ["who", "v"]


def test_a_star_over_a_join_has_qualified_columns() -> None:
    query = bound(f"SELECT c.*, i.name FROM clicks c JOIN info i ON who = k {WINDOW}")
    assert arguments(query)["_x1"] == "c.who"
    assert list(items(query)) == ["ts", "who", "v", "rec", "name"]
    assert query.tables == (RELATIONS[1],)
    joined = bound(
        f"SELECT * FROM clicks JOIN (SELECT k AS who, name FROM info) USING (who) {WINDOW}"
    )
    assert list(items(joined)) == ["who", "ts", "v", "rec", "name"]


def test_a_star_waits_until_the_columns_are_known() -> None:
    query = bound(f"SELECT *, anything FROM raw {WINDOW}")
    assert query.star
    assert items(query) == {"anything": "_x0"}


def test_a_key_may_be_named_by_an_alias_or_by_a_number() -> None:
    query = bound(f"SELECT upper(who) AS w, v % 2, count(*) AS n FROM clicks {WINDOW}, w, 2")
    assert keys(query) == {"_k0": "upper(who)", "_k1": "v % 2"}
    assert items(query) == {"w": "_k0", "v % 2": "_k1", "n": "_a0"}


def test_a_column_goes_before_an_alias_in_group_by_and_having_but_not_in_order_by() -> None:
    query = bound(
        f"SELECT upper(who) AS who, count(*) AS n FROM clicks {WINDOW}, who "
        "HAVING who > 'a' AND n > 1 ORDER BY who"
    )
    assert keys(query) == {"_k0": "who"}
    assert items(query)["who"] == "upper(_k0)"
    assert query.having is not None
    assert query.having.sql == "_k0 > 'a' AND _a0 > 1"
    assert query.order_by[0].expression.sql == "upper(_k0)"


def test_a_field_of_a_key_needs_no_key_of_its_own() -> None:
    query = bound(f"SELECT rec.x, clicks.rec.y.z AS z, count(*) AS n FROM clicks {WINDOW}, rec")
    assert items(query) == {"x": "_k0.x", "z": "_k0.y.z", "n": "_a0"}


def test_a_struct_keeps_the_names_of_its_fields() -> None:
    query = bound(f"SELECT struct(who, count(*), v AS w) AS s FROM clicks {WINDOW}, who, v")
    assert items(query) == {"s": "struct(_k0 AS who, _a0 AS col2, _k1 AS w)"}


def test_columns_of_partition_by_need_no_group_by() -> None:
    query = bound(
        "SELECT upper(who) AS w, v, count(*) AS n FROM clicks "
        "GROUP BY countwindow(2) OVER (PARTITION BY ts, upper(who)), v"
    )
    assert keys(query) == {"_k0": "v", "_k1": "upper(who)"}
    assert items(query) == {"w": "_k1", "v": "_k0", "n": "_a0"}
    rows = bound("SELECT who FROM clicks GROUP BY countwindow(2) OVER (PARTITION BY who)")
    assert rows.is_row_query


def test_keys_without_aggregates_are_the_distinct_keys() -> None:
    query = bound(f"SELECT who FROM clicks {WINDOW}, who")
    assert keys(query) == {"_k0": "who"}
    assert not query.is_row_query


def test_the_trigger_is_known_to_sliding_windows() -> None:
    query = bound(
        "SELECT window_trigger() AS t, count(*) AS n FROM clicks GROUP BY slidingwindow(ss, 1)"
    )
    assert items(query) == {"t": "_trigger", "n": "_a0"}


def test_a_variable_of_a_lambda_is_not_a_column() -> None:
    query = bound(
        "SELECT transform(collect_list(v), (x, i) -> x + i + length(who)) AS t "
        f"FROM clicks {WINDOW}, who"
    )
    assert items(query) == {"t": "transform(_a0, (x, i) -> x + i + length(_k0))"}


def test_names_are_not_checked_in_a_stream_of_unknown_columns() -> None:
    query = bound(f"SELECT anything.at.all AS a, max(whatever) AS m FROM raw {WINDOW}, anything")
    assert items(query) == {"a": "_k0.at.all", "m": "_a0"}


def test_names_pass_through_ctes_and_subqueries() -> None:
    query = bound(
        "WITH x AS (SELECT who, v * 2 AS w FROM clicks WHERE v IN (SELECT v FROM info)) "
        f"SELECT y.who, sum(w) AS s FROM (SELECT * FROM x) AS y {WINDOW}, who"
    )
    assert keys(query) == {"_k0": "who"}
    assert items(query) == {"who": "_k0", "s": "_a0"}
    assert [table.name for table in query.tables] == ["info"]


def test_a_table_may_be_aggregated_before_it_is_joined() -> None:
    query = bound(
        "WITH x AS (SELECT k, max(v) AS top FROM info GROUP BY k ORDER BY top LIMIT 5) "
        f"SELECT top, count(*) AS n FROM clicks LEFT JOIN x ON who = k {WINDOW}, top"
    )
    assert items(query) == {"top": "_k0", "n": "_a0"}


def test_a_function_of_the_user_is_known_by_its_name() -> None:
    text = f"SELECT max(my_function(v)) AS m FROM clicks {WINDOW}"
    query = bind(parse(text), RELATIONS, Settings(), [UserFunction(name="my_function")])
    assert arguments(query) == {"_x0": "my_function(v)"}


def test_a_word_that_spark_reads_as_a_call_is_not_a_column() -> None:
    query = bound(f"SELECT user, current_date, count(*) AS n FROM clicks {WINDOW}")
    assert items(query) == {"user": "user", "current_date": "current_date", "n": "_a0"}


def test_a_semi_join_shows_the_columns_of_the_stream_only() -> None:
    query = bound(f"SELECT *, v + 1 AS w FROM clicks LEFT SEMI JOIN info ON who = k {WINDOW}")
    assert list(items(query)) == ["ts", "who", "v", "rec", "w"]


def test_limit_all_means_no_limit() -> None:
    assert bound(f"SELECT v FROM clicks {WINDOW} LIMIT ALL").limit is None


@pytest.mark.parametrize(
    ("shard", "told"),
    [
        ("who", "_k0"),
        ("clicks.WHO", "_k0"),
        ("v % 10 + 1", "_k1 % 10 + 1"),
        ("upper( REC.y.z )", "_k2"),
        ("(v) -- the key", "(_k1)"),
        ("ts", None),
        ("v + length(who)", None),
        ("rand() + v", None),
        ("user", None),
    ],
)
def test_a_shard_that_follows_from_the_group_keys_is_told_over_them(
    shard: str, told: str | None
) -> None:
    statement = parse(f"SELECT count(*) AS n FROM clicks {WINDOW}, who, v, upper(rec.y.z)")
    assert bind(statement, RELATIONS, Settings(shard=shard)).shard_of_keys == told
