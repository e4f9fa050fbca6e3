"""Sinks: where the rows of an epoch go.

Add a sink by writing a class with ``write(frame, epoch)``. It may be called twice for one epoch;
the second call wins. A sink must run exactly one Spark action that reads all of the frame (the
action counts the rows); one that wants more persists the frame first, as ``_persisted`` does.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from tidegate.errors import ConfigError
from tidegate.paths import StrPath, path_text
from tidegate.spark.files import write_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

# Spark's own writers that replace a folder's content; their folders are named by the epoch.
FILE_FORMATS = ("parquet", "json", "csv", "orc")


class Sink(Protocol):
    """Takes the rows of each epoch."""

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Write the rows of an epoch, in place of what an earlier attempt at it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """Files under ``<path>/emit_epoch=N``, written by Spark.

    Results are there exactly once, since a replay replaces them.

    Args:
        format: one of parquet, json, csv, orc.
        path: a folder on any file system that Spark reaches.
        options: options of Spark's writer.

    Raises:
        ConfigError: the format is none of these, the path is empty or no path, or the options are
            not a dict.
    """

    format: str
    path: StrPath
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folder = path_text(self.path, "FileSink: path", 'Give a folder, e.g. path="results".')
        object.__setattr__(self, "path", folder)
        if not isinstance(self.options, Mapping):
            raise ConfigError(
                f"FileSink: options is {self.options!r:.80}, it must be a dict\n\n"
                'Give options of Spark\'s writer, e.g. options={"compression": "zstd"}.'
            )
        if self.format not in FILE_FORMATS:
            raise ConfigError(
                f"FileSink: {self.format!r} is not a file format of sinks\n\n"
                f"Write one of {', '.join(FILE_FORMATS)}."
            )

    def write(self, frame: DataFrame, epoch: int) -> None:
        folder = f"{str(self.path).rstrip('/')}/emit_epoch={epoch}"
        write_folder(frame, folder, format=self.format, options=self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink:
    """Prints the rows of each epoch; ``rows`` at most, the rest is counted."""

    rows: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.rows, int) or isinstance(self.rows, bool) or self.rows < 0:
            raise ConfigError(
                f"ConsoleSink: rows is {self.rows!r:.80}, it must be a whole number, 0 or more\n\n"
                "Give the most rows to print of an epoch, e.g. rows=20."
            )

    def write(self, frame: DataFrame, epoch: int) -> None:
        with _persisted(frame) as kept:
            print(f"epoch {epoch}")
            kept.show(self.rows, truncate=False)


class MemorySink:
    """Keeps all results in this process, for notebooks and tests.

    ``rows()`` and ``frame()`` show them.
    """

    def __init__(self) -> None:
        self._epochs: dict[int, list[Row]] = {}
        self._schema: StructType | None = None
        self._spark: SparkSession | None = None

    def write(self, frame: DataFrame, epoch: int) -> None:
        self._schema, self._spark = frame.schema, frame.sparkSession
        self._epochs[epoch] = frame.collect()

    def rows(self) -> list[Row]:
        """Return all rows, oldest epoch first."""
        return [row for epoch in sorted(self._epochs) for row in self._epochs[epoch]]

    def frame(self) -> DataFrame:
        """Return all rows as a DataFrame of the query's schema.

        Raises:
            ConfigError: nothing has been written yet, so there is no schema.
        """
        if self._spark is None or self._schema is None:
            raise ConfigError(
                "the memory sink is empty\n\nWait for a window to close, or use query.schema."
            )
        return self._spark.createDataFrame(self.rows(), self._schema)


@dataclass(frozen=True, slots=True)
class CallbackSink:
    """Calls ``function(frame, epoch)`` for each epoch that closed a window.

    The frame is computed once.
    """

    function: Callable[[DataFrame, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(
                f"CallbackSink: {self.function!r:.80} is not a function\n\n"
                "Give a function of (frame, epoch)."
            )

    def write(self, frame: DataFrame, epoch: int) -> None:
        with _persisted(frame) as kept:
            self.function(kept, epoch)


SinkLike: TypeAlias = "Sink | Callable[[DataFrame, int], object] | StrPath"


def as_sink(value: SinkLike) -> Sink:
    """Return the sink that a value means: a sink, a function, a path (Parquet) or ``console``.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(value, (str, PathLike)):
        return ConsoleSink() if value == "console" else FileSink(format="parquet", path=value)
    if _is_sink(value):
        return value
    if callable(value) and not isinstance(value, type):
        return CallbackSink(value)
    made = f" Write {value.__name__}(..)." if isinstance(value, type) else ""
    raise ConfigError(f"{value!r:.80} is not a sink\n\n{SINK_MEND}{made}")


SINK_MEND = (
    "Give a folder, a function of (frame, epoch), a sink of tidegate.connectors.sinks, or "
    '"console".'
)


def _is_sink(value: object) -> TypeGuard[Sink]:
    """Whether a value has the method of a sink; files and DataFrames have another ``write``."""
    if isinstance(value, (type, io.IOBase)):
        return False
    try:
        return callable(getattr(value, "write", None))
    except Exception:  # ``write`` of a streaming DataFrame raises
        return False


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute a frame once, all of it, whatever is done with it then."""
    kept = frame.persist()
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()
