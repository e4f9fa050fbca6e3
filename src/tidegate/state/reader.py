"""Reads the state of a checkpoint, on a local disk without Spark and without Java.

It writes nothing, so it may read a checkpoint while a query writes to it: the files of a manifest
stay for another ten batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.errors import StateError
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.damage import Damage, listed_damage
from tidegate.state.files import Files, LocalFiles
from tidegate.state.manifest import Manifest, Segment
from tidegate.state.manifest_log import ManifestLog, reason
from tidegate.state.plan_file import NAME, PlanFile
from tidegate.state.rollback import rollback_of
from tidegate.state.shards import with_shards


@dataclass(frozen=True, slots=True)
class StateReader:
    """Reads the state of a checkpoint.

    Args:
        checkpoint: the query's checkpoint folder.
        files: the files of its folder ``tidegate``, if they are not on a local disk.
    """

    checkpoint: str | Path
    files: Files | None = None

    @property
    def is_local(self) -> bool:
        """Whether Python reaches the files."""
        return self.files is None

    def unfinished_rollback(self) -> int | None:
        """Return the epoch of a rollback that was interrupted, None if there is none.

        Raises:
            StateError: the file that says so cannot be read.
        """
        begun = rollback_of(self.every_file)
        return None if begun is None else begun.epoch

    def epochs(self) -> list[int]:
        """Return the epochs whose manifests are kept, ascending."""
        return self._log.epochs()

    def manifest(self, epoch: int | None = None) -> Manifest:
        """Return the manifest of an epoch, by default the newest.

        Raises:
            StateError: there is none, or it cannot be read.
        """
        if epoch is not None:
            return with_shards(self.every_file, self._log.read(epoch))
        newest = self._log.newest()
        if newest is None:
            raise StateError(
                f"{self.checkpoint} holds no state: there is no "
                f"{self.every_file.where('manifests')}\n\nGive the checkpoint folder of a query "
                "that has run a batch."
            )
        return with_shards(self.every_file, newest)

    def plan(self) -> PlanFile:
        """Return what the columns of the state mean.

        Raises:
            StateError: the file is missing or cannot be read.
        """
        path = self.every_file.where(NAME)
        try:
            text = self.every_file.read(NAME)
        except OSError as error:
            raise StateError(
                f"{path} cannot be read: {reason(error)}\n\nRestore it from a copy of the "
                "checkpoint."
            ) from error
        return PlanFile.from_json(text, path=path)

    def paths(self, segments: tuple[Segment, ...]) -> list[Path]:
        """Return the files of segments.

        Raises:
            StateError: one is missing or does not have the size that the manifest says.
        """
        damage = self.damage(segments)
        if damage is not None:
            raise damage.error(str(self.checkpoint))
        return [
            self._root / SEGMENTS / segment.name / file.name
            for segment in segments
            for file in segment.files
        ]

    def damage(self, segments: tuple[Segment, ...]) -> Damage | None:
        """Return the first file that differs from what the manifest says, None if there is none."""
        return listed_damage(self.every_file, segments)

    def rows(
        self,
        segments: tuple[Segment, ...],
        *,
        columns: Sequence[str] | None = None,
        within: tuple[str, int, int] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the state rows of segments by column.

        Args:
            segments: the segments.
            columns: the columns to read; None: all.
            within: only rows with a BIGINT column in a half-open range: column, first, end.

        Raises:
            StateError: a file is damaged, or pyarrow is not installed.
        """
        if find_spec("pyarrow") is None:
            raise StateError(
                "reading the rows of the state (Parquet) needs pyarrow\n\nRun: pip install "
                "'tidegate[state]'. Any Spark session can read the files too."
            )
        parquet = import_module("pyarrow.parquet")
        for path in self.paths(segments):
            # Spark writes TIMESTAMP as INT96, of which Python has no nanoseconds.
            file = parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")
            for batch in file.iter_batches(columns=columns):
                yield from (batch if within is None else _within(batch, *within)).to_pylist()

    @property
    def _root(self) -> Path:
        return Path(self.checkpoint) / "tidegate"

    @property
    def every_file(self) -> Files:
        """The files of the folder ``tidegate``, wherever it is."""
        return LocalFiles(str(self._root)) if self.files is None else self.files

    @property
    def _log(self) -> ManifestLog:
        return ManifestLog(self.every_file)


def _within(batch: Any, column: str, first: int, end: int) -> Any:  # noqa: ANN401 - of pyarrow
    compute = import_module("pyarrow.compute")
    values = batch.column(column)
    return batch.filter(
        compute.and_(compute.greater_equal(values, first), compute.less(values, end))
    )
