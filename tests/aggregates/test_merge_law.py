"""The law of the table: rows split in any way and merged in any order give Spark's own result."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from interpreted import interpreting
from side_by_side import Results, side_by_side
from tidegate.plan.aggregates.one_row import of_one_row
from tidegate.plan.aggregates.planned import (
    PlannedAccumulator,
    evaluation,
    plan_accumulator,
    row_aggregate,
    type_family,
)
from tidegate.plan.aggregates.table import ACCUMULATORS, Accumulator

from .calls import SCHEMA, TYPES, Call, arguments, call, values

NUMBERS = ("small", "big", "ratio", "single", "price", "exact", "wide", "pause")
SORTED = "array_sort({})"


def _first(function: str, only: str = "{filter}") -> list[Call]:
    native = {"last": "max_by"}.get(function, "min_by")
    return [
        call(f"{function}({column})", f"{native}({column}, _order){only}", view)
        for column, view in (("small", "{}"), ("map", "map_entries({})"), ("list", "{}"))
    ]


def _listed(column: str, view: str = "{}") -> Call:
    native = (
        f"transform(array_sort(collect_list(struct(_order.i, {column})) FILTER (WHERE {column} "
        f"IS NOT NULL)), e -> e.{column})"
    )
    return call(f"collect_list({column})", native, view)


PAIRS = (
    "covar_pop covar_samp corr regr_count regr_avgx regr_avgy regr_sxx regr_syy regr_sxy "
    "regr_slope regr_intercept regr_r2"
).split()

CALLS: tuple[Call, ...] = (
    call("count(*)"),
    call("count(*) FILTER (flag)"),
    call("count(small)"),
    call("count(small, word)"),
    call("count(DISTINCT small)"),
    call("count(DISTINCT ratio)"),
    call("count(DISTINCT small, word)"),
    call("count(DISTINCT word) FILTER (flag)"),
    call("count_if(flag)"),
    *(call(f"sum({column})") for column in NUMBERS),
    *(call(f"avg({column})") for column in NUMBERS),
    call("sum(price) FILTER (flag)"),
    call("avg(exact) FILTER (flag)"),
    *(call(f"sum(DISTINCT {column})") for column in NUMBERS),
    *(call(f"avg(DISTINCT {column})") for column in NUMBERS if column != "wide"),
    *(
        call(f"{function}({distinct}{column})")
        for function in ("min", "max")
        for distinct in ("", "DISTINCT ")
        for column in ("small", "word", "price", "list", "day")
    ),
    *_first("first"),
    *_first("last"),
    *_first("any_value"),
    *(
        call(f"{name}(word, true)", f"{by}(word, _order) FILTER (WHERE word IS NOT NULL)")
        for name, by in (("first", "min_by"), ("last", "max_by"), ("any_value", "min_by"))
    ),
    call("last(word) FILTER (flag)", "max_by(word, _order){filter}"),
    call("min_by(word, big)"),
    call("max_by(map, ratio)", view="map_entries({})"),
    call(
        "min_by(big, small)",
        "min_by(big, struct(small, _order)) FILTER (WHERE small IS NOT NULL)",
    ),
    call(
        "max_by(big, small)",
        "max_by(big, struct(small, -_order.i)) FILTER (WHERE small IS NOT NULL)",
    ),
    *(
        call(f"{function}({distinct}flag)")
        for function in ("bool_and", "bool_or")
        for distinct in ("", "DISTINCT ")
    ),
    *(
        call(text)
        for text in (
            "bit_and(small)",
            "bit_or(small)",
            "bit_xor(big)",
            "bit_and(DISTINCT big)",
            "bit_or(DISTINCT small)",
        )
    ),
    *(
        call(f"{function}({column})")
        for function in "var_pop var_samp stddev_pop stddev_samp skewness kurtosis".split()
        for column in ("small", "ratio", "ratio2", "price", "const")
    ),
    call("stddev_samp(ratio) FILTER (flag)"),
    *(call(f"{function}(ratio, ratio2)") for function in PAIRS),
    *(call(f"{function}(ratio, ratio2) FILTER (flag)") for function in ("covar_pop", "regr_r2")),
    *(call(f"{name}(const, ratio)") for name in ("regr_r2", "regr_slope")),
    *(call(f"{name}(ratio, const)") for name in ("regr_r2", "regr_slope")),
    _listed("small"),
    _listed("word"),
    _listed("list"),
    call("collect_list(map)", view="size({})"),
    *(
        call(f"{function}({column})", view=SORTED)
        for function, column in (
            ("collect_set", "small"),
            ("collect_set", "list"),
            ("collect_set", "ratio"),
            ("collect_set", "DISTINCT word"),
            ("collect_list", "DISTINCT word"),
        )
    ),
    *(call(f"mode({column})", f"mode({column}, true)") for column in ("small", "word", "day")),
    call("mode(small, true) FILTER (flag)"),
    *(call(f"median({column})") for column in NUMBERS),
    call("percentile(small, 0.25)"),
    call("percentile(exact, 0.9) FILTER (flag)"),
    *(
        call(f"percentile_approx({column}, {share})")
        for column, share in (
            ("small", "0.25"),
            ("big", "0.5"),
            ("ratio", "0.9"),
            ("single", "1.0"),
            ("price", "0.0"),
            ("day", "0.3"),
            ("pause", "0.3"),
        )
    ),
    call("percentile_approx(big, 0.5, 100) FILTER (flag)"),
    *(
        call(f"approx_count_distinct({column})", f"count(DISTINCT {column})")
        for column in ("small", "ratio", "word", "list", "exact", "day")
    ),
    call("approx_count_distinct(big, 0.01) FILTER (flag)", "count(DISTINCT big){filter}"),
    *(
        call(f"approx_top_k({inside})", view=SORTED)
        for inside in ("small, 20", "word", "day, 30, 1000")
    ),
    call("hll_sketch_agg(word)", view="hll_sketch_estimate({})"),
    call("hll_sketch_agg(big, 14) FILTER (flag)", view="hll_sketch_estimate({})"),
    call("theta_sketch_agg(word)", view="theta_sketch_estimate({})"),
    call("theta_sketch_agg(big, 10) FILTER (flag)", view="theta_sketch_estimate({})"),
)


def test_every_entry_of_the_table_is_called() -> None:
    plain = {c.aggregate.function for c in CALLS if not c.aggregate.distinct}
    distinct = {c.aggregate.function for c in CALLS if c.aggregate.distinct}
    known = {c.aggregate.function for c in CALLS if c.aggregate.args[1:] == ("true",)}
    called = {
        (c.aggregate.function, type_family(TYPES[c.text.split("(")[1].split(",")[0].rstrip(")")]))
        for c in CALLS
        if not c.aggregate.distinct and not c.aggregate.filter and _typed(c.aggregate.function)
    }
    assert ACCUMULATORS.keys() <= plain | {"theta_union_agg"}
    assert {name for name, entry in ACCUMULATORS.items() if entry.distinct} <= distinct
    assert {name for name, entry in ACCUMULATORS.items() if entry.ignore_nulls} <= known
    for name in ACCUMULATORS:
        for families, _ in _typed(name):
            assert any((name, family) in called for family in families)


def _typed(name: str) -> tuple[tuple[frozenset[str], Accumulator], ...]:
    entry = ACCUMULATORS.get(name)
    return () if entry is None else entry.typed


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Turn generated code off: compiling so many aggregates takes long."""
    with interpreting(spark, {"spark.sql.adaptive.enabled": "false"}):
        yield spark


@pytest.fixture(scope="module")
def rows(interpreted: SparkSession) -> DataFrame:
    """Return groups of many rows, of two, of one, of NULLs only, and one that FILTER empties."""
    chance = random.Random(20260101)
    sizes = {"many": 120, "two": 2, "one": 1, "filtered": 12}
    groups = [(name, values(chance)) for name, size in sizes.items() for _ in range(size)]
    flag = list(TYPES).index("flag")
    groups = [
        (name, (*row[:flag], False, *row[flag + 1 :]) if name == "filtered" else row)
        for name, row in groups
    ]
    groups += [("nothing", (None,) * len(TYPES)) for _ in range(3)]
    chance.shuffle(groups)
    # All rows have the same time, so arrival decides the order.
    data = [
        (name, chance.randint(0, 5), chance.randint(0, 9), chance.randint(0, 2), (0, 0, i), *row)
        for i, (name, row) in enumerate(groups)
    ]
    keys = "_k STRING, _p INT, _q INT, _part INT, _order STRUCT<t: BIGINT, b: BIGINT, i: BIGINT>"
    frame = interpreted.createDataFrame(data, f"{keys}, {SCHEMA}")
    return frame.repartition(3).cache()


@dataclass(frozen=True)
class Native:
    """Spark's own results: their types, and their values by group."""

    types: dict[str, str]
    answers: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def native(rows: DataFrame) -> Native:
    """Return Spark's own result of every call."""
    types: dict[str, str] = {}
    answers: dict[str, dict[str, Any]] = {}
    # Spark multiplies the rows for DISTINCT, so those calls run separately.
    for distinct in (False, True):
        calls = [c for c in CALLS if ("DISTINCT" in c.native) is distinct]
        frame = rows.groupBy("_k").agg(
            *(functions.expr(c.native).alias(c.aggregate.name) for c in calls)
        )
        types |= _types(frame)
        for key, row in _answers(frame, calls).items():
            answers.setdefault(key, {}).update(row)
    return Native(types, answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The columns that split the rows, and those by which parts are merged, round by round."""

    by: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    typed: bool


STORED = "stored rows"
SPLITS = {
    "at once": Split(by=("_p",), levels=((),), typed=True),
    "in two levels": Split(by=("_q", "_part"), levels=(("_part",), ()), typed=False),
}


@pytest.fixture(scope="module")
def evaluated(
    request: pytest.FixtureRequest, rows: DataFrame, native: Native
) -> Iterator[Results[str, Native]]:
    def evaluate(name: str, _: SparkSession) -> Native:
        frame = stored(rows) if name == STORED else merged(rows, native, SPLITS[name])
        return Native(_types(frame), _answers(frame))

    with side_by_side(request, rows.sparkSession, "name", evaluate) as evaluated:
        yield evaluated


@pytest.mark.parametrize("name", SPLITS)
def test_any_split_merged_in_any_order_gives_sparks_result_over_all_rows(
    name: str, evaluated: Results[str, Native], native: Native
) -> None:
    assert evaluated[name].types == native.types
    _assert_equal(evaluated[name].answers, native.answers)


@pytest.mark.parametrize("name", [STORED])
def test_stored_rows_give_the_same(
    name: str, evaluated: Results[str, Native], native: Native
) -> None:
    _assert_equal(evaluated[name].answers, native.answers)


@pytest.mark.parametrize("typed", [True, False])
def test_an_update_over_one_row_is_known_without_an_aggregate(typed: bool, rows: DataFrame) -> None:
    planned = [plan_accumulator(each.aggregate, arguments(typed=typed)) for each in CALLS]
    updates = {column.name: column.update for each in planned for column in each.columns}
    scalars = {name: of_one_row(update) for name, update in updates.items()}
    known = {name: scalar for name, scalar in scalars.items() if scalar is not None}
    assert len(known) >= 30
    numbered = rows.limit(100).selectExpr("*", "monotonically_increasing_id() AS _place").persist()
    calls = [functions.expr(updates[name]).alias(name) for name in known]
    aggregated = numbered.groupBy("_place").agg(*calls)
    types = _types(aggregated)
    cast = [f"CAST({sql} AS {types[name]}) AS {name}_" for name, sql in known.items()]
    both = aggregated.join(numbered.selectExpr("_place", *cast), "_place")
    differing = [f"count_if(NOT ({name} <=> {name}_)) AS {name}" for name in known]
    found = both.selectExpr("count(1) AS _rows", *differing).collect()[0].asDict()
    numbered.unpersist()
    assert found == {"_rows": 100, **dict.fromkeys(known, 0)}


def merged(rows: DataFrame, native: Native, split: Split) -> DataFrame:
    planned = [plan_accumulator(c.aggregate, arguments(typed=split.typed)) for c in CALLS]
    merged = rows.groupBy("_k", *split.by).agg(*_columns(planned, "update"))
    for level in split.levels:
        kept = merged.schema.toNullable()
        merged = merged.groupBy("_k", *level).agg(*_columns(planned, "merge"))
        # A column keeps its first type, as in the engine.
        merged = merged.select(*(merged[name].cast(kept[name].dataType) for name in merged.columns))
    return merged.selectExpr(
        "_k",
        *(
            f"{evaluation(p, native.types[p.aggregate.name])} AS {p.aggregate.name}"
            for p in planned
        ),
    )


def stored(rows: DataFrame) -> DataFrame:
    return rows.groupBy("_k").agg(
        *(functions.expr(row_aggregate(c.aggregate)).alias(c.aggregate.name) for c in CALLS)
    )


def _columns(planned: list[PlannedAccumulator], what: str) -> list[Any]:
    columns = {column.name: getattr(column, what) for p in planned for column in p.columns}
    return [functions.expr(text).alias(name) for name, text in columns.items()]


def _types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def _answers(frame: DataFrame, calls: Sequence[Call] = CALLS) -> dict[str, dict[str, Any]]:
    viewed = frame.selectExpr(
        "_k", *(f"{c.view.format(c.aggregate.name)} AS {c.aggregate.name}" for c in calls)
    )
    return {row["_k"]: row.asDict() for row in viewed.collect()}


def _assert_equal(given: dict[str, dict[str, Any]], expected: dict[str, dict[str, Any]]) -> None:
    assert given.keys() == expected.keys()
    wrong = [
        f"{c.text} of {key}: {given[key][c.aggregate.name]!r}, not {row[c.aggregate.name]!r}"
        for key, row in expected.items()
        for c in CALLS
        if not _same(given[key][c.aggregate.name], row[c.aggregate.name])
    ]
    assert not wrong, "\n".join(wrong)


def _same(given: Any, expected: Any) -> bool:
    if isinstance(given, list) and isinstance(expected, list):
        return len(given) == len(expected) and all(map(_same, given, expected))
    if isinstance(given, float) and isinstance(expected, float):
        return math.isclose(given, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(given) is type(expected) and given == expected
