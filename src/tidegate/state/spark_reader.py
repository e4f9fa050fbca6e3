"""Reads the state of a checkpoint that only Spark reaches, such as one on S3 or HDFS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import TimestampType

from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.hadoop_files import HadoopFiles
from tidegate.state.reader import StateReader
from tidegate.state.store import READ_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.state.manifest import Segment


@dataclass(frozen=True, slots=True)
class SparkStateReader(StateReader):
    """``StateReader`` on any file system that Spark reaches; rows are read by Spark."""

    spark: SparkSession | None = None

    def rows(
        self,
        segments: tuple[Segment, ...],
        *,
        columns: Sequence[str] | None = None,
        within: tuple[str, int, int] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the state rows of segments by column, as ``StateReader`` does.

        Raises:
            StateError: a file is damaged.
        """
        assert self.spark is not None, "readers_of passes one"
        damage = self.damage(segments)
        if damage is not None:
            raise damage.error(str(self.checkpoint))
        for segment in segments:
            # One by one: an older segment may have a narrower type.
            names = [f"tidegate/{SEGMENTS}/{segment.name}/{file.name}" for file in segment.files]
            paths = [f"{self.checkpoint}/{name}" for name in names]
            rows = self.spark.read.options(**READ_OPTIONS).parquet(*paths)
            if within is not None:
                column, first, end = within
                rows = rows.where(f"{column} >= {first}L AND {column} < {end}L")
            rows = rows.select(*columns) if columns is not None else rows
            moments = [f.name for f in rows.schema if isinstance(f.dataType, TimestampType)]
            for row in rows.toLocalIterator():
                facts = row.asDict(recursive=True)
                yield facts | {name: _in_utc(facts[name]) for name in moments}


def readers_of(spark: SparkSession, folder: str) -> dict[str, StateReader]:
    """Return readers of the checkpoints in a folder, by the names of their transforms.

    Raises:
        OSError: the folder cannot be listed.
    """
    folder = folder.rstrip("/")
    files = HadoopFiles(spark, folder)
    if files.entries("tidegate/manifests"):
        names = {folder.rpartition("/")[2]: folder}
    else:
        found = sorted(entry.name for entry in files.entries("."))
        names = {
            name: f"{folder}/{name}"
            for name in found
            if files.entries(f"{name}/tidegate/manifests")
        }
    return {
        name: SparkStateReader(path, HadoopFiles(spark, f"{path}/tidegate"), spark)
        for name, path in names.items()
    }


def _in_utc(value: datetime | None) -> datetime | None:
    """A time with its zone; Spark gives it in that of this machine."""
    return None if value is None else value.astimezone(UTC)
