"""The state store: Parquet segments and manifests under ``<checkpoint>/tidegate``.

    tidegate/manifests/7.json         the state after epoch 7
    tidegate/segments/7/              the partials that epoch 7 brought
    tidegate/segments/7-merged-1/     segments of level 0 merged by epoch 7 into one of level 1

Everything goes through Hadoop's file system API and Spark's own ``CheckpointFileManager``, so a
checkpoint may be on any file system that Spark's own checkpoints may be on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidegate.errors import StateError
from tidegate.spark.files import file_manager, write_folder
from tidegate.spark.observe import observed
from tidegate.state.manifest import Manifest, Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Manifests kept besides the newest, for a look back; segments that only they name are gone.
OLDER_MANIFESTS = 10

# State rows for which one task more is worth its start.
ROWS_PER_TASK = 100_000

# State rows that one task reads, without an exchange (tumbling, 50 K of them: 40 ms less of 760 ms
# a batch than by two tasks).
FEW_ROWS = 75_000

# By how much a batch may be larger than the one before without being short of tasks.
GROWTH = 4

# The fast hash map of an aggregation has room for 2**bits groups; what does not fit goes to a
# slower one (4 M rows of 400 K groups: 1.2 s with the 16 bits that are Spark's default, 0.85 s with
# 20). Room costs a small batch some milliseconds.
MAP_BITS = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"
FEW_GROUPS_BITS, MANY_GROUPS_BITS = 16, 20

_PARQUET_OPTIONS = {
    # A segment is listed in a manifest or does not exist: the marker file says nothing.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "compression": "lz4_raw",
}


class StateStore:
    """Reads and writes the state of one query.

    Args:
        spark: the session of the batch; its Hadoop configuration reaches the file system.
        checkpoint: the query's checkpoint folder, any Hadoop path.
        partitions: the most tasks that a shuffle may have.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, partitions: int) -> None:
        self.checkpoint = checkpoint
        self._spark = spark
        self._partitions = partitions
        self._settings: dict[str, str] = {}
        # State rows that the last batch brought; None before the first.
        self.batch_rows: int | None = None
        self._root = f"{checkpoint.rstrip('/')}/tidegate"
        assert spark._jvm is not None, "a running session has a JVM"
        # Kept: to find a class by its name again costs 3 ms.
        self._new_path: Any = spark._jvm.org.apache.hadoop.fs.Path
        self._files = file_manager(spark, f"{self._root}/manifests")

    def newest(self) -> Manifest | None:
        """Return the newest manifest, None when there is none.

        Raises:
            StateError: it cannot be read.
        """
        numbers = self.manifest_numbers()
        return self.read(numbers[-1]) if numbers else None

    def manifest_numbers(self) -> list[int]:
        """Return the epochs of all manifests, ascending."""
        folder = self._path("manifests")
        if not self._files.exists(folder):
            return []
        names = [status.getPath().getName() for status in self._files.list(folder)]
        return sorted(
            int(name.removesuffix(".json"))
            for name in names
            if name.removesuffix(".json").isdecimal()
        )

    def read(self, epoch: int) -> Manifest:
        """Return the manifest of an epoch.

        Raises:
            StateError: it is not there or cannot be read.
        """
        path = self._path("manifests", f"{epoch}.json")
        try:
            stream = self._files.open(path)
        except Py4JJavaError as error:
            raise StateError(
                f"{path} cannot be read: {error.java_exception}\n\nRestore the file or start with "
                "another checkpoint."
            ) from error
        try:
            text = bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
        return Manifest.from_json(text, path=str(path.toString()))

    def commit(self, manifest: Manifest) -> None:
        """Put the manifest of a batch in place: from here on the batch has happened."""
        folder = self._path("manifests")
        if not self._files.exists(folder):
            self._files.mkdirs(folder)
        target = self._path("manifests", f"{manifest.epoch}.json")
        stream = self._files.createAtomic(target, True)
        try:
            stream.write(bytearray(manifest.to_json().encode()))
        except BaseException:
            stream.cancel()
            raise
        stream.close()

    def segment_path(self, name: str) -> str:
        """Return the path of a segment."""
        return f"{self._root}/segments/{name}"

    def write_segment(self, name: str, partials: DataFrame) -> None:
        """Write a segment, in place of what an earlier attempt at the batch left."""
        write_folder(partials, self.segment_path(name), format="parquet", options=_PARQUET_OPTIONS)

    def read_segments(
        self, segments: Sequence[Segment], schema: StructType, few: int | None = None
    ) -> DataFrame:
        """Return the partials of segments as one DataFrame with the given schema.

        Up to ``few`` rows, ``FEW_ROWS`` when not said otherwise, are read by one task.
        """
        paths = [self.segment_path(segment.name) for segment in segments]
        state = self._spark.read.schema(schema).parquet(*paths)
        # In one task nothing has to be exchanged, which saves a small batch a stage.
        rows = sum(segment.rows for segment in segments)
        return state.coalesce(1) if rows <= (FEW_ROWS if few is None else few) else state

    def write_counted(
        self, name: str, level: int, state: DataFrame, bounds: tuple[str, str]
    ) -> Segment | None:
        """Write a segment, count it on the way, and return it; None when it would be empty."""
        first, last = bounds
        watched, numbers = observed(state, {"rows": "count(1)", "first": first, "last": last})
        self.write_segment(name, watched)
        seen = numbers()
        if not seen["rows"]:
            self.delete_segment(name)
            return None
        return Segment(
            name=name, level=level, first_us=seen["first"], last_us=seen["last"], rows=seen["rows"]
        )

    def set_tasks(self, count: int | None = None) -> None:
        """Set how many tasks the next shuffle has; all that may be without a number."""
        count = self._partitions if count is None else min(count, self._partitions)
        self._set("spark.sql.shuffle.partitions", str(count))

    def set_tasks_for(self, segments: Sequence[Segment]) -> None:
        """Set as many tasks as the rows of the segments are worth."""
        rows = sum(segment.rows for segment in segments)
        self.set_tasks(max(1, -(-rows // ROWS_PER_TASK)))

    def set_tasks_for_batch(self) -> None:
        """Set the tasks of a batch by what the batch before brought, with room to grow.

        Without one before, after a start, all that there may be: a batch that catches up is large.
        """
        rows = self.batch_rows
        self.set_tasks(None if rows is None else max(1, -(-GROWTH * rows // ROWS_PER_TASK)))
        many = rows is None or 2 * rows > 1 << FEW_GROUPS_BITS
        self._set(MAP_BITS, str(MANY_GROUPS_BITS if many else FEW_GROUPS_BITS))

    def delete_segment(self, name: str) -> None:
        """Delete a segment; one that is not there is no error."""
        self._delete("segments", name)

    def clean_up(self, before: Manifest, now: Manifest) -> None:
        """Delete what the step from one manifest to the next has made unreachable."""
        live = {segment.name for segment in now.segments}
        for segment in before.segments:
            if segment.name not in live:
                self._delete("segments", segment.name)
        self._delete("manifests", f"{now.epoch - OLDER_MANIFESTS - 1}.json")

    def sweep(self, manifest: Manifest) -> None:
        """Delete segments that no manifest names: a crash between two writes may have left them.

        Called once, at the start of a query, when no batch is being written.
        """
        folder = self._path("segments")
        if not self._files.exists(folder):
            return
        live = {segment.name for segment in manifest.segments}
        for status in self._files.list(folder):
            name = status.getPath().getName()
            if name not in live:
                self._delete("segments", name)

    def _set(self, setting: str, value: str) -> None:
        if self._settings.get(setting) != value:
            self._spark.conf.set(setting, value)
            self._settings[setting] = value

    def _delete(self, *parts: str) -> None:
        # CheckpointFileManager.delete is recursive and does not mind a path that is not there.
        self._files.delete(self._path(*parts))

    def _path(self, *parts: str) -> Any:  # noqa: ANN401 - a Hadoop Path behind py4j
        return self._new_path("/".join([self._root, *parts]))
