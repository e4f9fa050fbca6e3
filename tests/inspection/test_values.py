"""Partials are merged and evaluated in Python as Spark does it."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest

from tidegate.compile import compile_statement
from tidegate.inspection.values import EVALUATIONS, MERGES, NEEDS_SPARK, Values
from tidegate.plan.aggregates.planned import ACCUMULATORS
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation
from tidegate.state.plan_file import PlanFile, plan_file


def values_of(merges: dict[str, str], evaluate: str, *partials: Any, **schema: str) -> Any:
    """The value of partials with the columns of ``merges`` in their order."""
    plan = PlanFile(plan_id="p", fingerprint={}, merges=merges, values={"call": evaluate})
    rows = [dict(zip(merges, partial, strict=True)) for partial in partials]
    return Values(plan, schema).of(rows)["call"]


@pytest.mark.parametrize(
    ("merge", "partials", "merged"),
    [
        ("sum(c)", [1, None, 2], 3),
        ("sum(c)", [None, None], None),
        ("min(c)", [2.0, nan, -inf], -inf),
        ("max(c)", [2.0, nan, inf, None], nan),
        ("max(c)", ["a", "ä", "b"], "ä"),
        ("bool_and(c)", [True, None, False], False),
        ("bool_or(c)", [False, None], False),
        ("bit_xor(c)", [6, 3, None], 5),
        ("bit_and(c)", [6, 3], 2),
        ("bit_or(c)", [6, 3], 7),
        ("flatten(collect_list(c))", [[1], None, [1, 2]], [1, 1, 2]),
        ("array_distinct(flatten(collect_list(c)))", [[1], [1, 2]], [1, 2]),
        ("min_by(c, c.o)", [{"v": 1, "o": {"t": 5, "i": 1}}, {"v": 2, "o": {"t": 5, "i": 0}}], 2),
        ("max_by(c, c.o)", [{"v": 1, "o": 5}, {"v": None, "o": 7}, {"v": 3, "o": None}], None),
    ],
)
def test_a_column_is_merged(merge: str, partials: list[Any], merged: Any) -> None:
    evaluate = "c.v" if "_by" in merge else "c"
    value = values_of({"c": merge}, evaluate, *((each,) for each in partials))
    assert repr(value) == repr(merged)


def test_a_sum_that_left_its_range_in_one_partial_stays_null() -> None:
    guarded = {"s": "CASE WHEN count(s) = count_if(n > 0) THEN try_sum(s) END", "n": "sum(n)"}
    assert values_of(guarded, "s", (5, 2), (None, 0)) == 5
    assert values_of(guarded, "s", (5, 2), (None, 3)) is None


def test_the_mean_of_decimals_has_four_more_digits() -> None:
    mean, merges = "s / nullif(n, 0)", {"s": "sum(s)", "n": "sum(n)"}
    value = values_of(
        mean and merges, mean, (Decimal("1.00"), 2), (Decimal("1.00"), 1), s="decimal(20,2)"
    )
    assert str(value) == "0.666667"
    assert values_of(merges, mean, (None, 0)) is None


def test_a_sum_and_a_mean_of_different_values() -> None:
    distinct = ACCUMULATORS["sum"].distinct, ACCUMULATORS["avg"].distinct
    merges, sets = {"v": "array_distinct(flatten(collect_list(v)))"}, (([1, 2],), ([2, 4],))
    total, mean = (form.evaluate.replace("{v}", "v") for form in distinct if form is not None)
    assert values_of(merges, total, *sets) == 7
    assert values_of(merges, mean, ([1, 2],)) == 1.5
    one, two = ([Decimal("1.0")],), ([Decimal("2.0"), Decimal("4.0")],)
    assert str(values_of(merges, mean, one, two, v="array<decimal(3,1)>")) == "2.33333"
    assert values_of(merges, mean, ([],)) is None


def test_an_unknown_text_needs_spark() -> None:
    assert values_of({"c": "hll_union_agg(c, false)"}, "c", (b"",)) is NEEDS_SPARK
    assert values_of({"c": "sum(c)"}, "sqrt(c)", (4,)) is NEEDS_SPARK


def test_every_text_of_the_tables_is_that_of_an_aggregate() -> None:
    """A text that has changed in the table of accumulators fails here."""
    merges, evaluations = set(), set()
    for entry in ACCUMULATORS.values():
        forms = [entry, entry.distinct, *(form for _, form in entry.typed)]
        for form in filter(None, [*forms, entry.ignore_nulls]):
            merges |= {part.merge for part in form.parts}
            evaluations |= {form.evaluate}
    letters = {"{s}", "{n}", "{v}"}
    assert set(MERGES) <= merges
    assert set(EVALUATIONS) - {"{v}"} <= evaluations | letters


def test_common_aggregates_of_a_statement_do_not_need_spark() -> None:
    calls = "count(*), sum(v), avg(v), min(v), max(v), first(v), last(v), stddev(v), median(v)"
    relation = Relation(name="r", columns=parse_schema("ts TIMESTAMP, v INT"), streaming=True)
    text = f"SELECT {calls}, ndv(v) FROM r GROUP BY tumblingwindow('ss', 10) ON ts"
    plan = plan_file(compile_statement(text, [relation], Settings()).physical)
    found = Values(plan, {}).of([dict.fromkeys(plan.merges)])
    assert [call for call, value in found.items() if value is NEEDS_SPARK] == ["ndv(v)"]
    assert list(found) == [*calls.split(", "), "ndv(v)"]
