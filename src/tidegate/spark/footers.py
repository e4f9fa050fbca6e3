"""What Parquet files tell of their columns: counts and bounds, from their footers alone.

Whoever has just written a file need not have counted what is in it: the writer of Parquet has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.spark.calls import Calls, calls_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Footers that are read at the same time.
_MOST_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """What a file tells of a column.

    Attributes:
        values: how many values are not NULL; None if the file does not tell.
        least, greatest: the bounds of these as Parquet has them, of a text its bytes, of a FLOAT
            the DOUBLE with the same digits. None if there are no values or the file does not tell,
            as with NaN among them and for long texts.
    """

    values: int | None
    least: Any = None
    greatest: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a file tells: the number of rows, and some columns by name."""

    rows: int
    columns: Mapping[str, ColumnStats]


def footers_of(
    spark: SparkSession, paths: Sequence[str], names: Collection[str], *, at_once: bool
) -> list[Footer]:
    """Return what Parquet files tell of columns of plain types.

    Args:
        spark: a session.
        paths: the files, as Spark names them.
        names: the columns; one that a file does not have as a plain column is left out.
        at_once: whether to read all files at the same time, for a storage that answers slowly.

    Raises:
        Exception: of Spark or py4j: a file cannot be read, or Parquet is built in another way.
    """
    calls = calls_of(spark)
    conf = spark._jsparkSession.sessionState().newHadoopConf()

    def footer(path: str) -> Footer:
        return _footer(calls, calls.parquet_file(calls.path(path), conf), names)

    if not at_once or len(paths) <= 1:
        return [footer(path) for path in paths]
    with ThreadPoolExecutor(min(len(paths), _MOST_AT_ONCE)) as threads:
        return list(threads.map(footer, paths))


def _footer(calls: Calls, file: Any, names: Collection[str]) -> Footer:  # noqa: ANN401
    reader = calls.parquet_reader(file, calls.parquet_options)
    try:
        blocks = _items(reader.getRowGroups())
    finally:
        reader.close()
    rows = 0
    parts: dict[str, list[ColumnStats]] = {name: [] for name in names}
    for block in blocks:
        rows_of_block = block.getRowCount()
        rows += rows_of_block
        for chunk in _items(block.getColumns()):
            name = chunk.getPath().toDotString()
            if name in parts:
                parts[name].append(_stats(chunk.getStatistics(), rows_of_block))
    columns = {name: stats_of_all(each) for name, each in parts.items() if each}
    return Footer(rows=rows, columns=columns)


def _items(found: Any) -> list[Any]:  # noqa: ANN401 - a list of the JVM
    """The items of a list; its iterator takes 6 ms to make."""
    return [found.get(at) for at in range(found.size())]


def _stats(told: Any, rows: int) -> ColumnStats:  # noqa: ANN401 - a JVM object
    nulls = None if told is None or not told.isNumNullsSet() else told.getNumNulls()
    values = None if nulls is None else rows - nulls
    if not values or not told.hasNonNullValue():
        return ColumnStats(values=values)
    least, greatest = told.genericGetMin(), told.genericGetMax()
    if not isinstance(least, (int, float)):
        least, greatest = bytes(least.getBytes()), bytes(greatest.getBytes())
    return ColumnStats(values=values, least=least, greatest=greatest)


def stats_of_all(parts: Sequence[ColumnStats]) -> ColumnStats:
    """Return what parts of a column tell together, such as those of several files."""
    counts = [part.values for part in parts]
    values = None if None in counts else sum(count or 0 for count in counts)
    filled = [part for part in parts if part.values != 0]
    if not filled or any(part.least is None for part in filled):
        return ColumnStats(values=values)
    return ColumnStats(
        values=values,
        least=min(part.least for part in filled),
        greatest=max(part.greatest for part in filled),
    )
