"""Frames from SQL text: one statement over a frame, instead of a long chain of DataFrame calls.

Each DataFrame call analyzes its plan again and costs several round trips to the JVM; a small batch
would spend much of its time there. A statement is analyzed only once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from tidegate.spark.calls import calls_of
from tidegate.spark.views import set_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# A BIGINT of the row that is never NULL, for use where no column is.
ROW_NUMBER = "monotonically_increasing_id()"

# The lower bits of a row number count the rows of a task; those above are the number of the task.
_TASK_BITS = 33

# A filter of values has this many words of 64 bits.
_FILTER_WORDS = 128

# A view is resolved when the statement is analyzed; then the next frame may reuse its name. The
# locks keep another thread on the same session from doing so in between; few sessions share one.
_VIEW = "_tidegate_"
_ONE_AT_A_TIME = tuple(threading.Lock() for _ in range(64))
_QUOTED_OR_NAME = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\{(\w+)\}""", re.DOTALL
)


def over(frame: DataFrame, statement: str) -> DataFrame:
    """Return the frame of a statement that names ``frame`` as ``{frame}``.

    If ``frame`` is observed, another DataFrame call must follow: Spark does not look for
    observations inside the view that the statement reads.
    """
    return over_all({"frame": frame}, statement)


def over_all(frames: Mapping[str, DataFrame], statement: str) -> DataFrame:
    """Return the frame of a statement that names frames of one session as ``{name}``."""
    spark = next(iter(frames.values())).sparkSession
    # Compare sessions in the JVM: Python may have several objects for one.
    session: Any = spark._jsparkSession
    number: int = session.hashCode()
    with _ONE_AT_A_TIME[number % len(_ONE_AT_A_TIME)]:
        for name, frame in frames.items():
            set_view(_VIEW + name, frame)
        # ``spark.sql`` makes an array of no arguments first: four round trips.
        return DataFrame(session.sql(_named(statement, frames)), spark)


def _named(statement: str, names: Collection[str]) -> str:
    """Return a statement with view names in place of ``{name}``, except inside quotes.

    >>> _named("SELECT '{frame}' AS `{frame}` FROM {frame}", ["frame"])
    "SELECT '{frame}' AS `{frame}` FROM _tidegate_frame"
    """

    def view(found: re.Match[str]) -> str:
        return _VIEW + found[1] if found[1] in names else found[0]

    return _QUOTED_OR_NAME.sub(view, statement)


def empty_frame(spark: SparkSession, schema: StructType | str) -> DataFrame:
    """Return a frame without rows.

    Takes less than half the time of ``createDataFrame([], schema)``, which makes a Python RDD.

    Args:
        spark: the session.
        schema: its columns, also as DDL.
    """
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    columns = (
        _of_ddl(spark, schema) if isinstance(schema, str) else session.parseDataType(schema.json())
    )
    return DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), columns), spark)


def _of_ddl(spark: SparkSession, ddl: str) -> Any:  # noqa: ANN401 - a JVM object
    """Return Spark's schema of a DDL text, parsed with the settings of a session."""
    jvm: Any = spark._jvm
    classic: Any = getattr(jvm.org.apache.spark.sql.classic, "SparkSession$")
    sessions: Any = getattr(classic, "MODULE$")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        return jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def selected(frame: DataFrame, *columns: str) -> DataFrame:
    """Do what ``frame.selectExpr`` does, in one round trip for columns that were used before."""
    calls = calls_of(frame.sparkSession)
    return DataFrame(frame._jdf.selectExpr(calls.texts(columns)), frame.sparkSession)


def first_of_each(frame: DataFrame, rows: int) -> DataFrame:
    """Return the first rows of each partition of a frame; the others are not read.

    In SQL text there is only a LIMIT of all partitions together, which takes those of some.

    Args:
        frame: any frame.
        rows: how many of each partition, at most.
    """
    spark = frame.sparkSession
    # The plan of a LIMIT: below that of all partitions there is one of each.
    of_each = frame.limit(rows)._jdf.logicalPlan().child()
    return DataFrame(calls_of(spark).frame_of(spark._jsparkSession, of_each), spark)


def by_reference(value: int, beside: str) -> str:
    """Return a BIGINT constant as Spark SQL that is not part of the generated code.

    For values that change from batch to batch. A plain literal is written into the generated code,
    which Spark then compiles for every batch (13 ms a stage) and runs cold; an array is passed by
    reference. Comparisons with it are not pushed down to Parquet.

    Args:
        value: the constant.
        beside: a BIGINT of the row; where it is NULL, so is the constant.
    """
    # Not ``[..]``, which raises if Spark evaluates the index early for a row where it is NULL.
    return f"get(array({value}L), CAST({beside} & 0L AS INT))"


def number_in_task(row_number: str) -> str:
    """Return the number of a row in its task, from 0 (Spark SQL), by its row number."""
    return f"({row_number} & {(1 << _TASK_BITS) - 1}L)"


def task_of(row_number: str) -> str:
    """Return the number of the task that reads a row, from 0 (Spark SQL), by its row number."""
    return f"shiftright({row_number}, {_TASK_BITS})"


def is_among_first(count: int) -> str:
    """Return the condition that a row is one of the first so many of its task.

    Where an expression is not evaluated for all rows, only those for which it is are counted.
    """
    return f"{number_in_task(ROW_NUMBER)} < {count}L"


def is_one_of(column: str, values: Sequence[int], never: int | None = None) -> str:
    """Return the condition that a BIGINT column is one of some values.

    A set is not part of the generated code, and Parquet can skip what lies outside of it. See
    ``STEP_CONF``.

    Args:
        column: the column.
        values: the values.
        never: what the column never is. If it is not given, values are starts of panes that are
            wider than a microsecond.
    """
    # Spark makes an equality of a set of one; the second value is never the start of a pane.
    if len(values) == 1:
        values = [*values, values[0] + 1 if never is None else never]
    return f"{column} IN ({', '.join(f'{value}L' for value in values)})"


def may_be_one_of(column: str, values: Sequence[int]) -> str:
    """Return a condition that holds if a BIGINT column is one of some values, else mostly not.

    To be asked before ``is_one_of`` where hardly a row is one of them: a lookup in a set takes 14
    ns of CPU time, this takes 4 ns. With a thousand values it holds for an eighth of other rows.

    Args:
        column: the column, not NULL.
        values: the values.
    """
    words = [0] * _FILTER_WORDS
    for value in values:
        words[(value >> 6) % _FILTER_WORDS] |= 1 << (value & 63)
    # An array is not part of the generated code either. Its numbers are signed.
    signed = ", ".join(f"{word - (word >> 63 << 64)}L" for word in words)
    word = f"get(array({signed}), CAST(shiftright({column}, 6) & {_FILTER_WORDS - 1}L AS INT))"
    return f"shiftright({word}, CAST({column} & 63L AS INT)) & 1L = 1L"
