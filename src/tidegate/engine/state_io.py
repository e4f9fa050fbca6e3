"""The state as operators see it: segments are read and written by the tasks that they are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.tasks import Tasks, are_few
from tidegate.spark.observe import observed
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
        tasks: how many tasks jobs have.
        schema: the columns of the state.
        types: their types as DDL, by name.
    """

    store: StateStore
    tasks: Tasks
    schema: StructType
    types: Mapping[str, str]

    def read(self, segments: Sequence[Segment], few_rows: int | None = None) -> DataFrame:
        """Return the rows of segments; one task reads them when they are few and small."""
        state = self.store.read_segments(segments, self.schema)
        # In one task nothing has to be exchanged, which saves a small batch a stage.
        return state.coalesce(1) if are_few(segments, few_rows) else state

    def write(self, epoch: int, what: str, rows: DataFrame) -> tuple[str, tuple[StateFile, ...]]:
        """Write a segment; return its name and its files."""
        return self.store.write_segment(epoch, what, rows)

    def write_counted(
        self, epoch: int, what: str, rows: DataFrame, bounds: tuple[str, str]
    ) -> Segment | None:
        """Write a segment, count it on the way, and return it; None when it would be empty.

        Args:
            epoch: the step.
            what: a word for the name of the segment.
            rows: state rows.
            bounds: aggregates (Spark SQL): the least and the greatest value of the time column.
        """
        first, last = bounds
        watched, numbers = observed(rows, {"rows": "count(1)", "first": first, "last": last})
        name, files = self.write(epoch, what, watched)
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
