"""Frames from SQL text: one statement over a frame, instead of a chain of DataFrame calls.

Each DataFrame call analyzes the whole plan again and costs some round trips to the JVM; a small
batch spends a good part of its time there. One text for the whole chain is analyzed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A view is resolved when a statement is analyzed, so the next frame may take the name.
_VIEW = "_tidegate_frame"


def over(frame: DataFrame, statement: str) -> DataFrame:
    """Return the frame of a statement that names ``frame`` as ``{frame}``."""
    frame.createOrReplaceTempView(_VIEW)
    return frame.sparkSession.sql(statement.replace("{frame}", _VIEW))


def not_after(time: str, bound_us: int) -> str:
    """Return the condition that a time (BIGINT, Spark SQL) is not after a bound.

    It is for a bound that changes from batch to batch. A BIGINT constant is part of the
    generated code, which Spark then compiles for every batch (13 ms a stage); a DECIMAL constant is
    handed over by reference, so the code stays the same. The addition keeps the optimizer from
    turning the comparison back. For a few values a row of state, not for rows.
    """
    return f"CAST({time} AS DECIMAL(20, 0)) + 1BD <= {bound_us + 1}BD"
