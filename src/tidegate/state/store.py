"""The state store: what a query reads and writes under ``<checkpoint>/tidegate``.

    tidegate/plan.json                    what the state means
    tidegate/manifests/7.json             the state after epoch 7
    tidegate/intents/7-2.json             what epoch 7 decided, written before its results
    tidegate/writers/2.json               the second process that claimed the checkpoint
    tidegate/segments/7-3f9a1c02-batch/   state rows that epoch 7 brought

Nothing is ever overwritten: the name of a segment contains its writer's id and is used only once,
and any other file is created only if it does not exist. Constructing a store and reading from it
change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from tidegate.errors import StateError
from tidegate.spark.files import qualified, write_new_folder
from tidegate.state.cleaning import Cleaner, epoch_of, segment_name
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.damage import Damage, listed_damage, local_damage, reported_damage
from tidegate.state.files import Files, LocalFiles
from tidegate.state.hadoop_files import HadoopFiles
from tidegate.state.intents import Intent, find_intent, put_intent
from tidegate.state.manifest import Manifest, Segment, StateFile, Writer
from tidegate.state.manifest_log import ManifestLog, manifest_name, reason
from tidegate.state.plan_file import NAME as PLAN
from tidegate.state.plan_file import PlanFile
from tidegate.state.rollback import check_no_rollback
from tidegate.state.shards import ShardTable, with_shards
from tidegate.state.writers import (
    Claim,
    check_claim,
    check_unclaimed,
    claim,
    displaced,
    newest_term,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.state.shard_map import Shard

_WRITE_OPTIONS = {
    # A manifest says which segments exist, so no marker file is needed.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "compression": "lz4_raw",
}

# Pinned here, so that no setting of the session changes what is read.
READ_OPTIONS = {
    "__globPaths__": "false",  # [1] and {a} in a path are taken literally
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    # Parquet reads the dictionary of a column for it in pieces, of which LZ4 says "all input must
    # be consumed". What a dictionary can exclude, bounds of pages mostly do.
    "parquet.filter.dictionary.enabled": "false",
    "recursiveFileLookup": "true",  # a=b in a path is not a partition
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}

# With more files than this Spark starts a job to list them.
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"


class StateStore:
    """Reads and writes the state of one query.

    Args:
        spark: the session of the batch; its Hadoop configuration reaches the file system.
        checkpoint: the query's checkpoint folder, any Hadoop path.
        plan: what the state means, for ``plan.json``.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, plan: PlanFile) -> None:
        self.checkpoint = checkpoint
        self._plan = plan
        self._spark = spark
        self._root = f"{checkpoint.rstrip('/')}/tidegate"
        scheme, path = qualified(spark, self._root)
        self._local = path if scheme == "file" else None
        self.files: Files = LocalFiles(path) if self._local else HadoopFiles(spark, self._root)
        if self._local:
            spark.conf.set(_LISTING, "100000")  # Listing a local file takes microseconds.
        self._log = ManifestLog(self.files)
        self._claim: Claim | None = None
        # Readers of segments, by schema.
        self._readers: dict[str, DataFrameReader] = {}
        # Ends the names of segments that another thread writes.
        self._beside = ""
        self._cleaner: Cleaner | None = None
        # Intents by epoch, once the folder has been listed: of this process, and one found there.
        self._intents: dict[int, Intent] | None = None
        # Segments written since the last commit, by this store and those that share it.
        self._written: dict[str, None] = {}
        # The newest claim of any process when this store was made; later ones displace it.
        self._known_term = newest_term(self.files)

    def newest(self) -> Manifest | None:
        """Return the newest manifest, None when there is none.

        Raises:
            StateError: it cannot be read, or a rollback was interrupted.
        """
        check_no_rollback(self.files)
        newest = self._log.newest()
        return None if newest is None else with_shards(self.files, newest)

    @property
    def spark(self) -> SparkSession:
        """The session that reads and writes segments."""
        return self._spark

    def in_session(self, spark: SparkSession) -> StateStore:
        """Return this claimed store in another session, for another thread.

        Segments that it writes are deleted after a commit only if they are disowned.
        """
        other = StateStore(spark, self.checkpoint, self._plan)
        other._claim, other._beside = self._claim, "-beside"
        return other

    def finishing_in(self, spark: SparkSession) -> StateStore:
        """Return this claimed store in another session, for the thread that finishes steps.

        Meanwhile this one writes the segments of the next step, which are not deleted: both know
        what was written.
        """
        other = StateStore(spark, self.checkpoint, self._plan)
        other._claim, other._cleaner, other._written = self._claim, self._cleaner, self._written
        return other

    def disown(self, segment: str) -> None:
        """Have a segment that no manifest names deleted after the next commit."""
        self._written[segment] = None

    def take_written(self) -> tuple[str, ...]:
        """Return the names of segments that it has written, of which it knows no more then."""
        return tuple(self._written.popitem()[0] for _ in tuple(self._written))

    @property
    def is_claimed(self) -> bool:
        """Whether this store may write."""
        return self._claim is not None

    @property
    def writer(self) -> Writer:
        """The writer of a claimed checkpoint."""
        assert self._claim is not None, "nothing is written before the checkpoint is claimed"
        return self._claim.writer

    @property
    def checkpoint_id(self) -> str:
        """The id of a claimed checkpoint."""
        assert self._claim is not None, "the checkpoint has been claimed"
        return self._claim.checkpoint_id

    def claim(self, known_epoch: int) -> None:
        """Claim the checkpoint: from now on only this process may write to it.

        Args:
            known_epoch: the newest epoch seen before, -1 if there was none.

        Raises:
            StateError: the claim cannot be written, or the manifests are gone.
        """
        newest = self.newest()
        if newest is None and known_epoch >= 0:
            raise StateError(
                f"checkpoint {self.checkpoint} is gone: a moment ago it was at epoch {known_epoch}"
                "\n\nMount or restore the folder, then start the query again."
            )
        self._claim = claim(self.files, newest)
        self._intents = None  # The process before may have written one since.
        self._cleaner = Cleaner(self.files, self._claim.writer)

    def check_claim(self) -> None:
        """Check that this process may still write.

        Raises:
            StateError: another process has claimed the checkpoint since.
        """
        check_claim(self.files, self.writer)

    def check_not_displaced(self) -> None:
        """Check that no other process has claimed the checkpoint since this store was made.

        Raises:
            StateError: another process has.
        """
        if self._claim is not None:
            self.check_claim()
        else:
            check_unclaimed(self.files, self._known_term)

    def check_turn(self, epoch: int) -> None:
        """Check that this process may write the results of an epoch: it is the next one.

        Called after the intent is written: a process that claims the checkpoint looks for intents
        after its claim, so at least one of the two sees the other.

        Raises:
            StateError: another process has claimed the checkpoint, or has committed the epoch.
        """
        self.check_claim()
        epochs = self._log.epochs()
        if epochs and epochs[-1] >= epoch:
            raise displaced(self.files, self.writer, self._log.read(epochs[-1]).writer)

    def intent(self, epoch: int) -> Intent | None:
        """Return the intent of an earlier attempt at the coming epoch, None if there is none.

        Raises:
            StateError: it cannot be read.
        """
        if self._intents is not None:
            return self._intents.get(epoch)
        try:
            found = find_intent(self.files, epoch)
            if found is not None and found.taken is not None:
                found = replace(found, taken=with_shards(self.files, found.taken))
            self._intents = {} if found is None else {epoch: found}
            return found
        except OSError as error:
            raise StateError(
                f"{self.files.where('intents')} cannot be read: {reason(error)}\n\nMake the "
                "checkpoint readable, then start the query again."
            ) from error

    def put_intent(self, intent: Intent) -> None:
        """Write the intent of a step.

        Raises:
            StateError: it cannot be written.
        """
        assert self._cleaner is not None, "the checkpoint has been claimed"
        try:
            put_intent(self.files, intent, self.writer.term)
        except OSError as error:
            self._intents = None  # The file may exist despite the error.
            raise self._unwritable(error, "nothing of its results has been written") from error
        self._intents = {intent.epoch: intent}
        self._cleaner.add_intent(intent.epoch)

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest of a step, which commits the step.

        Raises:
            StateError: it cannot be written, or another process has written it.
        """
        try:
            self._put_plan(manifest)
            self.files.put_if_absent(manifest_name(manifest.epoch), manifest.to_json())
        except FileExistsError:
            other = self._log.read(manifest.epoch).writer
            raise displaced(self.files, self.writer, other) from None
        except OSError as error:
            raise self._unwritable(error, "the batch is not committed") from error

    def clean_up(self, manifest: Manifest) -> int:
        """Delete what is no longer needed after a commit; return how many calls failed."""
        assert self._cleaner is not None, "the checkpoint has been claimed"
        written = [name for name in tuple(self._written) if epoch_of(name) <= manifest.epoch]
        for name in written:
            del self._written[name]
        return self._cleaner.clean_up(manifest, written)

    def write_segment(
        self, epoch: int, what: str, rows: DataFrame, options: Mapping[str, str] | None = None
    ) -> tuple[str, tuple[StateFile, ...]]:
        """Write a segment to a folder of its own; return its name and its files.

        If no manifest names it, it is deleted after the next commit. ``options``: more of Parquet.
        """
        name = self._new_segment(epoch, what)
        folder = f"{SEGMENTS}/{name}"
        write_new_folder(
            rows,
            self._path(folder),
            local=None if self._local is None else f"{self._local}/{folder}",
            format="parquet",
            options={**_WRITE_OPTIONS, **(options or {})},
        )
        try:
            entries = sorted(self.files.entries(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise self._unwritable(error, "the batch is not committed") from error
        return name, tuple(StateFile(name=each.name, bytes=each.bytes) for each in entries)

    def put_shards(
        self, epoch: int, before: Manifest, shards: Mapping[str, Shard]
    ) -> tuple[Segment, ...]:
        """Write what has changed of the shards of the watermark; return their table.

        Raises:
            StateError: it cannot be written.
        """
        try:
            table = ShardTable(self.files, lambda: self._new_segment(epoch, "shards"))
            return table.after(before, shards)
        except OSError as error:
            raise self._unwritable(error, "the batch is not committed") from error

    def read_segments(self, segments: Sequence[Segment], schema: StructType) -> DataFrame:
        """Return the rows of segments as one DataFrame with the given schema.

        Raises:
            StateError: a file is missing or has changed.
        """
        if self._local is not None:
            self._raise(local_damage(self._local, segments))
        paths = [path for each in segments for path in self.paths(each.name, each.files)]
        try:
            rows = self._reader(schema).parquet(*paths)
        except AnalysisException:
            self._raise(self._listed(segments))
            raise
        if self._local is None and _found_bytes(rows) != sum(each.bytes for each in segments):
            self._raise(self._listed(segments))
        return rows

    def paths(self, segment: str, files: Iterable[StateFile]) -> list[str]:
        """Return the paths of files of a segment, as Spark takes them."""
        return [self._path(f"{SEGMENTS}/{segment}/{file.name}") for file in files]

    def _reader(self, schema: StructType) -> DataFrameReader:
        """Return a reader of segments, made once for each schema: its options are round trips."""
        key = schema.json()
        if key not in self._readers:
            self._readers[key] = self._spark.read.schema(schema).options(**READ_OPTIONS)
        return self._readers[key]

    def damage_behind(self, error: Exception, manifest: Manifest) -> StateError | None:
        """Return the error for the damaged file that made a step fail, None if none did."""
        segments = manifest.segments
        damage = self._listed(segments) or reported_damage(str(error), segments)
        return damage.error(self.checkpoint) if damage else None

    def _listed(self, segments: Sequence[Segment]) -> Damage | None:
        try:
            return listed_damage(self.files, segments)
        except OSError:
            return None  # The file system fails, and Spark's error says so.

    def _raise(self, damage: Damage | None) -> None:
        if damage is not None:
            if self.is_claimed:
                self.check_claim()  # A newer process may have deleted the file.
            raise damage.error(self.checkpoint)

    def _new_segment(self, epoch: int, what: str) -> str:
        """Return a name for a segment; if no manifest names it, it is deleted after a commit."""
        what += self._beside
        name = segment_name(epoch, self.writer, what)
        attempts = 1
        while name in self._written:
            attempts += 1
            name = segment_name(epoch, self.writer, f"{what}{attempts}")
        self._written[name] = None
        return name

    def _put_plan(self, manifest: Manifest) -> None:
        """Write ``plan.json`` with the first manifest; it is never changed."""
        if manifest.epoch > 0:
            return
        text = self._plan.to_json()
        try:
            self.files.put_if_absent(PLAN, text)
        except FileExistsError:
            if self._log.epochs() or self.files.read(PLAN) == text:
                return
            # Left by a query that never wrote a manifest, so it has no state.
            self.files.delete(PLAN)
            self.files.put_if_absent(PLAN, text)

    def _unwritable(self, error: OSError, so: str) -> StateError:
        return StateError(
            f"checkpoint {self.checkpoint} cannot be written: {reason(error)}\n\nThe current batch "
            f"failed and {so}. Free disk space, make the folder writable or mount it again; then "
            "restart the query: it completes the batch, and no result is lost or doubled."
        )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _found_bytes(rows: DataFrame) -> int:
    """The total size of the files that Spark found for a frame that reads files."""
    relation: Any = rows._jdf.queryExecution().analyzed().relation()
    return int(relation.location().sizeInBytes())
