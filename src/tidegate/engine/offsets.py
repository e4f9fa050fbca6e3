"""What Spark has written to a checkpoint about its own progress: the planned batches.

Spark writes the offsets of a batch, and the batch's timestamp, before it runs the batch. A batch
that is run again has the same offsets and the same timestamp.

The timestamp is also what ``current_timestamp()`` is for the rows of the batch. As a column of the
rows it would be a constant in the code that reads the source, which Spark would then compile, and
the JVM warm up, batch by batch. So the log is read instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tidegate.spark.files import file_manager
from tidegate.state.batch import SparkBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MICROS_PER_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A batch as Spark has planned it.

    Attributes:
        batch_id: Spark's number of the batch.
        clock_us: the batch's timestamp, microseconds since 1970.
        offsets: where each source will be after the batch, as Spark writes it, in the order of the
            sources in the plan.
    """

    batch_id: int
    clock_us: int
    offsets: tuple[str, ...]

    def of_query(self, query_id: str) -> SparkBatch:
        """Return the batch as the state knows it."""
        return SparkBatch(
            batch_id=self.batch_id,
            clock_us=self.clock_us,
            query_id=query_id,
            offsets_hash=sha256("\n".join(self.offsets).encode()).hexdigest()[:32],
        )


class SparkProgress:
    """Reads Spark's offset log and the query's id from a checkpoint.

    Args:
        spark: any session.
        checkpoint: the query's checkpoint folder.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._root = checkpoint.rstrip("/")
        self._files = file_manager(spark, f"{self._root}/offsets")
        assert spark._jvm is not None, "a running session has a JVM"
        # Kept: to find a class by its name again costs 3 ms.
        self._new_path: Any = spark._jvm.org.apache.hadoop.fs.Path

    def newest(self) -> PlannedBatch | None:
        """Return the newest batch that has been planned, None before the first."""
        folder = self._new_path(f"{self._root}/offsets")
        if not self._files.exists(folder):
            return None
        names = [status.getPath().getName() for status in self._files.list(folder)]
        numbers = [int(name) for name in names if name.isdecimal()]
        return self.batch(max(numbers)) if numbers else None

    def sweep(self) -> None:
        """Before a query starts: remove an offset file that a stop left half written.

        Spark refuses to begin with batch 0 where it lies, and takes no notice of it later.
        """
        folder = self._new_path(f"{self._root}/offsets")
        if not self._files.exists(folder):
            return
        for status in self._files.list(folder):
            if status.getPath().getName().endswith(".tmp"):
                self._files.delete(status.getPath())

    def batch(self, batch_id: int) -> PlannedBatch:
        """Return a batch that has been planned."""
        _, metadata, *offsets = self._read(f"offsets/{batch_id}").split("\n")
        return PlannedBatch(
            batch_id=batch_id,
            clock_us=json.loads(metadata)["batchTimestampMs"] * MICROS_PER_MILLI,
            offsets=tuple(offsets),
        )

    def query_id(self) -> str:
        """Return the id that Spark has given the query; a restart keeps it."""
        return str(json.loads(self._read("metadata"))["id"])

    def _read(self, name: str) -> str:
        stream = self._files.open(self._new_path(f"{self._root}/{name}"))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
