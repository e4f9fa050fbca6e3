"""The stepper: drives a job's steps one after another over its checkpoint.

The streaming query and the case runner both go through it. It knows where the job stands: it holds
the newest manifest in memory.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidegate.engine.step import Batch, step
from tidegate.errors import StateError
from tidegate.state.manifest import Manifest, check_fingerprint
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.job import Job
    from tidegate.metrics.report import BatchReport

# Settings of the session that steps run in; it is a session of their own. Adaptive execution
# re-plans between stages, which costs a small batch 40 ms; a step knows its sizes and sets its
# tasks itself.
#
# IN with literals becomes a set (from the first value on), and a set is handed to the generated
# code by reference (never as a switch): so a condition that differs from batch to batch does not
# make Spark compile anew.
#
# A segment tree makes the frames of sliding windows cost the same whatever their length.
STEP_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.window.segmentTree.enabled": "true",
    "spark.sql.window.segmentTree.minPartitionRows": "512",
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    "spark.sql.optimizer.inSetSwitchThreshold": "0",
}


class Stepper:
    """Runs steps on the state of a checkpoint.

    Args:
        job: what to run.
        checkpoint: the query's checkpoint folder.
        spark: a session that may be configured: frames given to ``run`` must belong to it.

    Raises:
        StateError: the checkpoint holds the state of another query, or cannot be read.
    """

    def __init__(self, job: Job, checkpoint: str, spark: SparkSession) -> None:
        for name, value in STEP_CONF.items():
            spark.conf.set(name, value)
        self._job = job
        self._store = StateStore(spark, checkpoint, job.partitions)
        newest = self._store.newest()
        if newest is None:
            newest = Manifest(
                epoch=-1, batch_id=-1, fingerprint=job.plan.fingerprint, plan_id=job.plan.plan_id
            )
        check_fingerprint(newest, job.plan.fingerprint, checkpoint=checkpoint)
        self._store.sweep(newest)
        self._state = newest
        self._lock = threading.Lock()

    @property
    def state(self) -> Manifest:
        """The state after the last step."""
        return self._state

    def run(self, batch_id: int, rows: DataFrame | None, clock_us: int) -> BatchReport | None:
        """Run the step of a batch; None when the state already has it (a replay after a crash).

        ``clock_us`` is the batch's clock, the same when it is replayed.

        Raises:
            StateError: batches between the state and this one are missing.
        """
        with self._lock:
            if batch_id <= self._state.batch_id:
                return None
            if batch_id != self._state.batch_id + 1:
                raise StateError(
                    f"batch {batch_id} was given, but the state under {self._store.checkpoint} "
                    f"ends at batch {self._state.batch_id}\n\nManifests are missing: the "
                    "checkpoint of Spark and the folder tidegate in it belong together. Restore "
                    "both from the same copy, or start with a new checkpoint."
                )
            return self._step(Batch(batch_id=batch_id, rows=rows, clock_us=clock_us))

    def drain(self) -> BatchReport:
        """Close and emit every window; later rows for them are late."""
        with self._lock:
            return self._step(Batch(batch_id=self._state.batch_id, rows=None, drain=True))

    def flush(self) -> BatchReport:
        """Emit open state windows; other kinds have nothing to flush."""
        with self._lock:
            return self._step(Batch(batch_id=self._state.batch_id, rows=None, flush=True))

    def _step(self, batch: Batch) -> BatchReport:
        self._state, report = step(self._state, batch, self._job, self._store)
        return report
