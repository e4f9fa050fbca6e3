"""Preparing the rows of one stream for several queries: each expression is computed once.

The rows have a column for each different expression, ``_s0``, ``_s1`` ..; a query selects its own
prepared columns from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from tidegate.engine.rows.prepare import asks_for_file, prepared_sql
from tidegate.names import in_backticks
from tidegate.plan.columns import FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.physical import PhysicalPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A query that is prepared with others; ``keep_rows`` as in ``prepare``."""

    plan: PhysicalPlan
    keep_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Rows for several queries.

    Attributes:
        rows: the rows.
        columns: for each query, what it selects to get its prepared rows.
    """

    rows: DataFrame
    columns: tuple[tuple[str, ...], ...]


def prepare_together(stream: DataFrame, parts: Sequence[Part]) -> Together:
    """Return the rows of a stream, prepared for queries whose FROM is nothing but that stream.

    Args:
        stream: the stream.
        parts: the queries.
    """
    names: dict[str, str] = {}
    columns = []
    for part in parts:
        own = prepared_sql(part.plan, stream.columns, keep_rows=part.keep_rows)
        for sql in own.values():
            names.setdefault(sql, f"_s{len(names)}")
        columns.append(tuple(f"{names[sql]} AS {name}" for name, sql in own.items()))
    if asks_for_file({name: sql for sql, name in names.items()}):
        stream = stream.select("*", FILE)
    view = f"_tidegate_{uuid4().hex}"
    selected = ", ".join(f"{sql} AS {name}" for sql, name in names.items())
    source = in_backticks(parts[0].plan.prepare.source.name)
    spark = stream.sparkSession
    try:
        stream.createOrReplaceTempView(view)
        rows = spark.sql(f"WITH {source} AS (SELECT * FROM {view}) SELECT {selected} FROM {source}")
    finally:
        spark.catalog.dropTempView(view)
    return Together(rows=rows, columns=tuple(columns))
