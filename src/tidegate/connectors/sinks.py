"""Makes a sink of what a user gives for one."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from tidegate.connectors.callback import CallbackSink
from tidegate.connectors.console import ConsoleSink
from tidegate.connectors.delta import DeltaSink
from tidegate.connectors.files import FileSink
from tidegate.connectors.memory import MemorySink
from tidegate.connectors.protocol import Sink
from tidegate.connectors.table import sink_kind
from tidegate.errors import ConfigError
from tidegate.paths import StrPath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.pipeline import SinkConfig

__all__ = [
    "FOLDER_SINKS",
    "SINK_MEND",
    "CallbackSink",
    "ConsoleSink",
    "FileSink",
    "MemorySink",
    "Sink",
    "SinkLike",
    "as_sink",
    "make_sink",
]

SinkLike: TypeAlias = "Sink | Callable[[DataFrame, int], object] | StrPath"

# Sinks whose ``path`` is a folder of their own.
FOLDER_SINKS = (FileSink, DeltaSink)

SINK_MEND = (
    "Give a folder, a function of (frame, epoch), a sink such as tidegate.FileSink(..), or "
    '"console".'
)


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


def make_sink(config: SinkConfig) -> Sink:
    """Return the sink of a section of a pipeline file; its row of ``SINKS`` names its builder.

    Raises:
        ConfigError: an option is wrong.
    """
    module, _, function = sink_kind(config.format).build.partition(":")
    return cast("Sink", getattr(import_module(module), function)(config))


def _is_sink(value: object) -> TypeGuard[Sink]:
    """Whether a value is a sink; files and DataFrames also have ``write``, but a different one."""
    if isinstance(value, (type, io.IOBase)):
        return False
    try:
        return callable(getattr(value, "write", None))
    except Exception:  # ``write`` of a streaming DataFrame raises
        return False
