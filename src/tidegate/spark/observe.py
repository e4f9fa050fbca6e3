"""Numbers that are computed while a Spark action runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.serializers import CPickleSerializer, NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.util import _load_from_socket

from tidegate.errors import ExecutionError
from tidegate.spark.calls import Calls, calls_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The numbers arrive through a listener, a moment after the action has ended. Without an action
# they never arrive.
PATIENCE_SECONDS = 60

_PICKLED: Any = CPickleSerializer()
_AS_IT_IS: Any = NoOpSerializer()

# The same as PATIENCE_SECONDS, for numbers that may be missing.
SOON_SECONDS = 1


def observed(
    frame: DataFrame,
    expressions: Mapping[str, str],
    large: Mapping[str, str] = MappingProxyType({}),
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Return the observed frame, and a function that returns the numbers.

    They are known after the first action on the observed frame. If there was none, because a sink
    did not read the frame, the function raises an ``ExecutionError``.

    Args:
        frame: any frame.
        expressions: aggregate expressions (Spark SQL text) by name.
        large: others, of BINARY that may have many kilobytes.
    """
    return _observed(frame, expressions, PATIENCE_SECONDS, large)


def _observed(
    frame: DataFrame,
    expressions: Mapping[str, str],
    patience_seconds: float,
    large: Mapping[str, str] = MappingProxyType({}),
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    spark = frame.sparkSession
    calls = calls_of(spark)
    observation: Any = calls.observation()
    # A single struct, because each expression would cost several round trips to the JVM.
    numbers = calls.expression(f"{_struct(expressions)} AS numbers")
    more = calls.columns([f"{_struct(large)} AS large"]) if large else calls.no_columns
    watched = frame._jdf.observe(observation, numbers, more)

    @cache
    def seen() -> dict[str, Any]:
        _await(spark, observation, patience_seconds)
        row = observation.getRow()
        values: dict[str, Any] = _PICKLED.loads(calls.row(row.getStruct(0))).asDict()
        return values | (_binaries(row.getStruct(1), tuple(large), calls) if large else {})

    after = DataFrame(watched, spark)
    if "schema" in vars(frame):
        # An observation changes no column, and PySpark asks for the schema only once: of a wide
        # frame it takes a round trip of 40 ms.
        vars(after)["schema"] = frame.schema
    return after, seen


def _struct(expressions: Mapping[str, str]) -> str:
    fields = ", ".join(f"'{name}', {sql}" for name, sql in expressions.items())
    return f"named_struct({fields})"


def _binaries(row: Any, names: Sequence[str], calls: Calls) -> dict[str, bytes | None]:  # noqa: ANN401
    """The values of a row of the JVM, each BINARY, by their names.

    They come over a socket of their own, as PySpark collects rows. Py4J would send them as text, in
    parts of 8 KB, the second of which waits 40 ms until the system has acknowledged the first.
    """
    served = calls.serve(row.toSeq().iterator(), "observed")
    with _load_from_socket(served, _AS_IT_IS) as values:
        return dict(zip(names, values, strict=True))


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
