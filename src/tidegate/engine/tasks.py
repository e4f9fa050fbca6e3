"""How many tasks a job gets, by its rows and bytes.

Starting a task has a cost, and an exchange between tasks costs a small batch more than it saves. A
large batch, or one of few but large rows, gets several tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.state.manifest import Segment, StateFile

# For this many state rows, or bytes of their files, another task is worth its start.
ROWS_PER_TASK = 100_000
BYTES_PER_TASK = 32_000_000

# Up to this many state rows are read by one task without an exchange, if their files are small too
# (tumbling, 50 K rows: a batch takes 40 ms less of 760 ms than with two tasks).
FEW_ROWS = 75_000
FEW_BYTES = 16_000_000

# A batch may be this many times as large as the previous one without having too few tasks.
GROWTH = 4

# A small batch of whole rows is written to at most this many files, however many partitions its
# source has: enough to read slow partitions in parallel, few enough to read the files again.
FEW_FILES = 8

# Rows of a batch are not grouped before they are written if the last batch whose rows were had at
# least so many, and groups of less than so many rows each; now and then they are, to see.
UNGROUPED_FROM = 50_000
UNGROUPED_UP_TO = 1.25
GROUPED_EVERY = 16

# The fast hash map of an aggregation has room for 2**bits groups; further groups go to a slower map
# (4 M rows in 400 K groups: 1.2 s with 16 bits, Spark's default; 0.85 s with 20). A larger map
# costs a small batch a few milliseconds.
MAP_BITS = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"
FEW_GROUPS_BITS, MANY_GROUPS_BITS = 16, 20


class Tasks:
    """Sets the number of tasks for the jobs of a step.

    Args:
        spark: the session of the steps.
        most: the maximum number of tasks of a shuffle.

    Attributes:
        count: how many tasks the next shuffle has.
    """

    def __init__(self, spark: SparkSession, most: int) -> None:
        self._spark = spark
        self.most = self.count = most
        self._settings: dict[str, str] = {}
        # The rows and bytes that the last batch added to the state, None before the first one; and
        # the most files that a batch was written to.
        self._batch: tuple[int, int] | None = None
        self._files = 0
        # How many batches may yet be written without grouping their rows.
        self._ungrouped = 0

    def set(self, count: int | None = None) -> None:
        """Set how many tasks the next shuffle has, by default the maximum."""
        count = self.count = self.most if count is None else min(count, self.most)
        self._set("spark.sql.shuffle.partitions", str(count))

    def set_for(self, segments: Sequence[Segment], weight: int = 1) -> None:
        """Set the number of tasks by the size of the segments.

        ``weight``: how many rows that are only merged take as long as one of them.
        """
        self.set(tasks_for(segments, weight))

    def set_for_batch(self) -> None:
        """Set the number of tasks of a batch by the size of the previous one, with room to grow.

        The first batch after a start gets the maximum, because it may have to catch up.
        """
        self.set(self._tasks_of_batch())
        many = self._batch is None or 2 * self._batch[0] > 1 << FEW_GROUPS_BITS
        self._set(MAP_BITS, str(MANY_GROUPS_BITS if many else FEW_GROUPS_BITS))

    def gathered(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a batch that is written without a shuffle, in not too many partitions.

        If the source has many partitions, most with few rows or none, each would become a file.
        Their number is estimated from the files of previous batches, without an extra job.
        """
        tasks = self._tasks_of_batch()
        if tasks is None:
            return rows
        files = max(FEW_FILES, tasks)
        return rows.coalesce(files) if self._files > files else rows

    def note_batch(self, rows: int, files: Sequence[StateFile]) -> None:
        """Record how many state rows a batch had, and the files that they were written to."""
        self._batch = (rows, sum(file.bytes for file in files))
        self._files = max(self._files, len(files))

    def note_groups(self, rows: int, groups: int) -> None:
        """Record how many groups the rows of a batch were, if they have been grouped."""
        are_many = rows >= UNGROUPED_FROM and rows < UNGROUPED_UP_TO * groups
        self._ungrouped = GROUPED_EVERY - 1 if are_many else 0

    def is_grouping_worth(self) -> bool:
        """Whether the rows of the next batch should be grouped, judging by earlier ones."""
        self._ungrouped = max(0, self._ungrouped - 1)
        return self._ungrouped == 0

    def _tasks_of_batch(self) -> int | None:
        """Tasks for a batch like the last one, with room to grow; None before the first batch."""
        if self._batch is None:
            return None
        rows, size = self._batch
        return tasks_of(GROWTH * rows, GROWTH * size)

    def _set(self, setting: str, value: str) -> None:
        if self._settings.get(setting) != value:
            self._spark.conf.set(setting, value)
            self._settings[setting] = value


def tasks_of(rows: float, size: float) -> int:
    """Return a suitable number of tasks for so many state rows, and bytes of their files."""
    return max(1, ceil(rows / ROWS_PER_TASK), ceil(size / BYTES_PER_TASK))


def tasks_for(segments: Sequence[Segment], weight: int = 1) -> int:
    """Return a suitable number of tasks for segments."""
    rows = sum(segment.rows for segment in segments)
    return tasks_of(weight * rows, sum(segment.bytes for segment in segments))


def files_for(segments: Sequence[Segment]) -> int:
    """Return a suitable number of files for segments that are merged into one."""
    return max(1, -(-sum(segment.bytes for segment in segments) // BYTES_PER_TASK))


def few_rows_of(segments: Sequence[Segment]) -> int:
    """Return how many rows like those of segments one task should read, at most."""
    rows, size = sum(each.rows for each in segments), sum(each.bytes for each in segments)
    return max(1, min(FEW_ROWS, FEW_BYTES * max(rows, 1) // max(size, 1)))


def are_few(segments: Sequence[Segment], few_rows: int | None = None) -> bool:
    """Whether one task should read the segments: they have at most ``few_rows`` rows.

    Without ``few_rows`` the limit is ``FEW_ROWS``.
    """
    rows = sum(segment.rows for segment in segments)
    few_rows = FEW_ROWS if few_rows is None else few_rows
    return rows <= few_rows and sum(segment.bytes for segment in segments) <= FEW_BYTES
