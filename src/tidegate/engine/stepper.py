"""The stepper: runs the steps of a job one after another on its checkpoint.

The streaming query and the case runner both use it. It keeps the newest manifest in memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tidegate.engine.checkpoint import Checkpoint, is_of
from tidegate.engine.clock import goes_back
from tidegate.engine.downstream import Link
from tidegate.engine.finishing import Finishing, can_wait, io_beside
from tidegate.engine.intake import Batch, Taken, announced, take_in, taken_before
from tidegate.engine.merging import Merges
from tidegate.engine.session import set_up
from tidegate.engine.state_io import StateIO
from tidegate.engine.step import finish
from tidegate.engine.watch import shards_of
from tidegate.errors import StateError
from tidegate.state.batch import SparkBatch, is_replay
from tidegate.state.intents import StepKind
from tidegate.state.manifest import Manifest
from tidegate.state.manifest_log import ManifestLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.job import Job
    from tidegate.metrics.report import BatchReport
    from tidegate.metrics.shards import StepShards
    from tidegate.state.intents import Intent

_LOG = logging.getLogger("tidegate")

OnStep: TypeAlias = "Callable[[BatchReport, StepShards | None], object]"
FinishedIn: TypeAlias = "Callable[[], AbstractContextManager[None]]"


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
        beside: called when a step is to be finished beside the next one, for what the thread that
            does so enters.

    Raises:
        StateError: the checkpoint holds the state of another query, or cannot be read.
    """

    def __init__(
        self,
        job: Job,
        checkpoint: str,
        spark: SparkSession,
        on_step: OnStep = lambda report, shards: None,
        beside: FinishedIn = nullcontext,
    ) -> None:
        set_up(spark)
        self._links = tuple(
            Link(
                each,
                Stepper(each.job, each.checkpoint, spark, each.watch.report),
                lambda epoch: ManifestLog(self._checkpoint.store.files).is_silent(epoch),
            )
            for each in job.outlets.downstream
        )
        if self._links:
            job = replace(job, outlets=replace(job.outlets, takers=self._links))
        self._job = job
        self._on_step = on_step
        self._beside = beside
        self._checkpoint = Checkpoint(job, checkpoint, spark)
        self._io = self._checkpoint.io
        self._merges = Merges()
        # The step that is finished beside the next one, and the state in the session for that.
        self._finishing: Finishing | None = None
        self._finishing_io: StateIO | None = None
        self._lock = threading.Lock()

    @property
    def state(self) -> Manifest:
        """The state after the last step."""
        return self._checkpoint.state

    @property
    def open_windows(self) -> int:
        """How many windows are open, by the bounds of the state."""
        return self._job.operator.open_windows(self.state)

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
            taken = self._take_in(batch, rows)
            return None if taken is None else self._finish(taken, self._io)

    def run_ahead(self, batch: SparkBatch, rows: DataFrame) -> int | None:
        """Run the step of a batch that another one follows; return as soon as the step can wait.

        It is then finished beside the next one, which waits for it; so does ``settle``.

        Args:
            batch: the batch.
            rows: its prepared rows.

        Returns:
            The number of rows; None if the state already contains the batch.

        Raises:
            StateError: as ``run``; or finishing the step before has failed.
        """
        with self._lock:
            taken = self._take_in(batch, rows)
            if taken is None:
                return None
            if not can_wait(taken, self._job):
                return self._finish(taken, self._io).rows_in
            with self._checkpoint.guarded():
                taken = announced(taken, self._io)
            if self._finishing_io is None:
                self._finishing_io = io_beside(self._io)
            self._finishing_io.tasks.most = self._io.tasks.most
            finishing = Finishing(taken, self._finish, self._finishing_io, self._beside())
            finishing.start()
            self._finishing = finishing
            return taken.counts.rows_in

    @property
    def is_finishing(self) -> bool:
        """Whether a step is being finished beside the next one."""
        finishing = self._finishing
        return finishing is not None and not finishing.is_done

    @property
    def has_failed_beside(self) -> bool:
        """Whether finishing a step beside the next one has failed, which ``settle`` will raise."""
        finishing = self._finishing
        return finishing is not None and finishing.has_failed

    def is_finished_by(self, until: float) -> bool:
        """Wait for such a step, at most until a time of ``monotonic``; whether it has ended."""
        finishing = self._finishing
        return finishing is None or finishing.has_ended_by(until)

    def settle(self) -> None:
        """Wait for the step that is finished beside the next one, if there is one.

        Raises:
            Exception: what it raised.
        """
        with self._lock:
            self._settle()

    @property
    def has_taken(self) -> bool:
        """Whether an earlier process has taken in a batch and not finished its step."""
        decided = self._checkpoint.decided()
        return decided is not None and decided.taken is not None

    def finish_taken(self) -> None:
        """Finish the step of a batch that an earlier process has taken in, if there is one.

        Raises:
            StateError: as ``run``.
        """
        with self._lock:
            if self.has_taken:
                self._checkpoint.begin()
                self._finish_begun()

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
            self._settle()
            self._checkpoint.begin()
            finished = self._finish_begun()
            if finished is not None and finished[0] is kind:
                return finished[1]  # This is what was requested; it had been started before.
            pending = self._checkpoint.decided()
            if pending is not None:
                raise StateError(
                    f"batch {pending.batch_id} of {self._checkpoint.folder} has not been "
                    "committed, but its results may have been emitted\n\n"
                    f"It must be finished before a {kind}: "
                    f"restart the query, which runs the batch again, then request the {kind}."
                )
            return self._step(self._without_rows(kind))

    def _take_in(self, batch: SparkBatch, rows: DataFrame | None) -> Taken | None:
        """Take in a batch; None if the state already contains it."""
        before = self._finishing
        if before is not None and self._is_next(batch, before.state):
            with self._checkpoint.guarded(before.state), before.ended_on_failure():
                return take_in(
                    before.state, self._settled, _batch_of(batch, rows), self._job, self._io
                )
        self._settle()
        # Checked before anything is written, so that a refused batch changes nothing.
        self._check_order(batch)
        self._checkpoint.begin(batch)
        self._finish_begun(batch)
        if self._is_replay(batch):
            if rows is not None:
                # Spark's own stateful operators before ours (``dropDuplicates``) fail unless
                # their rows are read.
                rows.write.format("noop").mode("overwrite").save()
            return None
        decided = self._checkpoint.decided()
        if decided is not None and not is_of(decided, batch):
            _LOG.warning(
                "batch %d of %s reads other rows than an earlier attempt at it, whose results "
                "may have been emitted",
                batch.batch_id,
                self._checkpoint.folder,
            )
            decided = None
        if decided is None and self._leaves_windows_behind(batch):
            self._step(self._without_rows(StepKind.DRAIN))
        with self._checkpoint.guarded():
            return take_in(
                self.state,
                lambda: self.state,
                _batch_of(batch, rows, decided),
                self._job,
                self._io,
            )

    def _check_order(self, batch: SparkBatch) -> None:
        """Refuse a batch that is not the next one."""
        decided = self._checkpoint.decided()
        taken = None if decided is None else decided.taken
        if taken is None or taken.batch_id == batch.batch_id:
            self._is_replay(batch)
        else:
            is_replay(batch, taken, self._checkpoint.folder)

    def _is_next(self, batch: SparkBatch, before: Manifest) -> bool:
        """Whether a batch plainly follows one whose step is being finished."""
        follows = (batch.batch_id, batch.query_id) == (before.batch_id + 1, before.query_id)
        return follows and not goes_back(before, batch.clock_us, self._job.plan)

    def _settle(self) -> None:
        finishing = self._finishing
        if finishing is not None:
            try:
                finishing.wait()
            finally:
                # Ctrl-C ends the wait, not the step.
                if finishing.is_done:
                    self._finishing = None

    def _settled(self) -> Manifest:
        self._settle()
        return self._checkpoint.state

    def stop_merging(self) -> None:
        """Give up what is being done beside the steps."""
        self._checkpoint.io.asides.stop()
        self._merges.forget()
        for link in self._links:
            link.stepper.stop_merging()

    def check_not_displaced(self) -> None:
        """Check that no other process has claimed the checkpoint since this stepper was made.

        Raises:
            StateError: one has; the message names it.
        """
        self._checkpoint.store.check_not_displaced()
        for link in self._links:
            link.stepper.check_not_displaced()

    def _finish_begun(self, batch: SparkBatch | None = None) -> tuple[StepKind, BatchReport] | None:
        """Finish what any process has begun and need not begin again, if there is such a step.

        That is a drain or flush, whose results may have been emitted, or a batch that is taken in.

        Args:
            batch: the batch to run; one that reads other rows than those taken in goes before them.
        """
        begun = self._checkpoint.decided()
        if begun is None or (begun.is_batch and begun.taken is None):
            return None
        if begun.taken is None:
            report = self._step(self._without_rows(begun.kind, begun))
        elif batch is not None and not is_of(begun, batch):
            return None
        else:
            self._checkpoint.check(begun.taken)
            report = self._finish(taken_before(self.state, begun, self._job), self._io)
        _LOG.info(
            "%s: finished an interrupted %s: %d windows in epoch %d",
            self._checkpoint.folder,
            begun.kind,
            report.closed_windows,
            report.epoch,
        )
        return begun.kind, report

    def _leaves_windows_behind(self, batch: SparkBatch) -> bool:
        """Whether the clock goes back over a gap while windows are open beyond it."""
        if not goes_back(self.state, batch.clock_us, self._job.plan):
            return False
        return self._job.operator.open_windows(self.state) > 0

    def _is_replay(self, batch: SparkBatch) -> bool:
        return is_replay(batch, self._checkpoint.state, self._checkpoint.folder)

    def _without_rows(self, kind: StepKind, decided: Intent | None = None) -> Batch:
        """A step between two batches; it has the batch id of the one before."""
        return Batch(
            kind=kind,
            batch_id=self.state.batch_id,
            query_id=self.state.query_id,
            offsets_hash=self.state.offsets_hash,
            decided=decided,
        )

    def _step(self, batch: Batch) -> BatchReport:
        with self._checkpoint.guarded():
            taken = take_in(self.state, lambda: self.state, batch, self._job, self._io)
        return self._finish(taken, self._io)

    def _finish(self, taken: Taken, io: StateIO) -> BatchReport:
        """Finish a step; it becomes the newest state."""
        before = self.state.watermark
        with self._checkpoint.guarded(taken.state):
            self._checkpoint.state, report = finish(taken, self._job, io, self._merges)
            self._on_step(report, shards_of(before, self.state.watermark))
        return report


def _batch_of(batch: SparkBatch, rows: DataFrame | None, decided: Intent | None = None) -> Batch:
    """The input of the step of a batch of Spark."""
    return Batch(
        batch_id=batch.batch_id,
        query_id=batch.query_id,
        offsets_hash=batch.offsets_hash,
        rows=rows,
        clock_us=batch.clock_us,
        watermark_us=batch.watermark_us,
        decided=decided,
    )
