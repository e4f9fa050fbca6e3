"""Rows that go back to the folder of their source are read like the rows of its other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from tidegate.api.reinject import reinject_sinks
from tidegate.connectors.reinject import STAGING, writer_options
from tidegate.connectors.sources import read_stream, read_table
from tidegate.errors import ConfigError
from tidegate.plan.columns import MALFORMED
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.side_output import Route
from tidegate.plan.statement import Relation

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

# Times with microseconds, blanks at the ends, quotes, what is empty and what is NULL.
ROWS = """
    SELECT * FROM VALUES
    (1, 'a', timestamp_micros(1767268800123456)), (2, '', NULL), (3, NULL, timestamp_micros(-1)),
    (NULL, ' "quoted", ', timestamp_micros(1767268800000000)) AS rows(v, name, ts)
"""
SQL = "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10) ON ts"
BACK = [Route(kind="error", sink="reinject", reinject_to="r")]


def source(folder: Path, form: str, **options: str) -> SourceConfig:
    """A source whose schema has another order than its files."""
    return SourceConfig(
        name="r",
        format=form,
        relation=Relation(name="r", columns=None),
        path=str(folder),
        schema="ts TIMESTAMP, v INT, name STRING",
        options=options,
    )


def told(spark: SparkSession, config: SourceConfig) -> list[str]:
    rows = read_table(spark, config).drop(MALFORMED).selectExpr("unix_micros(ts)", "v", "name")
    return sorted(map(str, rows.collect()))


@pytest.mark.parametrize(
    ("form", "options"),
    [("json", {}), ("parquet", {}), ("csv", {"header": "true"}), ("csv", {"sep": ";"})],
    ids=["json", "parquet", "csv with a header", "csv without one"],
)
def test_rows_come_back_as_they_were_and_an_epoch_puts_them_back_once(
    spark: SparkSession, tmp_path: Path, form: str, options: dict[str, str]
) -> None:
    rows = spark.sql(ROWS)
    if options != {"header": "true"}:
        rows = rows.select("ts", "v", "name")
    rows.coalesce(1).write.format(form).options(**writer_options({"escape": '"'} | options)).save(
        str(tmp_path / "in")
    )
    config = source(tmp_path / "in", form, **options)
    before = told(spark, config)
    assert len(before) == 4
    stream = read_stream(spark, config, ErrorPolicy.SIDE_OUTPUT)
    query = tg.sql(SQL, streams={"r": stream}, spark=spark)
    sink = reinject_sinks(query._routed(BACK).physical, stream)["errors"]
    sink.open("0123456789abcdef", None)  # type: ignore[attr-defined]
    back = spark.sql(ROWS).select("ts", "v", "name")
    for _ in range(2):
        sink.write(back, 7)
    assert told(spark, config) == sorted([*before, *before])
    (file,) = (tmp_path / "in").glob("tidegate-reinjected-*")
    assert file.name.startswith("tidegate-reinjected-0123456789ab-7.")
    assert not (tmp_path / "in" / STAGING).exists()
    sink.write(back.where("false"), 8)
    assert len(list((tmp_path / "in").glob("tidegate-reinjected-*"))) == 1


def refused(spark: SparkSession, stream: DataFrame, sql: str = SQL, **route: object) -> str:
    routes = [Route(**{"kind": "error", "sink": "reinject", "reinject_to": "r", **route})]  # type: ignore[arg-type]
    query = tg.sql(sql, streams={"r": stream}, spark=spark)
    with pytest.raises(ConfigError) as error:
        reinject_sinks(query._routed(routes).physical, stream)
    return str(error.value)


def test_what_cannot_take_rows_back_is_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "days" / "day=1").mkdir(parents=True)
    reader = spark.readStream.schema("ts TIMESTAMP, v INT")
    stream = reader.json(str(tmp_path / "in"))
    files = "it does not read files of csv, json, parquet and orc as they are"
    assert files in refused(spark, stream.where("v > 0"))
    assert files in refused(spark, stream.selectExpr("ts", "v + 1 AS v"))
    rate = spark.readStream.format("rate").load().selectExpr("timestamp AS ts")
    assert files in refused(spark, rate)
    assert "its path is a pattern" in refused(spark, reader.json(f"{tmp_path}/i*"))
    assert "values of columns in their names" in refused(spark, reader.json(f"{tmp_path}/days"))
    many = spark.readStream.schema("ts TIMESTAMP").option("multiLine", True)
    assert "a file holds one document" in refused(spark, many.json(str(tmp_path / "in")))

    assert "late rows would be late again" in refused(spark, stream, kind="late")
    assert "the statement reads r" in refused(spark, stream, reinject_to="s")
    assert "needs reinject_to" in refused(spark, stream, reinject_to=None)
    assert "the original row is what goes back" in refused(spark, stream, include_original=False)
    derived = "SELECT count(*) AS n FROM (SELECT * FROM r) GROUP BY tumblingwindow('ss', 10) ON ts"
    assert "FROM does more than read r" in refused(spark, stream, derived)
