"""State access for operators: reads and writes segments with a suitable number of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.engine.aside import Asides
from tidegate.engine.tasks import Tasks, are_few
from tidegate.spark.footers import Footer, footers_of
from tidegate.spark.observe import observed
from tidegate.state.files import LocalFiles
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.state.manifest import StateFile
    from tidegate.state.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StateIO:
    """Reads and writes the segments of a query.

    Attributes:
        store: where they are.
        tasks: sets the number of tasks of jobs.
        schema: the columns of the state.
        types: their types as DDL, by name.
        readers: the maximum number of tasks that read segments; None: as Spark likes.
        asides: starts work beside the steps.
    """

    store: StateStore
    tasks: Tasks
    schema: StructType
    types: Mapping[str, str]
    readers: int | None = None
    asides: Asides = field(default_factory=Asides, compare=False)

    def read(self, segments: Sequence[Segment], few_rows: int | None = None) -> DataFrame:
        """Return the rows of segments; if they are few and small, one task reads them."""
        state = self.store.read_segments(segments, self.schema)
        # A single task needs no exchange, which saves a small batch one stage.
        if are_few(segments, few_rows):
            return state.coalesce(1)
        return state if self.readers is None else state.coalesce(self.readers)

    def write(
        self, epoch: int, what: str, rows: DataFrame, options: Mapping[str, str] | None = None
    ) -> tuple[str, tuple[StateFile, ...]]:
        """Write a segment; return its name and its files. ``options``: further ones of Parquet."""
        return self.store.write_segment(epoch, what, rows, options)

    def footers(
        self, name: str, files: Sequence[StateFile], columns: Sequence[str]
    ) -> list[Footer]:
        """Return what the files of a segment tell of columns.

        Args:
            name: the segment.
            files: its files.
            columns: the names of plain columns.

        Raises:
            Exception: as ``footers_of``.
        """
        is_near = isinstance(self.store.files, LocalFiles)
        paths = self.store.paths(name, files)
        return footers_of(self.store.spark, paths, columns, at_once=not is_near)

    def write_counted(
        self,
        epoch: int,
        what: str,
        rows: DataFrame,
        bounds: tuple[str, str],
        options: Mapping[str, str] | None = None,
    ) -> Segment | None:
        """Write a segment and count its rows meanwhile; return it, or None if it would be empty.

        Args:
            epoch: the step.
            what: a word that becomes part of the segment's name.
            rows: state rows.
            bounds: aggregates (Spark SQL): the least and the greatest value of the time column.
            options: further ones of the Parquet writer.
        """
        first, last = bounds
        watched, numbers = observed(rows, {"rows": "count(1)", "first": first, "last": last})
        name, files = self.write(epoch, what, watched, options)
        seen = numbers()
        if not seen["rows"]:
            return None
        return Segment(
            name=name,
            first_us=seen["first"],
            last_us=seen["last"],
            rows=seen["rows"],
            files=files,
        )
