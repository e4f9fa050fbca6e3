"""Planning aggregates: which state is shared, which entry a call uses, and registered entries."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.compile import compile_statement
from tidegate.config import read_settings
from tidegate.errors import ConfigError
from tidegate.plan.aggregates.planned import (
    PlannedAccumulator,
    evaluation,
    has_merge,
    row_aggregate,
    type_family,
)
from tidegate.plan.aggregates.registry import REGISTERED, register_accumulator
from tidegate.plan.aggregates.table import ACCUMULATORS
from tidegate.plan.schema import parse_schema
from tidegate.plan.stages import IngestPartials
from tidegate.plan.statement import Relation

from .queries import aggregate

ROOT = Path(__file__).parents[2]
COLUMNS = "ts TIMESTAMP, small INT, big BIGINT, ratio DOUBLE, price DECIMAL(10,2), m MAP<INT,INT>"


def planned(items: str, *, settings: str = "ts") -> tuple[PlannedAccumulator, ...]:
    """Return the accumulators of a select list."""
    compiled = compile_statement(
        f"SELECT {items} FROM facts GROUP BY tumblingwindow('ss', 10)",
        [Relation(name="facts", columns=parse_schema(COLUMNS))],
        read_settings({"event_time_field": settings}),
    )
    ingest = compiled.physical.ingest
    return ingest.accumulators if isinstance(ingest, IngestPartials) else ()


def updates(items: str) -> list[str]:
    """Return the updates of the distinct state columns of a select list."""
    return sorted({c.update for accumulator in planned(items) for c in accumulator.columns})


@pytest.mark.parametrize(
    ("items", "state"),
    [
        ("sum(small), avg(small), count(small)", ["count(_x0)", "sum(_x0)"]),
        ("sum(ratio), avg(ratio)", ["count(_x0)", "sum(_x0)"]),
        ("avg(price), sum(price)", ["count(_x0)", "sum(_x0)"]),
        ("sum(small)", ["sum(_x0)"]),
        (
            "sum(big), avg(big)",
            [
                "count(_x0)",
                "sum(CAST(_x0 AS DOUBLE))",
                "sum(_x0 & 4294967295)",
                "sum(shiftright(_x0, 32))",
            ],
        ),
        ("sum(small * 2)", ["sum(_x0)"]),
        ("sum(m['a'])", ["count(_x0)", "try_sum(_x0)"]),
        ("count(*) AS a, count(*) AS b", ["count(*)"]),
        ("count(DISTINCT small), sum(DISTINCT small)", ["collect_set(_x0)"]),
        (
            "sum(small), sum(small) FILTER (WHERE big > 0)",
            ["sum(_x0)", "sum(_x0) FILTER (WHERE _x1)"],
        ),
        ("median(small), percentile(small, 0.9)", ["collect_list(+_x0)"]),
    ],
)
def test_equal_parts_are_kept_once(items: str, state: list[str]) -> None:
    assert updates(items) == state


@pytest.mark.parametrize(
    "items",
    [
        "var_pop(ratio), stddev(ratio), variance(ratio)",
        "corr(ratio, small), regr_slope(ratio, small), covar_pop(ratio, small)",
        "skewness(ratio), kurtosis(ratio)",
        "percentile_approx(big, 0.1), percentile_approx(big, 0.9)",
        "first(small), any_value(small)",
    ],
)
def test_aggregates_of_one_kind_share_one_part(items: str) -> None:
    assert len(updates(items)) == 1


def test_a_part_is_named_by_its_meaning_and_not_by_its_place() -> None:
    ((first,), (second,)) = (
        [c.name for c in planned(items)[-1].columns]
        for items in ("max(small)", "min(big), max(small)")
    )
    assert first == second


def test_the_second_argument_must_be_a_constant_for_an_accumulator() -> None:
    assert has_merge(aggregate("_a0", "percentile", "_x0", "0.25"))
    assert not has_merge(aggregate("_a0", "percentile", "_x0", "_x1"))
    assert not has_merge(aggregate("_a0", "percentile", "_x0", "array(0.1, 0.9)"))
    assert not has_merge(aggregate("_a0", "percentile", "_x0", "0.25", "2"))


def test_distinct_over_maps_has_no_accumulator() -> None:
    assert planned("count(DISTINCT m), count(*)") == ()
    assert planned("first(m), collect_list(m)") != ()


def test_ignore_nulls_uses_another_entry() -> None:
    (known,) = updates("first(small) IGNORE NULLS")
    assert known.endswith("FILTER (WHERE _x0 IS NOT NULL)")
    (filtered,) = updates("last(small) FILTER (WHERE big > 0) IGNORE NULLS")
    assert filtered.endswith("FILTER (WHERE _x0 IS NOT NULL AND _x1)")
    assert updates("first(small, false)") == updates("first(small)")


def test_decimals_are_divided_to_the_last_digit_of_their_type() -> None:
    (average,) = planned("avg(price)")
    text = evaluation(average, "decimal(14,6)")
    assert text.startswith("try_cast(")
    assert text.endswith("AS decimal(14,6))")
    assert "AS DECIMAL(31,0))" in text
    assert "AS DECIMAL(7,6))" in text
    assert evaluation(average, "double").startswith("CAST(")
    assert evaluation(average, None) == average.evaluate


def test_nested_results_are_not_cast() -> None:
    (listed,) = planned("collect_list(small)")
    assert evaluation(listed, "array<int>") == listed.evaluate


@pytest.mark.parametrize(
    ("ddl", "family"),
    [
        ("INT", "INT"),
        ("integer", "INT"),
        ("LONG", "BIGINT"),
        ("DECIMAL", "DECIMAL"),
        ("NUMERIC(28, 3)", "DECIMAL"),
        ("DECIMAL(29,0)", "WIDE DECIMAL"),
        ("ARRAY<INT>", "ARRAY<INT>"),
        (None, None),
    ],
)
def test_the_family_of_a_type(ddl: str | None, family: str | None) -> None:
    assert type_family(ddl) == family


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (aggregate("_a0", "sum", "_x0"), "try_sum(_x0)"),
        (aggregate("_a0", "sum", "_x0", distinct=True), "try_sum(DISTINCT _x0)"),
        (aggregate("_a0", "count"), "count(*)"),
        (
            aggregate("_a0", "listagg", "_x0", "','"),
            "listagg(_x0, ',') WITHIN GROUP (ORDER BY _order)",
        ),
        (aggregate("_a0", "histogram_numeric", "_x0", "5"), "histogram_numeric(_x0, 5)"),
        (
            aggregate("_a0", "first", "_x0"),
            "(min_by(named_struct('v', _x0, 'o', _order), _order)).v",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.function,
)
def test_an_aggregate_over_stored_rows(call: object, text: str) -> None:
    assert row_aggregate(call) == text  # type: ignore[arg-type]


ENTRIES = [
    *ACCUMULATORS.items(),
    *((name, entry.distinct) for name, entry in ACCUMULATORS.items() if entry.distinct),
    *((name, entry.ignore_nulls) for name, entry in ACCUMULATORS.items() if entry.ignore_nulls),
    *((name, form) for name, entry in ACCUMULATORS.items() for _, form in entry.typed),
]


@pytest.mark.parametrize(("name", "entry"), ENTRIES, ids=[name for name, _ in ENTRIES])
def test_every_update_takes_the_filter(name: str, entry: object) -> None:
    for part in entry.parts:  # type: ignore[attr-defined]
        assert "{filter}" in part.update or "{known}" in part.update, name
        assert "{p}" in part.merge, name


def test_the_page_of_aggregates_is_what_the_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_aggregates_doc.py"))
    written = (ROOT / "docs" / "aggregates.md").read_text(encoding="utf-8")
    assert written == script["page"](), "run python scripts/write_aggregates_doc.py"


GEO_MEAN = {
    "update": "named_struct('l', sum(ln({x})){filter}, 'n', count({x}){filter})",
    "merge": "named_struct('l', sum({p}.l), 'n', sum({p}.n))",
    "evaluate": "exp({v}.l / nullif({v}.n, 0))",
}


@pytest.fixture
def registered() -> Iterator[None]:
    """Remove what a test registers when it ends."""
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.mark.usefixtures("registered")
def test_a_registered_accumulator_is_planned_like_any_other() -> None:
    register_accumulator("Geo_Mean", **GEO_MEAN)
    (mean,) = planned("geo_mean(ratio)")
    assert mean.columns[0].update == "named_struct('l', sum(ln(_x0)), 'n', count(_x0))"
    assert mean.evaluate.startswith("exp(named_struct_")


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "geo_mean",
            {"update": "sum({xx}){filter}"},
            "accumulator geo_mean, update: {xx} is not a placeholder\n\n  sum({xx}){filter}\n\n"
            "There are {x}, {y}, {z}, {args}, {row}, {time}, {order}, {filter}.",
        ),
        (
            "geo_mean",
            {"update": "sum({x})"},
            "accumulator geo_mean, update: {filter} is missing\n\n  sum({x})\n\n"
            "Put it after every aggregate function, e.g. sum({x}){filter}.",
        ),
        (
            "geo_mean",
            {"merge": "sum({x})"},
            "accumulator geo_mean, merge: {x} is not a placeholder\n\n  sum({x})\n\nThere are {p}.",
        ),
        (
            "geo_mean",
            {"evaluate": "1"},
            "accumulator geo_mean, evaluate: {v} is missing\n\n  1\n\nThere are {v}.",
        ),
        ("Sum", {}, "there is an aggregate Sum already\n\nChoose another name."),
        (
            "geo mean",
            {},
            "'geo mean' is not a valid name\n\nUse letters, digits and _, e.g. geo_mean.",
        ),
    ],
)
def test_a_wrong_definition_is_refused(name: str, change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        register_accumulator(name, **{**GEO_MEAN, **change})
    assert str(refused.value) == message
