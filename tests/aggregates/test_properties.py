"""What the table promises besides the merge law, on Spark: overflow, plans, batch results."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

import tidegate as tg
from tidegate.plan.aggregates.planned import evaluation, plan_accumulator, row_aggregate
from tidegate.plan.aggregates.registry import REGISTERED

from .calls import NAMES, arguments, call

GREATEST = 2**63 - 1


def _merged(rows: DataFrame, text: str, native_type: str) -> list[Any]:
    """Return the value of each group k, with its rows split by p."""
    planned = plan_accumulator(call(text).aggregate, arguments(typed=False))
    updates = [functions.expr(c.update).alias(c.name) for c in planned.columns]
    merges = [functions.expr(c.merge).alias(c.name) for c in planned.columns]
    merged = rows.groupBy("k", "p").agg(*updates).groupBy("k").agg(*merges).orderBy("k")
    return [row[0] for row in merged.selectExpr(evaluation(planned, native_type)).collect()]


def test_a_sum_that_leaves_its_range_is_null_whatever_it_is_merged_into(
    spark: SparkSession,
) -> None:
    groups = {
        "beyond in a part": [(0, GREATEST), (0, 1), (1, 5)],
        "beyond in the merge": [(0, GREATEST), (1, 1)],
        "in range": [(0, GREATEST), (0, None), (1, None)],
    }
    data = [(name, p, value) for name, parts in groups.items() for p, value in parts]
    rows = spark.createDataFrame(data, f"k STRING, p INT, {NAMES['big']} BIGINT")
    assert _merged(rows, "sum(big)", "bigint") == [None, None, GREATEST]
    assert _merged(rows, "sum(DISTINCT big)", "bigint") == [None, None, GREATEST]
    assert _merged(rows, "avg(big)", "double")[1] == pytest.approx(GREATEST / 2)
    kept = rows.groupBy("k").agg(functions.expr(row_aggregate(call("sum(big)").aggregate)))
    assert [row[1] for row in kept.orderBy("k").collect()] == [None, None, GREATEST]


def test_the_correlation_with_a_constant_is_null(spark: SparkSession) -> None:
    data = [("k", 0, 0.1, 1.0), ("k", 0, 0.1, 2.0), ("k", 1, 0.1, 4.0), ("k", 1, 0.1, 4.5)]
    columns = f"k STRING, p INT, {NAMES['const']} DOUBLE, {NAMES['ratio']} DOUBLE"
    rows = spark.createDataFrame(data, columns)
    assert _merged(rows, "corr(const, ratio)", "double") == [None]
    kept = rows.groupBy("k").agg(
        functions.expr(row_aggregate(call("corr(const, ratio)").aggregate))
    )
    assert [row[1] for row in kept.collect()] == [None]


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "of no known type"])
def test_plain_aggregates_of_numbers_are_hashed(spark: SparkSession, typed: bool) -> None:
    texts = [
        f"{function}({column})"
        for function in ("count", "sum", "avg", "min", "max")
        for column in ("small", "big", "ratio", "price")
    ]
    planned = [
        plan_accumulator(call(text).aggregate, arguments(typed=typed))
        for text in (*texts, "count_if(flag)")
    ]
    columns = {column.name: column for p in planned for column in p.columns}
    named = ", ".join(
        f"CAST(id AS {ddl}) AS {NAMES[name]}"
        for name, ddl in (
            ("small", "INT"),
            ("big", "BIGINT"),
            ("ratio", "DOUBLE"),
            ("price", "DECIMAL(10,2)"),
            ("flag", "BOOLEAN"),
        )
    )
    rows = spark.range(10).selectExpr("id % 3 AS k", *named.split(", "))
    partials = rows.groupBy("k").agg(
        *(functions.expr(c.update).alias(c.name) for c in columns.values())
    )
    merged = partials.groupBy("k").agg(
        *(functions.expr(c.merge).alias(c.name) for c in columns.values())
    )
    for frame in (partials, merged):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "HashAggregate" in plan
        assert "ObjectHashAggregate" not in plan
        assert "SortAggregate" not in plan


STREAM = "ts TIMESTAMP, k STRING, small INT, big BIGINT, ratio DOUBLE, price DECIMAL(12,3)"
AGGREGATES = tuple(
    f"{function}{expression})"
    for expression in ("small", "big", "ratio", "price", "small * 2", "price + 1", "ratio / 3")
    for function in (
        "sum(",
        "avg(",
        "min(",
        "max(",
        "count(",
        "count(DISTINCT ",
        "sum(DISTINCT ",
        "median(",
        "stddev(",
    )
)


@pytest.mark.parametrize("seed", [1, 2])
def test_batch_gives_the_results_of_sparks_group_by(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    data = [
        (
            start + timedelta(seconds=chance.randint(0, 29)),
            chance.choice(["a", "b", None]),
            *(
                chance.choice([None, value])
                for value in (chance.randint(-9, 9), chance.randint(-(2**40), 2**40))
            ),
            chance.uniform(-5, 5),
            None,
        )
        for _ in range(200)
    ]
    rows = spark.createDataFrame(data, STREAM).withColumn(
        "price", functions.expr("CAST(big / 7000 AS DECIMAL(12,3))")
    )
    calls = [
        text + chance.choice(["", "", " FILTER (WHERE small > 0)"])
        for text in chance.sample(AGGREGATES, 10)
    ]
    items = ", ".join(f"{text} AS a{place}" for place, text in enumerate(calls))
    query = tg.sql(
        f"SELECT k, window_start() AS s, {items} FROM facts GROUP BY tumblingwindow('ss', 10), k",
        settings={"event_time_field": "ts"},
        facts=rows,
    )
    rows.createOrReplaceTempView("facts_as_they_are")
    native = spark.sql(
        f"SELECT k, window.start AS s, {items} FROM facts_as_they_are "
        "GROUP BY window(ts, '10 seconds'), k"
    )
    given = query.batch()
    assert [f.dataType for f in given.schema.fields] == [f.dataType for f in native.schema.fields]
    for mine, own in zip(_sorted(given), _sorted(native), strict=True):
        for text, a, b in zip(("k", "s", *calls), mine, own, strict=True):
            assert a == b or a == pytest.approx(b, rel=1e-9), text


def _sorted(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row["s"], row["k"] or ""))


@pytest.fixture
def registered() -> Iterator[None]:
    """Remove what a test registers when it ends."""
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


GEO_MEAN = {
    "update": "named_struct('l', sum(ln({x})){filter}, 'n', count({x}){filter})",
    "merge": "named_struct('l', sum({p}.l), 'n', sum({p}.n))",
    "evaluate": "exp({v}.l / nullif({v}.n, 0))",
}


def _prices(spark: SparkSession) -> DataFrame:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    data = [(start + timedelta(seconds=i), float(x)) for i, x in enumerate([2, 8, 4])]
    return spark.createDataFrame(data, "ts TIMESTAMP, price DOUBLE")


def _geo_mean(spark: SparkSession, window: str) -> tg.Query:
    return tg.sql(
        f"SELECT geo_mean(price) AS g, GEO_MEAN(price) FILTER (WHERE price < 8) AS h FROM p "
        f"GROUP BY {window}",
        settings={"event_time_field": "ts"},
        p=_prices(spark),
    )


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("window", ["tumblingwindow('ss', 10)", "countwindow(3)"])
def test_a_registered_accumulator_is_called_like_any_aggregate(
    spark: SparkSession, window: str
) -> None:
    tg.register_accumulator("geo_mean", **GEO_MEAN)
    (row,) = _geo_mean(spark, window).batch().collect()
    assert row["g"] == pytest.approx(4.0)
    assert row["h"] == pytest.approx(8**0.5)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("part", "text", "said"),
    [
        ("update", "sum(lnn({x})){filter}", "`lnn`"),
        ("merge", "summ({p})", "`summ`"),
        ("merge", "array(sum({p}.l))", "ARRAY"),
        ("evaluate", "{v}.missing", "`missing`"),
    ],
)
def test_a_definition_that_spark_cannot_resolve_is_refused_with_its_text(
    spark: SparkSession, part: str, text: str, said: str
) -> None:
    tg.register_accumulator("geo_mean", **{**GEO_MEAN, part: text})
    with pytest.raises(tg.ConfigError) as refused:
        _geo_mean(spark, "tumblingwindow('ss', 10)").batch()
    assert str(refused.value).startswith("accumulator geo_mean: Spark refuses this text")
    assert text in str(refused.value)
    assert said in str(refused.value)
