"""Spark's own progress in a checkpoint: the batches that it has planned.

Before Spark runs a batch, it writes the batch's offsets and timestamp. A batch that is run again
has the same offsets and the same timestamp.

The timestamp is also the value of ``current_timestamp()`` in the batch. As a column, however, it
would be a constant in the generated code that reads the source, which Spark would compile anew for
each batch. So we read it from the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from tidegate.errors import StateError
from tidegate.spark.failures import reason_of
from tidegate.spark.files import file_manager
from tidegate.state.batch import SparkBatch, offsets_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MICROS_PER_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A batch that Spark has planned.

    Attributes:
        batch_id: Spark's number of the batch.
        clock_us: the batch's timestamp, microseconds since 1970.
        offsets: the offset of each source after the batch, as Spark writes it, in the order of the
            sources in the plan.
    """

    batch_id: int
    clock_us: int
    offsets: tuple[str, ...]

    def of_query(self, query_id: str) -> SparkBatch:
        """Return the batch in the form that the state uses."""
        return SparkBatch(
            batch_id=self.batch_id,
            clock_us=self.clock_us,
            query_id=query_id,
            offsets_hash=offsets_hash(self.offsets),
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
        # Kept, because looking up a class by name takes 3 ms.
        self._new_path: Any = spark._jvm.org.apache.hadoop.fs.Path

    def newest(self) -> PlannedBatch | None:
        """Return the newest planned batch, None if there is none."""
        folder = self._new_path(f"{self._root}/offsets")
        with self._reading("offsets"):
            if not self._files.exists(folder):
                return None
            names = [status.getPath().getName() for status in self._files.list(folder)]
        numbers = [int(name) for name in names if name.isdecimal()]
        return self.batch(max(numbers)) if numbers else None

    def sweep(self) -> None:
        """Delete an offset file that was left half written; called before a query starts.

        Spark refuses to start batch 0 if there is one; for later batches it ignores it.
        """
        folder = self._new_path(f"{self._root}/offsets")
        if not self._files.exists(folder):
            return
        for status in self._files.list(folder):
            if status.getPath().getName().endswith(".tmp"):
                self._files.delete(status.getPath())

    def batch(self, batch_id: int) -> PlannedBatch:
        """Return a planned batch.

        Raises:
            StateError: its file is missing or damaged.
        """
        name = f"offsets/{batch_id}"
        with self._reading(name):
            _, metadata, *offsets = self._read(name).split("\n")
            return PlannedBatch(
                batch_id=batch_id,
                clock_us=json.loads(metadata)["batchTimestampMs"] * MICROS_PER_MILLI,
                offsets=tuple(offsets),
            )

    def has_query(self) -> bool:
        """Return whether a query has been started on the checkpoint."""
        with self._reading("metadata"):
            return bool(self._files.exists(self._new_path(f"{self._root}/metadata")))

    def query_id(self) -> str:
        """Return the id that Spark gave the query; it survives restarts.

        Raises:
            StateError: the file is missing or damaged.
        """
        with self._reading("metadata"):
            return str(json.loads(self._read("metadata"))["id"])

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, Py4JError, OSError) as error:
            raise StateError(
                f"{self._root}/{name}, a file of Spark's checkpoint, cannot be read: "
                f"{reason_of(error)}\n\nMake it readable. If it is empty or truncated, restore the "
                "whole checkpoint from one copy, or start with a new one."
            ) from error

    def _read(self, name: str) -> str:
        stream = self._files.open(self._new_path(f"{self._root}/{name}"))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
