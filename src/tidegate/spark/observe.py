"""Numbers that a Spark action counts on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Observation, functions

from tidegate.errors import ExecutionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The numbers of an action are there when it has ended, but for a listener that is told a moment
# later. Without an action they never come.
PATIENCE_SECONDS = 60


def observed(
    frame: DataFrame, expressions: Mapping[str, str]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Return the frame, watched, and a function that gives the numbers.

    They are there after the first action on the watched frame. The function raises an
    ``ExecutionError`` when there was none: a sink has left out the frame.

    Args:
        frame: any frame.
        expressions: aggregate expressions (Spark SQL text) by name.
    """
    observation = Observation()
    # One expression for all: each would cost several round trips.
    fields = ", ".join(f"'{name}', {sql}" for name, sql in expressions.items())
    numbers = functions.expr(f"named_struct({fields})").alias("numbers")
    watched = frame.observe(observation, numbers)

    @cache
    def seen() -> dict[str, Any]:
        _await(observation)
        values: dict[str, Any] = observation.get["numbers"].asDict()
        return values

    return watched, seen


def _await(observation: Observation) -> None:
    """Wait until an action has given the numbers, where ``Observation.get`` would wait forever."""
    jvm: Any = observation._jvm
    numbers: Any = observation._jo
    if numbers.future().isCompleted():
        return
    scala = jvm.scala.concurrent
    patience = scala.duration.Duration.apply(PATIENCE_SECONDS, "s")
    try:
        scala.Await.ready(numbers.future(), patience)
    except Py4JJavaError as error:
        raise ExecutionError(
            "A sink has not read all rows of its frame: their number did not come within "
            f"{PATIENCE_SECONDS} s of its end\n\nA sink's write(frame, epoch) must run one action "
            "that reads the whole frame, for example frame.write..., frame.collect() or "
            "frame.foreachPartition(..)."
        ) from error
