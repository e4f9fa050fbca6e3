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
