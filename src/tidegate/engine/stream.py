"""A running query: Spark's ``foreachBatch`` on one side, the stepper on the other.

``Run`` is the user's handle. It may be called at any time and from any thread, also from a sink or
``on_batch``, which run inside a batch. docs/python.md shows what each call does in each situation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from tidegate.engine.batches import Batches, Launch
from tidegate.engine.failures import (
    check_timeout,
    in_a_batch,
    outside_of_batches,
    refused_inside,
)
from tidegate.engine.health import health_of, probe_of
from tidegate.engine.start import JVM_ERRORS, Kind, Starter, is_active
from tidegate.errors import ConfigError, ExecutionError, TidegateError
from tidegate.metrics.health import HEALTH, QueryHealth
from tidegate.notebook.progress import draw_run, in_short, status_html
from tidegate.spark.failures import reason_of
from tidegate.time import format_time

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegate.engine.beside import Group, Steppers
    from tidegate.engine.stepper import Stepper
    from tidegate.engine.watch import Watch
    from tidegate.metrics.report import BatchReport
    from tidegate.notebook.drawing import Drawing


class Run:
    """A started query; in a ``with`` statement it is stopped at the end."""

    def __init__(self, group: Group, rows: DataFrame, launch: Launch) -> None:
        self._group = group
        self._launch = launch
        self._ending = threading.RLock()
        self._told: TidegateError | None = None
        self._ended_well = False
        self._batches = Batches(group, launch, rows.sparkSession)
        self._gate = self._batches.gate
        self._starter = Starter(rows, launch, ticking=group.needs_ticks)
        kind = Kind.ALL_THERE_IS if launch.once else Kind.LIVE
        self._current = self._starter.start(kind, self._batches)
        for name in (self._batches.name, *self._batches.steppers.by_name()):
            HEALTH.watch(name, probe_of(self._health, name))

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle."""
        return self._current.query

    @property
    def watermark(self) -> str | None:
        """The watermark as ISO 8601 UTC, None before the first timed row."""
        watermark_us = self._batches.stepper.state.watermark.watermark_us
        return None if watermark_us is None else format_time(watermark_us)

    @property
    def open_windows(self) -> int:
        """How many windows are open, by the bounds of the state.

        Windows without rows that lie between others are counted too.
        """
        return self._batches.stepper.open_windows

    @property
    def status(self) -> dict[str, object]:
        """The progress of the query: batch, watermark, failure, row counts, size of the state."""
        stepper = self._batches.stepper
        active = self._goes_on
        failure = None if active else self._find_failure()
        return {
            "name": self._launch.name,
            "active": active,
            "failure": None if failure is None else str(failure),
            **_progress(stepper, self._batches.watch),
            **_others(self._batches.steppers),
        }

    @property
    def reports(self) -> tuple[BatchReport, ...]:
        """The reports of the newest steps of this handle, at most 1,000, the oldest first."""
        return tuple(self._batches.reports.copy())

    def plot(self) -> Drawing:
        """Return a drawing of what the run did batch by batch, from its ``reports``.

        It shows rows read, late rows, the watermark against the newest event time, and windows
        closed. A notebook displays it; ``save(path)`` writes it as SVG.
        """
        return draw_run(self._batches.name, self.reports)

    def __repr__(self) -> str:
        return f"<Run: {in_short(self._batches.name, self.status)}>"

    def _repr_html_(self) -> str:
        return status_html(self._batches.name, self.status)

    def stop(self, *, flush: bool = False, drain: bool = False) -> None:
        """Finish the current batch, then stop; all state is kept.

        Called from a sink or ``on_batch``, it returns at once, and the query ends after the batch.

        Args:
            flush: also emit open state windows (other kinds have nothing to flush).
            drain: also close and emit every window; later rows for them are late.

        Raises:
            ConfigError: ``flush`` or ``drain`` is not True or False; the query goes on.
            ExecutionError: the query has failed, so nothing is flushed or drained; or a sink or
                ``on_batch`` requests a flush or drain.
        """
        for name, value in (("flush", flush), ("drain", drain)):
            if not isinstance(value, bool):
                raise ConfigError(f"{name} is {value!r:.80}\n\nGive {name}=True or {name}=False.")
        if self._gate.holds_me:
            if flush or drain:
                raise refused_inside("flush or drain")
            self._gate.close_inside()
            threading.Thread(target=self._end, name="tidegate-stop", daemon=True).start()
            return
        self._end()
        if flush:
            self._follow_up(self._flush)
        if drain:
            self._follow_up(self._drain)
        self._raise_failure()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, by itself or by ``stop``.

        Returns:
            False if it did not end within ``timeout`` seconds.

        Raises:
            ConfigError: ``timeout`` is not a number of seconds.
            ExecutionError: the query has failed; or a sink or ``on_batch`` would wait for itself.
        """
        check_timeout(timeout)
        if self._gate.holds_me:
            raise refused_inside("wait for the end of the query")
        # An exception here is the failure of the query, which we report below.
        asked = time.monotonic()
        with suppress(*JVM_ERRORS):
            if timeout is None:
                self.query.awaitTermination()
            # Spark accepts fractions of a second, despite its annotation, but not 0.
            elif not self.query.awaitTermination(max(timeout, 0.001)):  # type: ignore[arg-type]
                return False
        # The last step may still be finished when Spark's query has ended.
        if timeout is not None and not self._batches.is_finished_by(asked + timeout):
            return False
        self._batches.settle()
        self._raise_failure()
        return True

    def drain(self) -> None:
        """Close and emit every window of a query that has ended.

        A batch that Spark has planned and that has not run yet is run first.

        Raises:
            ExecutionError: the query is still running, or has failed.
        """
        if self._gate.holds_me:
            raise refused_inside("drain")
        if is_active(self.query):
            raise ExecutionError(
                "the query is still running\n\n"
                "Write run.stop(drain=True), or run.await_termination() first."
            )
        self._follow_up(self._drain)

    @property
    def _goes_on(self) -> bool:
        """Whether Spark's query is running, or its last step is still being finished."""
        return is_active(self.query) or self._batches.is_finishing

    def _health(self, name: str) -> QueryHealth:
        active = self._goes_on
        failure = None if active else self._find_failure()
        return health_of(name, self._batches, failure, is_active=active)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except TidegateError:
            # The error of the block goes first; it is often the same one.
            if error is None:
                raise

    def _end(self) -> None:
        """Stop Spark's query between two batches."""
        self._gate.close()
        self._gate.wait_until_empty()
        self._batches.settle()
        try:
            self.query.stop()
        except JVM_ERRORS as error:
            if is_active(self.query):
                raise ExecutionError(
                    f"Spark does not stop the query: {reason_of(error)}"
                ) from error

    def _follow_up(self, do: Callable[[], None]) -> None:
        """Do something after the last batch, once every batch that Spark has planned has run."""
        with self._ending:
            self._batches.settle()
            failure = self._find_failure()
            if failure is not None:
                raise ExecutionError(
                    "nothing was flushed or drained, because the query has failed\n\n"
                    f"{failure}\n\nFix the cause and start the query again; when the failed batch "
                    "has run, stop(drain=True) or --drain closes its windows too."
                ) from failure
            try:
                # Before a pending batch is run, which would displace the other process.
                self._batches.steppers.check_not_displaced()
                self._run_pending()
                with self._gate.occupied():
                    try:
                        do()
                    finally:
                        self._batches.steppers.stop_merging()
            except TidegateError:
                raise
            except (Exception, SystemExit) as error:
                raise ExecutionError(
                    f"the flush or drain failed: {reason_of(error)}\n\nThe state is unchanged. "
                    "Fix the cause and request it again."
                ) from error

    def _flush(self) -> None:
        self._batches.steppers.flush()

    def _drain(self) -> None:
        self._batches.steppers.drain()

    def _run_pending(self) -> None:
        """Run the batch that Spark has planned and no step has taken, if there is one."""
        if not self._batches.has_pending():
            return
        self._gate.reopen()
        try:
            self._current = self._starter.start(Kind.PLANNED_BATCH, self._batches)
            with suppress(*JVM_ERRORS):
                self.query.awaitTermination()
        finally:
            self._gate.close()
            self._current.release()
        self._raise_failure()
        if self._batches.has_pending():
            raise ExecutionError(
                "nothing was flushed or drained: another call stopped a batch that had to run "
                "first\n\nRequest the flush or drain again."
            )

    def _raise_failure(self) -> None:
        failure = self._find_failure()
        if failure is not None:
            raise failure.with_traceback(None)

    def _find_failure(self) -> TidegateError | None:
        """Return why the query failed, None if it was stopped or is still running."""
        query = self._current.query
        if self._told is None and not self._goes_on:
            self._batches.collect()
            if self._batches.failure is not None:
                self._told = in_a_batch(self._batches.failure)
            elif not self._gate.turned_away:
                self._told = outside_of_batches(self._exception(query))
            self._current.release()
        return self._told

    def _exception(self, query: StreamingQuery) -> Exception | None:
        """Return the failure that ended a query outside of its batches, None if it was stopped."""
        try:
            found = query.exception()
        except JVM_ERRORS as error:
            # Spark is gone: use what was known of the query when it ended.
            return None if self._ended_well or self._gate.is_closed else error
        self._ended_well = self._ended_well or found is None
        return found


def _progress(stepper: Stepper, watch: Watch) -> dict[str, object]:
    state = stepper.state
    watermark_us = state.watermark.watermark_us
    return {
        "batch_id": state.batch_id,
        "watermark": None if watermark_us is None else format_time(watermark_us),
        "open_windows": stepper.open_windows,
        "state_rows": sum(segment.rows for segment in state.tables.of_rows),
        "segments": len(state.tables.of_rows),
        "failed_watches": watch.failed_watches,
        "clock_leaps": watch.clock_leaps,
        "clean_up_failures": watch.clean_up_failures,
        "side_dropped": asdict(state.dropped),
        **{name: getattr(state.totals, name) for name in state.totals.__slots__},
    }


def _below(stepper: Stepper) -> dict[str, object]:
    """The progress of the queries that read the results, by their names; nothing if none do."""
    found = {
        link.downstream.name: {
            **_progress(link.stepper, link.downstream.watch),
            **_below(link.stepper),
        }
        for link in stepper.links
    }
    return {"downstream": found} if found else {}


def _others(steppers: Steppers) -> dict[str, object]:
    """The progress of the queries that read the results or the same stream, by their names."""
    found = {
        beside.name: {**_progress(stepper, beside.watch), **_below(stepper)}
        for beside, stepper in zip(steppers.group.others, steppers.others, strict=True)
    }
    return {**_below(steppers.first), **({"beside": found} if found else {})}
