"""Random aggregates over random rows, streamed in several batches, against Spark's own GROUP BY."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from interpreted import interpreting
from side_by_side import Results, side_by_side
from tidegate.cases.stepper import CaseStepper
from tidegate.plan.aggregates.table import ACCUMULATORS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK_US = 4_000_000_000_000_000
BATCHES = 3
SCHEMA = (
    "ts TIMESTAMP, k STRING, tiny TINYINT, i INT, big BIGINT, x DOUBLE, y DOUBLE, f FLOAT, "
    "p DECIMAL(12,3), w DECIMAL(38,6), s STRING, b BOOLEAN, at TIMESTAMP"
)
NUMBERS = ("tiny", "i", "big", "x", "f", "p", "w", "i * 2", "p + 1", "x / 3")
WHOLE = ("tiny", "i", "big", "i + 1")
ORDERED = (*NUMBERS, "s", "at", "upper(s)")
ANY = (*ORDERED, "b")
PAIRED = ("x, y", "i, x", "p, f")
CONDITIONS = ("b", "i > 0", "s = 'a'")

# The arguments of each function. Spark's equivalents of first and last use the unique row time.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sum", "avg", "median"), NUMBERS),
    **dict.fromkeys(
        ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis"),
        ("i", "x", "f", "p"),
    ),
    **dict.fromkeys((name for name in ACCUMULATORS if name.startswith("regr_")), PAIRED),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp"), PAIRED),
    **dict.fromkeys(("min", "max"), ORDERED),
    **dict.fromkeys(("first", "last", "any_value", "mode", "collect_list", "collect_set"), ANY),
    **dict.fromkeys(("min_by", "max_by"), tuple(f"{each}, ts" for each in ANY)),
    **dict.fromkeys(("bool_and", "bool_or", "count_if"), CONDITIONS),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), WHOLE),
    **dict.fromkeys(("hll_sketch_agg", "theta_sketch_agg"), ("i", "s", "big")),
    "count": ("*", *ANY),
    "approx_count_distinct": ("s", "tiny", "b"),
    "approx_top_k": ("s, 20",),
    "percentile": ("i, 0.25", "x, 0.9", "p, 0.5"),
    "percentile_approx": ("i, 0.25", "big, 0.5", "y, 1.0", "p, 0.0"),
}
NATIVE = {
    # Spark stops a query on a sum that leaves its range; here it is NULL if the whole of it does.
    "sum": "try_sum({})", "avg": "try_avg({})",
    "first": "min_by({}, ts)", "any_value": "min_by({}, ts)", "last": "max_by({}, ts)",
    "mode": "mode({}, true)", "approx_count_distinct": "count(DISTINCT {})",
    "collect_list": "transform(array_sort(collect_list(struct(ts, {0} AS v)) "
    "FILTER (WHERE {0} IS NOT NULL{1})), e -> e.v)",
}  # fmt: skip
VIEWS = {
    "collect_set": "array_sort({})", "approx_top_k": "array_sort({})",
    "hll_sketch_agg": "hll_sketch_estimate({})", "theta_sketch_agg": "theta_sketch_estimate({})",
}  # fmt: skip


def random_rows(chance: random.Random) -> list[tuple[Any, ...]]:
    """Return rows of one minute with unique times: NULLs, NaN, infinities, type limits."""

    def one_of(*values: object) -> Any:
        return None if chance.random() < 0.15 else chance.choice(values)

    def row(place: int) -> tuple[Any, ...]:
        # The group wild has values so large that differences of squares lose all digits.
        k = chance.choice(["a", "b", "wild", None])
        x, y = chance.uniform(-5, 5), chance.gauss(1000, 1)
        ends = (math.nan, math.inf, -math.inf, 1e300, -0.0, 5e-324) if k == "wild" else ()
        wide = Decimal(10) ** 31 if k == "wild" else Decimal(chance.randint(-(10**20), 10**20))
        return (
            START + timedelta(milliseconds=place * 250), k, one_of(-128, 127, 0, 3),
            one_of(-9, 4, 7, 10**9), one_of(2**63 - 1, -(2**63), 1, chance.randint(0, 9)),
            one_of(x, *ends), one_of(y, y + 1), one_of(1.5, -2.25),
            one_of(Decimal("99999999.999"), Decimal(chance.randint(-999, 999)).scaleb(-3)),
            one_of(wide), one_of("a", "b", "", "ä"), one_of(True, False),
            one_of(START, datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC)),
        )  # fmt: skip

    return [row(place) for place in range(240)]


def random_calls(chance: random.Random) -> list[tuple[str, str]]:
    """Return a call of every function of the table, with the equivalent call of Spark."""
    calls = []
    for name in ARGUMENTS:
        argument = chance.choice(ARGUMENTS[name])
        can_be = name in ACCUMULATORS and ACCUMULATORS[name].distinct is not None
        distinct = "DISTINCT " if can_be and "*" not in argument else ""
        # Spark does not define the order of a DISTINCT list.
        distinct = distinct if name != "collect_list" and chance.random() < 0.3 else ""
        condition = chance.choice(["", "", "i > 0", "s <> 'a'"])
        filter_ = f" FILTER (WHERE {condition})" if condition else ""
        call = f"{name}({distinct}{argument}){filter_}"
        if name == "collect_list":
            native = NATIVE[name].format(argument, f" AND {condition}" if condition else "")
        elif name == "sum" and argument == "big":
            native = f"try_cast(sum({distinct}CAST(big AS DECIMAL(30,0))){filter_} AS BIGINT)"
        else:
            native = NATIVE.get(name, f"{name}({{}})").format(distinct + argument) + filter_
        view = VIEWS.get(name, "{}")
        calls.append((view.format(call), view.format(native)))
    a, b = chance.sample(["count(*)", "min(i)", "max(p)", "sum(tiny)"], 2)
    return [*calls, (f"coalesce({a}, 0) - {b} * 2", f"coalesce({a}, 0) - {b} * 2")]


def test_every_entry_of_the_table_is_used() -> None:
    assert ARGUMENTS.keys() | {"theta_union_agg"} == ACCUMULATORS.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a stream in batches and Spark's own GROUP BY give for the same calls and rows."""

    calls: list[tuple[str, str]]
    batches: list[list[Row]]
    drained: list[Row]
    native: list[Row]
    schemas: tuple[str, str]


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Results[int, Answers]]:
    def asked(seed: int, session: SparkSession) -> Answers:
        with interpreting(session):
            return ask(seed, session, tmp_path_factory.mktemp("differential"))

    with side_by_side(request, spark, "seed", asked) as answers:
        yield answers


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.whole)])
def test_a_stream_in_batches_gives_the_results_of_sparks_group_by(
    seed: int, answers: Results[int, Answers]
) -> None:
    found = answers[seed]
    assert found.batches == [[]] * BATCHES
    given = {row["k"]: row for row in found.drained}
    expected = {row["k"]: row for row in found.native}
    ours, native = found.schemas
    assert ours == native
    assert given.keys() == expected.keys()
    wrong = [
        f"{call} of {key}: {given[key][f'a{place}']!r}, not {row[f'a{place}']!r}"
        for key, row in expected.items()
        for place, (call, _) in enumerate(found.calls)
        if not same(given[key][f"a{place}"], row[f"a{place}"])
    ]
    assert not wrong, "\n".join(wrong)


def ask(seed: int, spark: SparkSession, checkpoint: Path) -> Answers:
    chance = random.Random(seed)
    calls = random_calls(chance)
    rows = random_rows(chance)
    items = ", ".join(f"{call} AS a{place}" for place, (call, _) in enumerate(calls))
    query = tidegate.sql(
        f"SELECT k, {items} FROM r GROUP BY tumblingwindow('mi', 1), k",
        streams={"r": SCHEMA},
        settings={"event_time_field": "ts", "watermark_lag": "1m"},
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(checkpoint), partitions=1)
    cut = sorted(rows, key=lambda _: chance.random())
    outcomes = [
        stepper.batch(spark.createDataFrame(cut[start::BATCHES], SCHEMA), CLOCK_US)
        for start in range(BATCHES)
    ]
    drained = stepper.drain()

    frame: DataFrame = spark.createDataFrame(rows, SCHEMA)
    frame.createOrReplaceTempView("differential")
    natives = ", ".join(f"{native} AS a{place}" for place, (_, native) in enumerate(calls))
    native = spark.sql(f"SELECT k, {natives} FROM differential GROUP BY k")
    return Answers(
        calls=calls,
        batches=[list(outcome.rows) for outcome in outcomes],
        drained=list(drained.rows),
        native=native.collect(),
        schemas=(query.schema.simpleString(), native.schema.simpleString()),
    )


def same(given: Any, expected: Any) -> bool:
    """Return whether two results are equal, up to the last digits of floats; NaN equals itself."""
    if isinstance(given, list) and isinstance(expected, list):
        return len(given) == len(expected) and all(map(same, given, expected))
    if isinstance(given, float) and isinstance(expected, float):
        close = math.isclose(given, expected, rel_tol=1e-9, abs_tol=1e-9)
        return close or (math.isnan(given) and math.isnan(expected))
    return type(given) is type(expected) and given == expected
