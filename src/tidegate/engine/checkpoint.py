"""The checkpoint of a query as its steps see it: the newest state, and the claim to change it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.engine.state_io import StateIO
from tidegate.engine.tasks import Tasks
from tidegate.errors import TidegateError
from tidegate.plan.columns import DEDUP_KEY
from tidegate.state.manifest import Manifest, check_fingerprint
from tidegate.state.plan_file import plan_file
from tidegate.state.plans import put_plan
from tidegate.state.schema import check_schema
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

    from tidegate.engine.job import Job
    from tidegate.state.batch import SparkBatch
    from tidegate.state.intents import Intent


class Checkpoint:
    """The checkpoint of a query.

    Creating one only reads; ``begin`` claims it.

    Attributes:
        folder: where it is.
        store: its files.
        io: reads and writes the segments of the state.
        state: the state after the newest step.

    Args:
        job: what runs.
        folder: where it is.
        spark: the session of the steps.

    Raises:
        StateError: it holds the state of another query, or cannot be read.
    """

    def __init__(self, job: Job, folder: str, spark: SparkSession) -> None:
        self.folder = folder
        self._job = job
        self._plan = plan_file(job.plan)
        self.store = StateStore(spark, folder, self._plan)
        self.io = StateIO(
            store=self.store,
            tasks=Tasks(spark, job.partitions),
            schema=job.operator.state_schema,
            types={f.name: f.dataType.simpleString() for f in _state_columns(job)},
        )
        self.state = self._newest()
        self._has_begun = False

    def decided(self) -> Intent | None:
        """The intent of an earlier attempt at the coming step, if there is one."""
        return self.store.intent(self.state.epoch + 1)

    def begin(self, batch: SparkBatch | None = None) -> None:
        """Claim the checkpoint and open the sinks, before the first step.

        Args:
            batch: the batch to run, if it is one.
        """
        if self._has_begun:
            return
        if not self.store.is_claimed:
            self.store.claim(self.state.epoch)
            if self._job.explain is not None:
                put_plan(self.store.files, self.store.writer, self._job.explain())
        else:
            self.store.check_claim()
        # Another process may have written, or a step that seemed to fail may have been committed.
        self.state = self._newest()
        newest_epoch = self.state.epoch
        decided = self.decided()
        if decided is not None and (batch is None or is_of(decided, batch)):
            # Its results are about to be replaced by the same rows, so sinks keep them until then.
            # The process that announced it may be past its last check and may still commit it: it
            # is the only epoch that can get a manifest of another process after our claim, since
            # results are written only by a process that finds no newer claim after its intent.
            newest_epoch += 1
        self._job.outlets.open(
            self.store.checkpoint_id, newest_epoch if newest_epoch >= 0 else None
        )
        self._has_begun = True

    @contextmanager
    def guarded(self, state: Manifest | None = None) -> Iterator[None]:
        """After a failure begin anew, and name the damaged file that is behind it, if one is.

        Args:
            state: the state that is read until it is committed; None: the newest.
        """
        try:
            yield
        except BaseException as error:
            self._has_begun = False
            if isinstance(error, Exception) and not isinstance(error, TidegateError):
                # Once it is committed, files that it names may be replaced and deleted.
                is_newer = state is not None and state.epoch > self.state.epoch
                read = state if state is not None and is_newer else self.state
                damage = self.store.damage_behind(error, read)
                if damage is not None:
                    raise damage from error
            raise

    def _newest(self) -> Manifest:
        """Return the newest state of the checkpoint; refuse the state of another query."""
        plan = self._job.plan
        newest = self.store.newest()
        if newest is None:
            return Manifest(
                epoch=-1, batch_id=-1, fingerprint=plan.fingerprint, plan_id=plan.plan_id
            )
        self.check(newest)
        return newest

    def check(self, state: Manifest) -> None:
        """Refuse the state of another query."""
        check_fingerprint(state, self._job.plan.fingerprint, checkpoint=self.folder)
        check_schema(state, self.io.types, self._plan.texts, self.folder)


def is_of(decided: Intent, batch: SparkBatch) -> bool:
    """Return whether a decision holds for a batch: one of a drain or flush always does."""
    if not decided.is_batch or decided.batch_id != batch.batch_id:
        return True
    return (decided.query_id, decided.offsets_hash) == (batch.query_id, batch.offsets_hash)


def _state_columns(job: Job) -> list[StructField]:
    """The columns of the state, of all its tables."""
    keys = [] if job.duplicates is None else [job.duplicates.search.schema[DEDUP_KEY]]
    return [*job.operator.state_schema, *keys]
