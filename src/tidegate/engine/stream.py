"""A running query: Spark's ``foreachBatch`` on one side, the stepper on the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.engine.clock import OffsetLogClock
from tidegate.engine.stepper import Stepper
from tidegate.errors import ConfigError, ExecutionError, TidegateError
from tidegate.spark.failures import reason_of
from tidegate.spark.files import CheaperFiles
from tidegate.time import format_time, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegate.engine.job import Job
    from tidegate.metrics.report import BatchReport

_LONGEST_SECONDS = 1e15

OnBatch: TypeAlias = "Callable[[BatchReport], object]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start.

    Attributes:
        checkpoint: the folder of Spark's progress and of the state.
        trigger: the interval of batches; None: as fast as possible.
        once: read what is there, then end.
        name: the name of the query in Spark.
        on_batch: called with the report of each batch.
    """

    checkpoint: str
    trigger: str | None = None
    once: bool = False
    name: str | None = None
    on_batch: OnBatch | None = None


class Run:
    """A started query.

    Attributes:
        query: Spark's own handle.
    """

    def __init__(self, job: Job, rows: DataFrame, launch: Launch) -> None:
        self._job = job
        self._launch = launch
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._between_batches = threading.Condition()
        self._in_batch = False
        # The stepper belongs to the session of the batches, which Spark makes; a first look at the
        # checkpoint here refuses one of another query before anything has started.
        self._stepper = Stepper(job, launch.checkpoint, _clone(rows.sparkSession))
        self._clock: OffsetLogClock | None = None
        writer = rows.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", launch.checkpoint
        )
        if launch.name:
            writer = writer.queryName(launch.name)
        if launch.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=_interval(launch.trigger))
        self._files = CheaperFiles(rows.sparkSession, launch.checkpoint)
        try:
            self.query: StreamingQuery = writer.start()
        except Exception as error:
            self._files.restore()
            raise ExecutionError(
                f"the query did not start: {reason_of(error)}\n\n"
                f"Mend that; nothing has been read. Its checkpoint is {launch.checkpoint}."
            ) from error

    @property
    def watermark(self) -> str | None:
        """The watermark as ISO 8601 UTC, None before the first timed row."""
        watermark_us = self._stepper.state.watermark.watermark_us
        return None if watermark_us is None else format_time(watermark_us)

    @property
    def open_windows(self) -> int:
        """How many windows are open, by the bounds of the state.

        A window without rows between two that have some counts too.
        """
        state = self._stepper.state
        return self._job.operator.open_windows(state)

    @property
    def status(self) -> dict[str, object]:
        """Where the query stands: batch, watermark, totals by fate, size of the state."""
        state = self._stepper.state
        totals = {name: getattr(state.totals, name) for name in state.totals.__slots__}
        return {
            "name": self._launch.name,
            "active": self.query.isActive,
            "batch_id": state.batch_id,
            "watermark": self.watermark,
            "open_windows": self.open_windows,
            "state_rows": sum(segment.rows for segment in state.segments),
            "segments": len(state.segments),
            **totals,
        }

    def stop(self, *, flush: bool = False, drain: bool = False) -> None:
        """Let the batch in hand end and stop; all state is kept.

        Args:
            flush: besides, emit open state windows (other kinds have nothing to flush).
            drain: besides, close and emit every window; later rows for them are late.

        Raises:
            ConfigError: ``flush`` or ``drain`` is not True or False; the query goes on.
            TidegateError: the query had failed before.
        """
        for name, value in (("flush", flush), ("drain", drain)):
            if not isinstance(value, bool):
                raise ConfigError(f"{name} is {value!r:.80}\n\nGive {name}=True or {name}=False.")
        self._stopping.set()
        with self._between_batches:
            self._between_batches.wait_for(lambda: not self._in_batch)
        self.query.stop()
        self._files.restore()
        self._raise_failure()
        if flush:
            self._report(self._stepper.flush())
        if drain:
            self.drain()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends by itself or by ``stop``.

        Returns:
            False when ``timeout`` seconds were not enough.

        Raises:
            ConfigError: ``timeout`` is not a number of seconds.
            TidegateError: the query failed.
        """
        _check_timeout(timeout)
        try:
            if timeout is None:
                self.query.awaitTermination()
                return True
            # Spark takes a fraction of a second, though its annotation does not say so, but not 0.
            return bool(self.query.awaitTermination(max(timeout, 0.001)))  # type: ignore[arg-type]
        except PySparkException as error:
            self._raise_failure()
            if not self._stopping.is_set():
                raise ExecutionError(f"the query stopped: {reason_of(error)}") from error
            return True
        finally:
            if not self.query.isActive:
                self._files.restore()

    def drain(self) -> None:
        """Close and emit every window of a query that has ended by itself (``once``).

        Raises:
            ExecutionError: the query is still running.
        """
        if self.query.isActive:
            raise ExecutionError(
                "the query is still running\n\n"
                "Write run.stop(drain=True), or run.await_termination() first."
            )
        self._report(self._stepper.drain())

    def _batch(self, rows: DataFrame, batch_id: int) -> None:
        with self._between_batches:
            if self._stopping.is_set():
                # Nothing of this batch has been done: Spark replays it when the query starts again.
                raise _Stopping
            self._in_batch = True
        try:
            if self._clock is None:
                # From the first batch on the steps run in the session that Spark made for the
                # batches.
                self._stepper = Stepper(self._job, self._launch.checkpoint, rows.sparkSession)
                self._files.restore()
                self._clock = OffsetLogClock(rows.sparkSession, self._launch.checkpoint)
            self._report(self._stepper.run(self._clock.batch(batch_id), _in_one_task(rows)))
        except Exception as error:
            self._failure = error
            raise
        finally:
            with self._between_batches:
                self._in_batch = False
                self._between_batches.notify_all()

    def _report(self, report: BatchReport | None) -> None:
        if report is not None and self._launch.on_batch is not None:
            self._launch.on_batch(report)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is None:
            return
        if isinstance(failure, TidegateError):
            raise failure
        raise ExecutionError(
            f"the query stopped in a batch: {reason_of(failure)}\n\n"
            "The batch is run again when the query is started again; nothing of it is in the "
            "results."
        ) from failure


def _check_timeout(timeout: object) -> None:
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 <= float(str(timeout)) < _LONGEST_SECONDS):
        raise ConfigError(
            f"timeout is {timeout!r:.80}, it must be a number of seconds, 0 or more\n\n"
            "Give e.g. timeout=10, or leave it out to wait for the end."
        )


class _Stopping(Exception):
    """A batch came after ``stop`` was asked for."""


def _clone(spark: SparkSession) -> SparkSession:
    """A session with the settings and functions of another, as Spark makes one for batches."""
    session: Any = spark._jsparkSession
    return SparkSession(spark.sparkContext, session.cloneSession())


def _in_one_task(rows: DataFrame) -> DataFrame:
    """The rows of a batch; those of one task say so, which saves an exchange."""
    # Spark hands over the rows of a batch as an RDD that it has planned already.
    tasks = rows._jdf.queryExecution().analyzed().rdd().getNumPartitions()
    return rows.coalesce(1) if tasks == 1 else rows


def _interval(trigger: str | None) -> str:
    """A duration of ours (``1s``) as Spark spells it; another text is Spark's own and stays."""
    if trigger is None:
        return "0 seconds"
    try:
        return f"{parse_duration(trigger) // 1000} milliseconds"
    except ValueError:
        return trigger
