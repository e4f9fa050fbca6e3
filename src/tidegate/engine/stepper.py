"""The stepper: runs the steps of a job one after another on its checkpoint.

The streaming query and the case runner both use it. It keeps the newest manifest in memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tidegate.engine.clock import goes_back
from tidegate.engine.downstream import Link
from tidegate.engine.merging import Merges
from tidegate.engine.state_io import StateIO
from tidegate.engine.step import Batch, step
from tidegate.engine.tasks import Tasks
from tidegate.engine.watch import shards_of
from tidegate.errors import StateError, TidegateError
from tidegate.plan.columns import DEDUP_KEY
from tidegate.spark.isolation import pin
from tidegate.state.batch import SparkBatch, is_replay
from tidegate.state.intents import StepKind
from tidegate.state.manifest import Manifest, check_fingerprint
from tidegate.state.manifest_log import ManifestLog
from tidegate.state.plan_file import plan_file
from tidegate.state.plans import put_plan
from tidegate.state.schema import check_schema
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

    from tidegate.engine.job import Job
    from tidegate.metrics.report import BatchReport
    from tidegate.metrics.shards import StepShards
    from tidegate.state.intents import Intent

_LOG = logging.getLogger("tidegate")

OnStep: TypeAlias = "Callable[[BatchReport, StepShards | None], object]"

# Settings of the private session in which steps run. Adaptive execution plans again between stages,
# which costs a small batch 40 ms; a step knows the sizes and sets the number of tasks itself.
#
# IN with literals always becomes a set, which is passed to the generated code by reference (never a
# switch). So Spark need not compile again if the values differ from batch to batch.
#
# With a segment tree the cost of a sliding window's frame does not depend on its length.
STEP_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.window.segmentTree.enabled": "true",
    "spark.sql.window.segmentTree.minPartitionRows": "512",
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    "spark.sql.optimizer.inSetSwitchThreshold": "0",
}


class Stepper:
    """Runs steps on the state of a checkpoint.

    Creating one only reads. The first step claims the checkpoint; a query that claimed it earlier
    then stops.

    Args:
        job: what to run.
        checkpoint: the query's checkpoint folder.
        spark: a session that the stepper may configure; frames given to ``run`` must belong to it.
        on_step: called with the report of each step once it is committed, and with the shards after
            it. One call of ``run`` may run several steps: a drain that was begun before is finished
            first.

    Raises:
        StateError: the checkpoint holds the state of another query, or cannot be read.
    """

    def __init__(
        self,
        job: Job,
        checkpoint: str,
        spark: SparkSession,
        on_step: OnStep = lambda report, shards: None,
    ) -> None:
        pin(spark)
        for name, value in STEP_CONF.items():
            spark.conf.set(name, value)
        self._links = tuple(
            Link(
                each,
                Stepper(each.job, each.checkpoint, spark, each.watch.report),
                lambda epoch: ManifestLog(self._store.files).is_silent(epoch),
            )
            for each in job.outlets.downstream
        )
        if self._links:
            job = replace(job, outlets=replace(job.outlets, takers=self._links))
        self._job = job
        self._on_step = on_step
        self._checkpoint = checkpoint
        self._plan = plan_file(job.plan)
        self._store = StateStore(spark, checkpoint, self._plan)
        self._io = StateIO(
            store=self._store,
            tasks=Tasks(spark, job.partitions),
            schema=job.operator.state_schema,
            types={f.name: f.dataType.simpleString() for f in _state_columns(job)},
        )
        self._state = self._newest()
        self._has_begun = False
        self._merges = Merges()
        self._lock = threading.Lock()

    @property
    def state(self) -> Manifest:
        """The state after the last step."""
        return self._state

    @property
    def open_windows(self) -> int:
        """How many windows are open, by the bounds of the state."""
        return self._job.operator.open_windows(self._state)

    @property
    def links(self) -> tuple[Link, ...]:
        """The queries that read the results."""
        return self._links

    def limit_tasks(self, most: int) -> None:
        """Set the maximum number of tasks of a shuffle from now on."""
        self._io.tasks.most = most
        for link in self._links:
            link.stepper.limit_tasks(most)

    def run(self, batch: SparkBatch, rows: DataFrame | None) -> BatchReport | None:
        """Run the step of a batch; None if the state already contains it (a replay after a crash).

        Args:
            batch: the batch.
            rows: its prepared rows, None if only time passes.

        Raises:
            StateError: the batch is not the next one, another query writes to the checkpoint, or
                the state is damaged.
        """
        with self._lock:
            # Checked before anything is written, so that a refused batch changes nothing.
            self._is_replay(batch)
            self._begin(batch)
            self._finish_end()
            if self._is_replay(batch):
                if rows is not None:
                    # Spark's own stateful operators before ours (``dropDuplicates``) fail unless
                    # their rows are read.
                    rows.write.format("noop").mode("overwrite").save()
                return None
            decided = self._decided()
            if decided is not None and not _is_of(decided, batch):
                _LOG.warning(
                    "batch %d of %s reads other rows than an earlier attempt at it, whose results "
                    "may have been emitted",
                    batch.batch_id,
                    self._checkpoint,
                )
                decided = None
            if decided is None and self._leaves_windows_behind(batch):
                self._step(self._without_rows(StepKind.DRAIN))
            return self._step(
                Batch(
                    batch_id=batch.batch_id,
                    query_id=batch.query_id,
                    offsets_hash=batch.offsets_hash,
                    rows=rows,
                    clock_us=batch.clock_us,
                    watermark_us=batch.watermark_us,
                    decided=decided,
                )
            )

    def drain(self) -> BatchReport:
        """Close and emit every window, here and then downstream; later rows for them are late.

        Raises:
            StateError: a batch is unfinished, and its results may have been emitted.
        """
        report = self._end(StepKind.DRAIN)
        for link in self._links:
            link.stepper.drain()
        return report

    def flush(self) -> BatchReport:
        """Emit open state windows; other kinds have nothing to flush.

        Raises:
            StateError: as ``drain``.
        """
        report = self._end(StepKind.FLUSH)
        for link in self._links:
            link.stepper.flush()
        return report

    def _end(self, kind: StepKind) -> BatchReport:
        with self._lock:
            self._begin()
            finished = self._finish_end()
            if finished is not None and finished[0] is kind:
                return finished[1]  # This is what was requested; it had been started before.
            pending = self._decided()
            if pending is not None:
                raise StateError(
                    f"batch {pending.batch_id} of {self._checkpoint} has not been committed, but "
                    f"its results may have been emitted\n\nIt must be finished before a {kind}: "
                    f"restart the query, which runs the batch again, then request the {kind}."
                )
            return self._step(self._without_rows(kind))

    def stop_merging(self) -> None:
        """Give up what is being merged beside the steps."""
        self._merges.stop()
        for link in self._links:
            link.stepper.stop_merging()

    def check_not_displaced(self) -> None:
        """Check that no other process has claimed the checkpoint since this stepper was made.

        Raises:
            StateError: one has; the message names it.
        """
        self._store.check_not_displaced()
        for link in self._links:
            link.stepper.check_not_displaced()

    def _begin(self, batch: SparkBatch | None = None) -> None:
        """Claim the checkpoint and open the sinks, before the first step.

        Args:
            batch: the batch to run, if it is one.
        """
        if self._has_begun:
            return
        if not self._store.is_claimed:
            self._store.claim(self._state.epoch)
            if self._job.explain is not None:
                put_plan(self._store.files, self._store.writer, self._job.explain())
        else:
            self._store.check_claim()
        # Another process may have written, or a step that seemed to fail may have been committed.
        self._state = self._newest()
        newest_epoch = self._state.epoch
        decided = self._decided()
        if decided is not None and (batch is None or _is_of(decided, batch)):
            # Its results are about to be replaced by the same rows, so sinks keep them until then.
            # The process that announced it may be past its last check and may still commit it: it
            # is the only epoch that can get a manifest of another process after our claim, since
            # results are written only by a process that finds no newer claim after its intent.
            newest_epoch += 1
        self._job.outlets.open(
            self._store.checkpoint_id, newest_epoch if newest_epoch >= 0 else None
        )
        self._has_begun = True

    def _finish_end(self) -> tuple[StepKind, BatchReport] | None:
        """Finish a drain or flush, begun by any process, whose results may have been emitted."""
        begun = self._decided()
        if begun is None or begun.is_batch:
            return None
        report = self._step(self._without_rows(begun.kind, begun))
        _LOG.info(
            "%s: finished an interrupted %s: %d windows in epoch %d",
            self._checkpoint,
            begun.kind,
            report.closed_windows,
            report.epoch,
        )
        return begun.kind, report

    def _leaves_windows_behind(self, batch: SparkBatch) -> bool:
        """Whether the clock goes back over a gap while windows are open beyond it."""
        if not goes_back(self._state, batch.clock_us, self._job.plan):
            return False
        return self._job.operator.open_windows(self._state) > 0

    def _decided(self) -> Intent | None:
        """The intent of an earlier attempt at the coming step, if there is one."""
        return self._store.intent(self._state.epoch + 1)

    def _is_replay(self, batch: SparkBatch) -> bool:
        return is_replay(batch, self._state, self._checkpoint)

    def _without_rows(self, kind: StepKind, decided: Intent | None = None) -> Batch:
        """A step between two batches; it has the batch id of the one before."""
        return Batch(
            kind=kind,
            batch_id=self._state.batch_id,
            query_id=self._state.query_id,
            offsets_hash=self._state.offsets_hash,
            decided=decided,
        )

    def _newest(self) -> Manifest:
        """Return the newest state of the checkpoint; refuse the state of another query."""
        plan = self._job.plan
        newest = self._store.newest()
        if newest is None:
            return Manifest(
                epoch=-1, batch_id=-1, fingerprint=plan.fingerprint, plan_id=plan.plan_id
            )
        check_fingerprint(newest, plan.fingerprint, checkpoint=self._checkpoint)
        check_schema(newest, self._io.types, self._plan.texts, self._checkpoint)
        return newest

    def _step(self, batch: Batch) -> BatchReport:
        before = self._state.watermark
        has_begun, self._has_begun = self._has_begun, False
        try:
            self._state, report = step(self._state, batch, self._job, self._io, self._merges)
            self._has_begun = has_begun
            self._on_step(report, shards_of(before, self._state.watermark))
        except TidegateError:
            raise
        except Exception as error:
            damage = self._store.damage_behind(error, self._state)
            if damage is not None:
                raise damage from error
            raise
        return report


def _is_of(decided: Intent, batch: SparkBatch) -> bool:
    """Whether a decision holds for a batch: one of a drain or flush always does."""
    if not decided.is_batch or decided.batch_id != batch.batch_id:
        return True
    return (decided.query_id, decided.offsets_hash) == (batch.query_id, batch.offsets_hash)


def _state_columns(job: Job) -> list[StructField]:
    """The columns of the state, of all its tables."""
    keys = [] if job.duplicates is None else [job.duplicates.schema[DEDUP_KEY]]
    return [*job.operator.state_schema, *keys]
