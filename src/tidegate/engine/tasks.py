"""How many tasks a job has: as many as its rows and bytes are worth.

A task costs its start, and an exchange between tasks costs a small batch more than it saves. A
large batch, and one of few rows with much in each, is worth several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.state.manifest import Segment

# State rows, and bytes of their files, for which one task more is worth its start.
ROWS_PER_TASK = 100_000
BYTES_PER_TASK = 32_000_000

# State rows that one task reads, without an exchange (tumbling, 50 K of them: 40 ms less of 760 ms
# a batch than by two tasks); their files are small, too.
FEW_ROWS = 75_000
FEW_BYTES = 16_000_000

# By how much a batch may be larger than the one before without being short of tasks.
GROWTH = 4

# Files that a small batch of whole rows is written to at most, however many partitions its source
# has: enough for partitions that are slow to read, few enough for those that read them again.
FEW_FILES = 8

# The fast hash map of an aggregation has room for 2**bits groups; what does not fit goes to a
# slower one (4 M rows of 400 K groups: 1.2 s with the 16 bits that are Spark's default, 0.85 s with
# 20). Room costs a small batch some milliseconds.
MAP_BITS = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"
FEW_GROUPS_BITS, MANY_GROUPS_BITS = 16, 20


class Tasks:
    """Sets the tasks of the jobs of a step.

    Args:
        spark: the session of the steps.
        most: the most tasks that a shuffle may have.
    """

    def __init__(self, spark: SparkSession, most: int) -> None:
        self._spark = spark
        self.most = most
        self._settings: dict[str, str] = {}
        # State rows that the last batch brought, and the most files that one was written to; None
        # before the first.
        self._batch_rows: int | None = None
        self._files = 0

    def set(self, count: int | None = None) -> None:
        """Set how many tasks the next shuffle has; all that may be without a number."""
        count = self.most if count is None else min(count, self.most)
        self._set("spark.sql.shuffle.partitions", str(count))

    def set_for(self, segments: Sequence[Segment]) -> None:
        """Set as many tasks as the segments are worth."""
        self.set(worth(segments))

    def set_for_batch(self) -> None:
        """Set the tasks of a batch by what the batch before brought, with room to grow.

        Without one before, after a start, all that there may be: a batch that catches up is large.
        """
        rows = self._batch_rows
        self.set(None if rows is None else _of_rows(GROWTH * rows))
        many = rows is None or 2 * rows > 1 << FEW_GROUPS_BITS
        self._set(MAP_BITS, str(MANY_GROUPS_BITS if many else FEW_GROUPS_BITS))

    def gathered(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a batch that are written as they are, in not too many partitions.

        Where the source has many, most of them with few rows or none, each would be a file. How
        many they are is known from the files of the batches before, so nothing has to be asked or
        moved.
        """
        if self._batch_rows is None:
            return rows
        files = max(FEW_FILES, _of_rows(GROWTH * self._batch_rows))
        return rows.coalesce(files) if self._files > files else rows

    def note_batch(self, rows: int, files: int) -> None:
        """Take note of the state rows of a batch, and to how many files they were written."""
        self._batch_rows = rows
        self._files = max(self._files, files)

    def _set(self, setting: str, value: str) -> None:
        if self._settings.get(setting) != value:
            self._spark.conf.set(setting, value)
            self._settings[setting] = value


def worth(segments: Sequence[Segment]) -> int:
    """Return how many tasks the rows and bytes of segments are worth."""
    rows = sum(segment.rows for segment in segments)
    size = sum(segment.bytes for segment in segments)
    return max(_of_rows(rows), -(-size // BYTES_PER_TASK))


def files_worth(segments: Sequence[Segment]) -> int:
    """Return how many files the bytes of segments are worth when they are written as one."""
    return max(1, -(-sum(segment.bytes for segment in segments) // BYTES_PER_TASK))


def are_few(segments: Sequence[Segment], few_rows: int | None = None) -> bool:
    """Whether one task had better read the segments: up to ``few_rows``, else ``FEW_ROWS`` rows."""
    rows = sum(segment.rows for segment in segments)
    few_rows = FEW_ROWS if few_rows is None else few_rows
    return rows <= few_rows and sum(segment.bytes for segment in segments) <= FEW_BYTES


def _of_rows(rows: int) -> int:
    return max(1, -(-rows // ROWS_PER_TASK))
