"""Numbers that a Spark action counts on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation, functions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def observed(
    frame: DataFrame, expressions: Mapping[str, str]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Return the frame, watched, and a function that gives the numbers.

    They are there after the first action on the watched frame.

    Args:
        frame: any frame.
        expressions: aggregate expressions (Spark SQL text) by name.
    """
    observation = Observation()
    # One expression for all: each would cost several round trips.
    fields = ", ".join(f"'{name}', {sql}" for name, sql in expressions.items())
    numbers = functions.expr(f"named_struct({fields})").alias("numbers")
    return frame.observe(observation, numbers), lambda: observation.get["numbers"].asDict()
