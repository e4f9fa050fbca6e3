"""Reads the state of a checkpoint, on a local disk without Spark and without Java.

It writes nothing, so it may read a checkpoint while a query writes to it: the files of a manifest
stay for another ten batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.errors import StateError
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.damage import Damage, listed_damage
from tidegate.state.files import Files, LocalFiles
from tidegate.state.intents import find_intent
from tidegate.state.manifest import Manifest, Segment, Writer
from tidegate.state.manifest_log import ManifestLog, reason
from tidegate.state.plan_file import NAME, PlanFile
from tidegate.state.plans import plan_of
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

    def taken_batch(self) -> int | None:
        """Return the batch of Spark that is taken in while its step is not finished, if one is.

        Raises:
            StateError: its intent cannot be read.
        """
        epochs = self._log.epochs()
        intent = find_intent(self.every_file, epochs[-1] + 1 if epochs else 0)
        return None if intent is None or intent.taken is None else intent.batch_id

    def epochs(self) -> list[int]:
        """Return the epochs whose manifests are kept, ascending."""
        return self._log.epochs()

    def commits(self) -> dict[int, float]:
        """Return the epochs whose manifests are kept, each with the time at which it was written.

        Times are seconds since 1970.

        Raises:
            StateError: the folder cannot be listed.
        """
        return self._log.commits()

    def head(self, epoch: int) -> Manifest:
        """Return the manifest of an epoch, without the shards if there is a table of them.

        Raises:
            StateError: it cannot be read.
        """
        return self._log.read(epoch)

    def with_shards(self, head: Manifest) -> Manifest:
        """Return a manifest with the shards of its table.

        Raises:
            StateError: a file is missing or damaged.
        """
        return with_shards(self.every_file, head)

    def explained(self, writer: Writer | None) -> Mapping[str, Any] | None:
        """Return the plan of what a process runs, as EXPLAIN has it; None if it is not known.

        Raises:
            StateError: it cannot be parsed.
        """
        return plan_of(self.every_file, writer)

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
            StateError: one is missing, does not have the size that the manifest says, or is not in
                the checkpoint.
        """
        for segment in segments:
            for name in (segment.name, *(file.name for file in segment.files)):
                if "/" in name or "\\" in name or name in ("", ".", ".."):
                    raise StateError(
                        f"a manifest of checkpoint {self.checkpoint} names the file {name!r:.80}, "
                        "which is not in it\n\nRestore the manifest from a copy of the checkpoint."
                    )
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
        for file in self._parquet_files(segments):
            for batch in file.iter_batches(columns=columns):
                yield from (batch if within is None else _within(batch, *within)).to_pylist()

    def table(self, segments: tuple[Segment, ...], columns: Sequence[str]) -> Any:  # noqa: ANN401 - of pyarrow
        """Return columns of the state rows of segments, of which there is one, as a pyarrow table.

        Raises:
            StateError: a file is damaged, or pyarrow is not installed.
        """
        tables = [file.read(columns=list(columns)) for file in self._parquet_files(segments)]
        # A column may have been narrower in older files.
        return import_module("pyarrow").concat_tables(tables, promote_options="permissive")

    def _parquet_files(self, segments: tuple[Segment, ...]) -> Iterator[Any]:
        if find_spec("pyarrow") is None:
            raise StateError(
                "reading the rows of the state (Parquet) needs pyarrow\n\nRun: pip install "
                "'tidegate[state]'. Any Spark session can read the files too."
            )
        parquet = import_module("pyarrow.parquet")
        for path in self.paths(segments):
            # Spark writes TIMESTAMP as INT96, of which Python has no nanoseconds.
            yield parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")

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
