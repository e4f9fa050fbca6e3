"""Bringing what a job has found out about rows of a batch back to them, in their order.

The marks of few rows are broadcast to all tasks, which keeps the order of the rows. A broadcast
goes through the driver, so its bytes decide: those of many rows are joined by a shuffle, and the
rows are put back in order of their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.spark.statements import over_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

# The most bytes that are broadcast, as they are in memory.
MOST_BYTES = 64_000_000

# What a row of a broadcast takes beside its values, and by how much its file is smaller.
ROW_BYTES, COMPRESSION = 48, 4

_BY = "_rejoined_by"

# Spark's estimate where it has none, or a product of such.
_UNKNOWN = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What is known of some rows of a batch.

    Attributes:
        frame: the marks.
        same: the condition (Spark SQL over ``rows`` and ``marks``) that a mark is of a row.
        size: how many bytes they take in memory, see ``memory``.
    """

    frame: DataFrame
    same: str
    size: int

    @property
    def hint(self) -> str:
        """How Spark is to join them."""
        strategy = "BROADCAST" if self.size <= MOST_BYTES else "SHUFFLE_MERGE"
        return f"/*+ {strategy}(marks) */"


def rejoined(rows: DataFrame, place: str, marks: Marks, columns: Iterable[str]) -> DataFrame:
    """Return rows with columns of their marks, NULL for those that have none, in their order.

    Args:
        rows: the rows.
        place: their column with the place in the batch.
        marks: the marks.
        columns: the columns of the result, as expressions over ``rows`` and ``marks``.
    """
    frames = {"rows": rows, "marks": marks.frame}
    wanted = list(columns)
    is_moved = marks.size > MOST_BYTES
    if is_moved:
        wanted.append(f"rows.{place} AS {_BY}")
    joined = over_all(
        frames,
        f"SELECT {marks.hint} {', '.join(wanted)} FROM {{rows}} AS rows LEFT JOIN {{marks}} AS "
        f"marks ON {marks.same}",
    )
    if not is_moved:
        return joined
    return joined.repartitionByRange(_BY).sortWithinPartitions(_BY).drop(_BY)


def memory(rows: int, file_bytes: int = 0) -> int:
    """Return about how many bytes rows take in a broadcast.

    Args:
        rows: how many they are.
        file_bytes: the bytes of their files, unless they are of a few numbers only.
    """
    return ROW_BYTES * rows + COMPRESSION * file_bytes


def table_size(rows: DataFrame) -> int:
    """Return the bytes of a table as far as Spark knows them, 0 if it does not.

    No marks of its rows are larger.
    """
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    size = int(plan.stats().sizeInBytes())
    return size if size < _UNKNOWN else 0
