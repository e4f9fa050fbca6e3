"""Files: a folder of results, written by Spark's own writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.paths import StrPath, path_text
from tidegate.spark.files import write_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.pipeline import SinkConfig

# Spark's own writers that replace the content of a folder.
FILE_FORMATS = ("parquet", "json", "csv", "orc")


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
        # Sinks of one folder are equal, so that kinds of side output may share it.
        object.__setattr__(self, "path", folder.rstrip("/") or folder)
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
        folder = f"{self.path}/emit_epoch={epoch}"
        write_folder(frame, folder, format=self.format, options=self.options)


def make_file_sink(config: SinkConfig) -> FileSink:
    """Return the sink of a section of a pipeline file."""
    assert config.path is not None, "checked with the pipeline file: files have a path"
    return FileSink(format=config.format, path=config.path, options=dict(config.options))
