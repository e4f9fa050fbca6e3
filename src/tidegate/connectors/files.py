"""Files: a folder of results, written by Spark's own writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from tidegate.connectors.nested import cannot_hold, nested_column
from tidegate.connectors.ownership import STAGING, Owner, check_owner, take
from tidegate.connectors.protocol import Staged
from tidegate.connectors.table import SINKS
from tidegate.errors import ConfigError
from tidegate.paths import StrPath, path_text
from tidegate.spark.files import write_folder
from tidegate.spark.folders import Folder, open_folder
from tidegate.spark.session import current_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.connectors.protocol import Start
    from tidegate.plan.pipeline import SinkConfig

# Formats of Spark's own writers, which can replace the content of a folder.
FILE_FORMATS = ("parquet", "json", "csv", "orc")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """Files under ``<path>/emit_epoch=N``, written by Spark.

    Each result is there exactly once, because a replay replaces it. The folder belongs to the
    checkpoint that first wrote to it.

    Args:
        format: one of parquet, json, csv, orc.
        path: a folder on any file system that Spark reaches, taken literally.
        options: options of Spark's writer.
        checkpoint: where the query's checkpoint is, for messages; ``Query.start`` sets it.

    Raises:
        ConfigError: the format is not one of these, the path is empty or not a path, or the options
            are not a dict.
    """

    reads_once: ClassVar = True

    format: str
    path: StrPath
    options: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str | None = field(default=None, compare=False, repr=False)
    _folder: Folder | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        folder = path_text(self.path, "FileSink: path", 'Give a folder, e.g. path="results".')
        # Sinks with the same folder are equal, so that kinds of side output can share it.
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

    def check_start(self, start: Start) -> None:
        """Refuse a folder of another checkpoint, and results with columns that files cannot hold.

        Raises:
            ConfigError: it is one, or they have.
        """
        if start.owner is not None or start.is_new:
            check_owner(open_folder(start.spark, self._text), self._text, start.owner)
        if start.results is None or self.nested:
            return
        columns = ((each.name, each.dataType.simpleString()) for each in start.results().columns)
        column = nested_column(columns, SINKS[self.format])
        if column is not None:
            raise ConfigError(f"{start.place}: {cannot_hold(self.format, column)}")

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Make a checkpoint the owner of the folder, and delete epochs that it did not commit.

        Raises:
            ConfigError: the folder belongs to another checkpoint.
        """
        checkpoint = Owner(id=owner, checkpoint=self.checkpoint or "unknown")
        take(open_folder(current_session(), self._text), self._text, checkpoint, newest_epoch)

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Write the files of an epoch to a staging folder, then rename it, which is atomic.

        So readers see all of an epoch or nothing. Where folders cannot be renamed atomically
        (object stores), files are written in place.
        """
        self.stage(frame, epoch).publish()

    def stage(self, frame: DataFrame, epoch: int) -> Staged:
        """Write the files of an epoch aside, or in place where folders cannot be renamed at once.

        Args:
            frame: the rows.
            epoch: the epoch.
        """
        if self._folder is None:
            object.__setattr__(self, "_folder", open_folder(frame.sparkSession, self._text))
        folder, target = self._folder, f"emit_epoch={epoch}"
        assert folder is not None, "it was opened above"
        name = f"{STAGING}/{epoch}-{uuid4().hex[:12]}" if folder.renames else target
        write_folder(frame, f"{self._text}/{name}", format=self.format, options=self.options)

        def publish() -> None:
            if name != target:
                folder.replace(name, target)
                folder.delete_if_empty(STAGING)

        def discard() -> None:
            folder.delete(name)

        return Staged(publish=publish, discard=discard)

    @property
    def nested(self) -> bool:
        """Whether columns may be structs."""
        return SINKS[self.format].nested

    @property
    def _text(self) -> str:
        return str(self.path)


def make_file_sink(config: SinkConfig) -> FileSink:
    """Return the sink of a section of a pipeline file."""
    assert config.path is not None, "checked with the pipeline file: file formats have a path"
    return FileSink(format=config.format, path=config.path, options=dict(config.options))
