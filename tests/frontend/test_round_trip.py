"""An expression that was cut apart and put together again means to Spark what its author wrote."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from frontend.expressions import COLUMNS, EXPRESSIONS, VALUES
from interpreted import interpreting
from tidegate.frontend.binding.bind import bind
from tidegate.frontend.reading.parse import parse
from tidegate.plan.settings import Settings
from tidegate.plan.statement import BoundQuery, Relation

EVENTS = Relation(name="events", columns=COLUMNS)
NAMES = [f"`{column.name}`" for column in COLUMNS]


def bound(select: str, group_by: str) -> BoundQuery:
    return bind(parse(f"SELECT {select} FROM events GROUP BY {group_by}"), [EVENTS], Settings())


def as_row_value(expression: str) -> tuple[str, dict[str, str]]:
    query = bound(
        f"named_struct('w', window_id(), 'v', {expression}\n).v", "tumblingwindow('ss', 10)"
    )
    return query.items[0].expression.sql, {a.name: a.expression.sql for a in query.arguments}


def over_keys(expression: str) -> tuple[str, dict[str, str]]:
    query = bound(
        f"named_struct('n', count(*), 'v', {expression}\n).v", f"countwindow(1), {', '.join(NAMES)}"
    )
    assert not query.arguments
    return query.items[0].expression.sql, {key.name: key.expression.sql for key in query.keys}


def as_key(expression: str) -> tuple[str, dict[str, str]]:
    query = bound(
        f"named_struct('n', count(*), 'v', ({expression}\n)).v", f"countwindow(1), {expression}\n"
    )
    assert query.items[0].expression.sql == "named_struct('n', _a0, 'v', (_k0\n)).v"
    return query.items[0].expression.sql, {key.name: key.expression.sql for key in query.keys}


def as_an_argument(expression: str) -> tuple[str, dict[str, str]]:
    query = bound(f"any_value({expression}\n)", "tumblingwindow('ss', 10)")
    assert [aggregate.args for aggregate in query.aggregates] == [("_x0",)]
    return "_x0", {a.name: a.expression.sql for a in query.arguments}


def prepared(spark: SparkSession) -> None:
    columns = ", ".join(f"{value} AS {name}" for value, name in zip(VALUES, NAMES, strict=True))
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("events")


def shown(spark: SparkSession, columns: list[str], relation: str) -> list[str]:
    values = [
        f"concat_ws(' ', typeof({each}\n), CAST({each}\n AS STRING)) AS c{i}"
        for i, each in enumerate(columns)
    ]
    (row,) = spark.sql(f"SELECT {', '.join(values)} FROM {relation}").collect()
    return list(row)


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> list[str]:
    """The expressions as they are."""
    with interpreting(spark):
        prepared(spark)
        return shown(spark, list(EXPRESSIONS), "events")


@pytest.mark.parametrize("cut", [as_row_value, over_keys, as_key, as_an_argument])
def test_an_expression_cut_apart_means_the_same_to_spark(
    cut, whole: list[str], interpreted: SparkSession
) -> None:
    texts, inner = [], ["1 AS _a0", "'id' AS _id"]
    for i, expression in enumerate(EXPRESSIONS):
        text, parts = cut(expression)
        for name, sql in parts.items():
            text = re.sub(rf"\b{name}\b", f"p{i}{name}", text)
            inner.append(f"{sql}\n AS p{i}{name}")
        texts.append(text)
    found = shown(interpreted, texts, f"(SELECT {', '.join(inner)} FROM events) AS events")
    assert dict(zip(EXPRESSIONS, found, strict=True)) == dict(zip(EXPRESSIONS, whole, strict=True))
