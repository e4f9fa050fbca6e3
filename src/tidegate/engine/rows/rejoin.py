"""Bringing what a job has found out about rows of a batch back to them, in their order.

The marks are broadcast to all tasks: a shuffle would give the rows other places, by which later
jobs of the step find them. So marks have few bytes: a place, and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.spark.statements import over_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What is known of some rows of a batch.

    Attributes:
        frame: the marks.
        same: the condition (Spark SQL over ``rows`` and ``marks``) that a mark is of a row.
    """

    frame: DataFrame
    same: str


def rejoined(rows: DataFrame, marks: Marks, columns: Iterable[str]) -> DataFrame:
    """Return rows with columns of their marks, NULL for those that have none, in their order.

    Args:
        rows: the rows.
        marks: the marks.
        columns: the columns of the result, as expressions over ``rows`` and ``marks``.
    """
    return over_all(
        {"rows": rows, "marks": marks.frame},
        f"SELECT /*+ BROADCAST(marks) */ {', '.join(columns)} FROM {{rows}} AS rows "
        f"LEFT JOIN {{marks}} AS marks ON {marks.same}",
    )
