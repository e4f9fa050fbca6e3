"""Functions that a user registered in Spark: scalars, and aggregates over whole rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from pyspark.sql.functions import pandas_udf

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.errors import QueryError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "ts TIMESTAMP, k STRING, v DOUBLE"
SETTINGS = {"event_time_field": "ts"}
CLOCK_US = 4_000_000_000_000_000


@pytest.fixture
def functions(spark: SparkSession) -> Iterator[None]:
    """``shout(text)``, and ``middle(number)`` over the rows of a group; gone after the test."""

    def middle(values: pd.Series) -> float:
        return float(values.median())

    spark.udf.register("shout", lambda text: text.upper() + "!", "STRING")
    spark.udf.register("middle", pandas_udf(middle, "DOUBLE"))
    yield
    for name in ("shout", "middle"):
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")


@pytest.mark.usefixtures("functions")
def test_a_user_aggregate_stores_rows_and_explain_says_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = tidegate.sql(
        "SELECT shout(k) AS who, middle(v) AS m FROM r GROUP BY tumblingwindow('ss', 10), k",
        streams={"r": SCHEMA},
        settings=SETTINGS,
        spark=spark,
    )
    assert "rows kept to the close: middle has no merge" in query.explain()

    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    batches = [[(1, "a", 1.0), (2, "a", 9.0), (3, "b", 4.0)], [(4, "a", 2.0), (20, "a", 0.0)]]
    emitted = []
    for batch in batches:
        rows = [(START + timedelta(seconds=second), k, v) for second, k, v in batch]
        outcome = stepper.batch(spark.createDataFrame(rows, SCHEMA), CLOCK_US)
        emitted.append(sorted((row["who"], row["m"]) for row in outcome.rows))

    assert emitted == [[], [("A!", 2.0), ("B!", 4.0)]]


@pytest.mark.usefixtures("functions")
def test_a_python_aggregate_beside_one_of_spark_is_refused_before_a_window_closes(
    spark: SparkSession,
) -> None:
    with pytest.raises(QueryError, match=r"middle\(v\) is an aggregate in Python") as refused:
        tidegate.sql(
            "SELECT count(*) AS n, middle(v) AS m FROM r GROUP BY tumblingwindow('ss', 10)",
            streams={"r": SCHEMA},
            settings=SETTINGS,
            spark=spark,
        )
    assert "line 1, column 23" in str(refused.value)


def test_an_unregistered_function_is_refused(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="there is no function shout"):
        tidegate.sql(
            "SELECT shout(k) AS w FROM r GROUP BY tumblingwindow('ss', 10)",
            streams={"r": SCHEMA},
            settings=SETTINGS,
            spark=spark,
        )


def test_sql_functions_can_be_called_and_sparks_functions_win_over_namesakes(
    spark: SparkSession,
) -> None:
    spark.sql("CREATE TEMPORARY FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN x * 2")
    for name in ("upper", "SUM"):
        spark.udf.register(name, lambda value: "mine", "STRING")
    try:
        query = tidegate.sql(
            "SELECT upper(k) AS u, sum(v) AS s, twice(max(v)) AS t FROM r "
            "GROUP BY tumblingwindow('ss', 10), k",
            streams={"r": SCHEMA},
            settings=SETTINGS,
            spark=spark,
        )
        rows = spark.createDataFrame([(START, "a", 1.0), (START, "a", 3.0)], SCHEMA)
        assert [tuple(row) for row in query.batch(r=rows).collect()] == [("A", 4.0, 6.0)]
    finally:
        for name in ("twice", "upper", "SUM"):
            spark.sql(f"DROP TEMPORARY FUNCTION {name}")
