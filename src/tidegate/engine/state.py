"""The state store: Parquet segments and manifests under ``<checkpoint>/tidegate``.

    tidegate/manifests/7.json         the state after epoch 7
    tidegate/segments/7/              the partials that epoch 7 brought
    tidegate/segments/7-merged-1/     segments of level 0 merged by epoch 7 into one of level 1

Everything goes through Hadoop's file system API and Spark's own ``CheckpointFileManager``, so a
checkpoint may be on any file system that Spark's own checkpoints may be on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidegate.engine.manifest import Manifest, Segment
from tidegate.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Manifests kept besides the newest, for a look back; segments that only they name are gone.
OLDER_MANIFESTS = 10

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
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self._spark = spark
        self._tasks = 0
        self._root = f"{checkpoint.rstrip('/')}/tidegate"
        self._jvm: Any = spark._jvm
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        self._files = streaming.checkpointing.CheckpointFileManager.create(
            self._path("manifests"), conf
        )

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
        partials.write.mode("overwrite").options(**_PARQUET_OPTIONS).parquet(
            self.segment_path(name)
        )

    def read_segments(self, segments: Iterable[Segment], schema: StructType) -> DataFrame:
        """Return the partials of segments as one DataFrame with the given schema."""
        paths = [self.segment_path(segment.name) for segment in segments]
        return self._spark.read.schema(schema).parquet(*paths)

    def set_tasks(self, count: int) -> None:
        """Set how many tasks the next shuffle has."""
        if count != self._tasks:
            self._spark.conf.set("spark.sql.shuffle.partitions", str(count))
            self._tasks = count

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

    def _delete(self, *parts: str) -> None:
        # CheckpointFileManager.delete is recursive and does not mind a path that is not there.
        self._files.delete(self._path(*parts))

    def _path(self, *parts: str) -> Any:  # noqa: ANN401 - a Hadoop Path behind py4j
        return self._jvm.org.apache.hadoop.fs.Path("/".join([self._root, *parts]))
