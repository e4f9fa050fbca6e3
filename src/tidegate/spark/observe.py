"""Numbers that are computed while a Spark action runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame

from tidegate.errors import ExecutionError
from tidegate.spark.calls import calls_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The numbers arrive through a listener, a moment after the action has ended. Without an action
# they never arrive.
PATIENCE_SECONDS = 60

_PICKLED: Any = CPickleSerializer()

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
    spark = frame.sparkSession
    calls = calls_of(spark)
    observation: Any = calls.observation()
    # A single struct, because each expression would cost several round trips to the JVM.
    fields = ", ".join(f"'{name}', {sql}" for name, sql in expressions.items())
    numbers = calls.expression(f"named_struct({fields}) AS numbers")
    watched = frame._jdf.observe(observation, numbers, calls.no_columns)

    @cache
    def seen() -> dict[str, Any]:
        _await(spark, observation, patience_seconds)
        row = _PICKLED.loads(calls.row(observation.getRow()))
        values: dict[str, Any] = row["numbers"].asDict()
        return values

    return DataFrame(watched, spark), seen


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


def _await(spark: SparkSession, observation: Any, seconds: float) -> None:  # noqa: ANN401
    """Wait for the numbers with a limit, where ``Observation.get`` could wait forever."""
    future = observation.future()
    if future.isCompleted():
        return
    jvm: Any = spark._jvm
    scala = jvm.scala.concurrent
    patience = scala.duration.Duration.apply(int(seconds * 1000), "ms")
    try:
        scala.Await.ready(future, patience)
    except Py4JJavaError as error:
        raise ExecutionError(
            "A sink has not read all rows of its frame: their count did not arrive within "
            f"{seconds:g} s after write returned\n\nThe write(frame, epoch) of a sink "
            "with reads_once = True must run one action that reads the whole frame, for example "
            "frame.write..., frame.collect() or frame.foreachPartition(..)."
        ) from error
