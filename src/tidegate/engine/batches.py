"""The batches of a started query, as Spark brings them: each goes to the stepper and ``on_batch``.

Nothing here refers to our handle of the query or to Spark's. Spark keeps the function that it calls
as long as its own handle exists; a reference back would keep both alive forever.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.engine.failures import in_a_batch
from tidegate.engine.gate import Gate, TurnedAway
from tidegate.engine.offsets import SparkProgress
from tidegate.engine.pace import Pace
from tidegate.engine.watch import OnBatch, Watch, name_of
from tidegate.spark.backlog import Backlog
from tidegate.spark.batch_plan import BatchPlans
from tidegate.spark.isolation import most_tasks, private_session
from tidegate.spark.pools import Shared, Turn, turn_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.beside import Group
    from tidegate.engine.stepper import Stepper
    from tidegate.metrics.report import BatchReport
    from tidegate.metrics.shards import StepShards
    from tidegate.state.batch import SparkBatch

_HOLD_SECONDS = 10

# How many reports a run keeps; one takes about a kilobyte.
MOST_REPORTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start.

    Attributes:
        checkpoint: the folder of Spark's progress and of the state.
        interval_us: from the start of a batch to that of the next; 0: as fast as possible.
        once: process the available input, then end.
        name: the name of the query in Spark.
        on_batch: called with the report of each batch.
    """

    checkpoint: str
    interval_us: int = 0
    once: bool = False
    name: str | None = None
    on_batch: OnBatch | None = None


class Batches:
    """Runs the batches of a query.

    Attributes:
        name: its name in metrics, health and drawings: its own, else the end of its checkpoint.
        gate: admits them until the query is asked to end.
        steppers: run the steps.
        failure: what the last batch raised.
        reports: the reports of the newest steps, at most ``MOST_REPORTS``.
        watch: is told of each step.
        busy_since: when the current batch began, None between batches; by a clock that is never
            set.

    Args:
        group: what to run.
        launch: how the query is started.
        spark: the session of the query.

    Raises:
        StateError: the checkpoint holds the state of another query, or cannot be read.
    """

    def __init__(self, group: Group, launch: Launch, spark: SparkSession) -> None:
        self.gate = Gate()
        self.failure: BaseException | None = None
        self.reports: deque[BatchReport] = deque(maxlen=MOST_REPORTS)
        self.name = name_of(launch.name, group.checkpoint)
        self.watch = Watch(self.name, launch.on_batch)
        self.busy_since: float | None = None
        self._group = group
        self._launch = launch
        self._spark = spark
        self._conf: Any = spark._jsparkSession.sessionState().conf()
        # These steppers only check, before anything starts, that the checkpoint is of this query.
        # From the first batch on, steps run in the session that Spark makes for the batches.
        self.steppers = group.steppers(private_session(spark), self.report, self._beside)
        self._progress = SparkProgress(spark, launch.checkpoint)
        self._query_id = ""
        self._plans = BatchPlans(spark, "")
        self._backlog: Backlog | None = None
        self._has_session = False
        self._pace = Pace(0)
        self._is_active: Callable[[], bool] = lambda: True
        self._turn: Turn | None = None

    def callback(self, interval_us: int, is_active: Callable[[], bool]) -> BatchCallback:
        """Return the function that Spark calls with the batches of one start of its query.

        Args:
            interval_us: from the start of a batch to that of the next.
            is_active: whether Spark's query has not been stopped yet.
        """
        self._has_session = False
        self._pace = Pace(interval_us)
        self._is_active = is_active
        return BatchCallback(self)

    def has_pending(self) -> bool:
        """Whether Spark has planned a batch that no step has taken."""
        planned = self._progress.newest()
        return planned is not None and self.steppers.lack(planned.batch_id)

    @property
    def stepper(self) -> Stepper:
        """The stepper of the query itself, and not of others that read its stream."""
        return self.steppers.first

    def take(self, rows: DataFrame, batch_id: int) -> None:
        """Run the step of a batch.

        Raises:
            TurnedAway: the query is to end.
        """
        try:
            turn = turn_of(self._launch.checkpoint, self._spark.sparkContext)
            with self.gate.entered(), turn as self._turn:
                self._pace.starts()
                self.busy_since = time.monotonic()
                try:
                    self._run(rows, batch_id)
                finally:
                    self.busy_since = None
            self._pace.wait(self.gate, self._waits)
        finally:
            self._hold()

    def report(self, report: BatchReport, shards: StepShards | None) -> None:
        """Tell those who watch of a step."""
        self.reports.append(report)
        self.watch.report(report, shards)

    @property
    def have_taken(self) -> bool:
        """Whether an earlier process has taken in a batch and not finished its step."""
        return self.steppers.have_taken

    def finish_taken(self) -> None:
        """Finish the step of a batch that an earlier process has taken in, before a start.

        Spark takes the batch for done and may not bring another one for long.

        Raises:
            TidegateError: it fails.
        """
        try:
            with self.gate.occupied():
                self.steppers.finish_taken()
        except Exception as error:
            raise in_a_batch(error)  # noqa: B904 - it names its cause, and may be the error itself

    def settle(self) -> None:
        """Wait for the step that is finished beside the next one; ``failure`` is what it raised."""
        try:
            self.steppers.settle()
        except TurnedAway:
            pass  # The step is finished, and has asked the query to end.
        except BaseException as error:
            self.failure = self.failure or error

    def is_finished_by(self, until: float) -> bool:
        """Wait, at most until a time, for the step that is finished beside the next one.

        Args:
            until: by the clock of ``time.monotonic``.

        Returns:
            Whether it has ended, well or not; True too if there is none.
        """
        return self.steppers.are_finished_by(until)

    @property
    def is_finishing(self) -> bool:
        """Whether a step is being finished that Spark takes for done."""
        return self.steppers.are_finishing

    def collect(self) -> None:
        """Note in ``failure`` that such a step has failed, if one has; never waits for it."""
        if self.steppers.have_failed_beside:
            self.settle()

    def _beside(self) -> AbstractContextManager[None]:
        """Return what the thread enters that finishes the step of the current batch."""
        shared = Shared(self._turn, self._spark.sparkContext)

        @contextmanager
        def entered() -> Iterator[None]:
            with shared.taken(), self.gate.beside():
                yield

        return entered()

    def _waits(self) -> bool:
        """Whether there is reason to wait until the next batch is due."""
        # It raises what finishing a step has raised, which nobody hears of before.
        return self._is_active() and not self.steppers.have_failed_beside

    def _run(self, rows: DataFrame, batch_id: int) -> None:
        try:
            if not self._has_session:
                # They may have finished a step.
                self.steppers.stop_merging()
                self.steppers = self._group.steppers(rows.sparkSession, self.report, self._beside)
                self._progress = SparkProgress(rows.sparkSession, self._launch.checkpoint)
                self._query_id = self._progress.query_id()
                self._plans = BatchPlans(rows.sparkSession, self._query_id)
                self._backlog = None
                self._has_session = True
            batch = self._progress.batch(batch_id).of_query(self._query_id)
            self.steppers.limit_tasks(most_tasks(self._spark, self._conf))
            self._step(batch, rows)
        except TurnedAway:
            raise
        except Exception as error:
            self.failure = error
            raise
        except BaseException as error:
            # sys.exit() in a sink, say. It would end a thread of Spark's without a word.
            self.failure = error
            raise in_a_batch(error) from error

    def _step(self, batch: SparkBatch, rows: DataFrame) -> None:
        tasks = _tasks_of(rows)
        if tasks == 0:
            self.steppers.run(batch, None)
            return
        found = self._plans.rows(rows, batch.batch_id)
        # With one task the rows need no exchange.
        frame = found.frame.coalesce(1) if tasks == 1 else found.frame
        count = self.steppers.run(batch, frame, is_followed=self._is_followed())
        if count is not None:
            found.count(count)

    def _is_followed(self) -> bool:
        """Whether another batch is certain to follow the one that runs."""
        if not self.steppers.may_run_ahead:
            return False
        if self._backlog is None:
            execution = self._plans.execution
            if execution is None:
                return False
            self._backlog = Backlog(execution)
        return self._backlog.has_more()

    def _hold(self) -> None:
        """After a stop was requested, keep Spark from planning a batch before it has stopped."""
        end = time.monotonic() + _HOLD_SECONDS
        while self.gate.is_closed and self._is_active() and time.monotonic() < end:
            time.sleep(0.001)


class BatchCallback:
    """The function that Spark calls with each batch, until it is released."""

    def __init__(self, batches: Batches) -> None:
        self._batches: Batches | None = batches

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Take a batch.

        Raises:
            TurnedAway: the query is to end, or has ended.
        """
        batches = self._batches
        if batches is None:
            raise TurnedAway
        batches.take(rows, batch_id)

    def release(self) -> None:
        """Drop all references, once Spark's query has ended."""
        if self._batches is not None:
            self._batches.steppers.stop_merging()
        self._batches = None


def _tasks_of(rows: DataFrame) -> int:
    """How many tasks read the rows of a batch; 0: no source has any."""
    # Spark passes the rows of a batch as an RDD that it has already planned.
    return int(rows._jdf.queryExecution().analyzed().rdd().getNumPartitions())
