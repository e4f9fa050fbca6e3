"""A stream that unites several: their rows, each with the name of the one it is from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.plan.columns import HIDDEN, SOURCE
from tidegate.plan.statement import Column
from tidegate.plan.unions import difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def united(name: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of all frames, with the hidden column ``SOURCE``.

    Args:
        name: the name of the union in the statement.
        frames: DataFrames of the same columns by their names, all streaming or none.

    Raises:
        ConfigError: they cannot be united.
    """
    if not frames:
        raise ConfigError(
            f"{name} unites no streams\n\nWrite {name}={{'a': spark.readStream..., 'b': ..}}."
        )
    if len({frame.isStreaming for frame in frames.values()}) > 1:
        told = ", ".join(
            f"{each} is {'' if frame.isStreaming else 'not '}a stream"
            for each, frame in frames.items()
        )
        raise ConfigError(f"{name} unites streams and tables: {told}\n\nUnite streams only.")
    differs = difference({each: columns_of(frame) for each, frame in frames.items()})
    if differs is not None:
        raise ConfigError(
            f"{name} unites streams of different columns: {differs}\n\nSelect the same columns of "
            "each, e.g. with select and cast."
        )
    tagged = [_tagged(each, frame) for each, frame in frames.items()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tagged)


def _tagged(name: str, frame: DataFrame) -> DataFrame:
    """A frame with its name as ``SOURCE``, before that of a part of it that has one."""
    from pyspark.sql import functions

    within = SOURCE in frame.columns
    source = functions.concat(functions.lit(f"{name}."), SOURCE) if within else functions.lit(name)
    return frame.withColumn(SOURCE, source)


def without_source(frame: DataFrame) -> DataFrame:
    """Return a frame that is given for a union and is none, with ``SOURCE`` NULL."""
    from pyspark.sql import functions

    if SOURCE in frame.columns:
        return frame
    return frame.withColumn(SOURCE, functions.lit(None).cast("string"))


def columns_of(frame: DataFrame) -> tuple[Column, ...]:
    """Return the columns of a frame that statements see."""
    return columns_of_schema(frame.schema)


def columns_of_schema(schema: StructType) -> tuple[Column, ...]:
    """Return the columns of a schema that statements see."""
    return tuple(
        Column(name=field.name, type=field.dataType.simpleString().upper())
        for field in schema.fields
        if field.name not in HIDDEN
    )
