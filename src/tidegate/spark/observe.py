"""Numbers that are computed while a Spark action runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Observation, functions

from tidegate.errors import ExecutionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The numbers arrive through a listener, a moment after the action has ended. Without an action
# they never arrive.
PATIENCE_SECONDS = 60

# The same for numbers that may be missing.
SOON_SECONDS = 1


def observed(
    frame: DataFrame, expressions: Mapping[str, str]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Return the observed frame, and a function that returns the numbers.

    They are known after the first action on the observed frame. If there was none, because a sink
    did not read the frame, the function raises an ``ExecutionError``.

    Args:
        frame: any frame.
        expressions: aggregate expressions (Spark SQL text) by name.
    """
    return _observed(frame, expressions, PATIENCE_SECONDS)


def _observed(
    frame: DataFrame, expressions: Mapping[str, str], patience_seconds: float
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    observation = Observation()
    # A single struct, because each expression would cost several round trips to the JVM.
    fields = ", ".join(f"'{name}', {sql}" for name, sql in expressions.items())
    numbers = functions.expr(f"named_struct({fields})").alias("numbers")
    watched = frame.observe(observation, numbers)

    @cache
    def seen() -> dict[str, Any]:
        _await(observation, patience_seconds)
        values: dict[str, Any] = observation.get["numbers"].asDict()
        return values

    return watched, seen


def observed_soon(
    frame: DataFrame, expressions: Mapping[str, str]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Do the same as ``observed``, for numbers that may be missing.

    If they have not arrived a moment after the action, there are none.
    """
    watched, seen = _observed(frame, expressions, SOON_SECONDS)

    def seen_soon() -> dict[str, Any]:
        try:
            return seen()
        except ExecutionError:
            return {}

    return watched, seen_soon


def _await(observation: Observation, seconds: float) -> None:
    """Wait for the numbers with a limit, where ``Observation.get`` could wait forever."""
    jvm: Any = observation._jvm
    numbers: Any = observation._jo
    if numbers.future().isCompleted():
        return
    scala = jvm.scala.concurrent
    patience = scala.duration.Duration.apply(int(seconds * 1000), "ms")
    try:
        scala.Await.ready(numbers.future(), patience)
    except Py4JJavaError as error:
        raise ExecutionError(
            "A sink has not read all rows of its frame: their count did not arrive within "
            f"{seconds:g} s after write returned\n\nThe write(frame, epoch) of a sink "
            "with reads_once = True must run one action that reads the whole frame, for example "
            "frame.write..., frame.collect() or frame.foreachPartition(..)."
        ) from error
