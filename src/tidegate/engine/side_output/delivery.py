"""Delivery: a write to a side sink, which costs its batch at most a timeout.

The write runs in a thread of its own. When its time is up, its Spark jobs are cancelled and the
batch goes on; what the thread may still do is not waited for, and what it has staged is never put
in place. After a failure the next batches stay away from the sink, for longer each time, so that a
sink that hangs does not cost every batch its timeout.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import InheritableThread

from tidegate.connectors.protocol import StagedSink
from tidegate.engine.gate import working_for
from tidegate.plan.side_output import Drop
from tidegate.spark.failures import reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Outlet

_LOG = logging.getLogger("tidegate")

# How long batches stay away from a sink: at first at least so long, and as long as the write took;
# twice as long after each further failure.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 600.0

# How much longer a write may take that has begun to put its files in place.
PUBLISHING_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What is to be written to a side sink.

    Attributes:
        records: returns the rows.
        rows: how many they are.
        epoch: the step.
        timeout_us: how long the write may take.
        words: what they are in messages, e.g. ``late rows (late_rows)``.
    """

    records: Callable[[], DataFrame]
    rows: int
    epoch: int
    timeout_us: int
    words: str


@dataclass(slots=True, kw_only=True)
class Delivery:
    """One side sink of a started query, and how it went with it so far.

    Attributes:
        outlet: the sink.
        clock: the time in seconds, for pauses only: no result depends on it.
    """

    outlet: Outlet
    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _cause: Drop = Drop.SINK_FAILED
    _pause: float = FIRST_PAUSE_S
    _paused_until: float = 0.0
    _dropped: int = 0
    _write: _Write | None = None

    def deliver(self, parcel: Parcel) -> Drop | None:
        """Write a parcel; return why it was not written, None if it was."""
        if self._failures and self.clock() < self._paused_until:
            self._dropped += parcel.rows
            return self._cause
        started = self.clock()
        if self._write is not None and self._write.is_alive:
            # It is still at what it was given before; a second write beside it cannot be better.
            return self._failed(parcel, Drop.TIMEOUT, "its last write has not ended yet", started)
        try:
            records = parcel.records()
        except Exception as failure:
            return self._failed(parcel, Drop.SINK_FAILED, reason_of(failure), started)
        self._write = _Write(self.outlet, records, parcel)
        if not self._write.ends_in_time():
            what = f"it took longer than {parcel.timeout_us / 1_000_000:g} s"
            return self._failed(parcel, Drop.TIMEOUT, what, started)
        error, self._write = self._write.error, None
        if error is not None:
            return self._failed(parcel, Drop.SINK_FAILED, reason_of(error), started)
        if self._failures:
            _LOG.info(
                "side sink of %s works again; %d were dropped meanwhile",
                parcel.words,
                self._dropped,
            )
        self._failures = self._dropped = 0
        return None

    def _failed(self, parcel: Parcel, cause: Drop, what: str, started: float) -> Drop:
        now = self.clock()
        pause = self._pause * 2 if self._failures else max(FIRST_PAUSE_S, now - started)
        self._pause = min(pause, LONGEST_PAUSE_S)
        self._paused_until = now + self._pause
        self._failures += 1
        self._cause = cause
        self._dropped += parcel.rows
        if self._failures == 1:
            _LOG.warning(
                "side sink of %s failed in epoch %d: %s; the query goes on, %d are dropped and "
                "counted (side_dropped), and the sink is tried again in %.3g s, then more rarely",
                parcel.words,
                parcel.epoch,
                what,
                parcel.rows,
                self._pause,
            )
        return cause


@dataclass(slots=True)
class Deliveries:
    """The side sinks of a started query, and what has been told about them."""

    _all: list[Delivery] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)

    def to(self, outlet: Outlet) -> Delivery:
        """Return the delivery to a sink; equal sinks have one."""
        found = next((each for each in self._all if each.outlet == outlet), None)
        if found is None:
            found = Delivery(outlet=outlet)
            self._all.append(found)
        return found

    def tells_first(self, what: str) -> bool:
        """Return whether something is to be told for the first time; from then on it is not."""
        is_first = what not in self._told
        self._told.add(what)
        return is_first


class _Stage(Enum):
    """How far a write is."""

    WRITING = "writing"
    PUBLISHED = "published"
    GIVEN_UP = "given up"


class _Write:
    """A write in a thread of its own, begun at once.

    Attributes:
        error: what it raised.
    """

    def __init__(self, outlet: Outlet, records: DataFrame, parcel: Parcel) -> None:
        self.error: BaseException | None = None
        self._outlet = outlet
        self._records = records
        self._parcel = parcel
        self._employer = threading.get_ident()
        self._group = f"tidegate-side-output-{uuid4().hex}"
        self._stage = _Stage.WRITING
        self._lock = threading.Lock()
        # The thread has the properties of this one, such as the scheduler's pool.
        self._thread = InheritableThread(target=self._run, name="tidegate-side-output", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def ends_in_time(self) -> bool:
        """Wait until the write has ended or its time is up; then it is given up."""
        self._thread.join(self._parcel.timeout_us / 1_000_000)
        if not self._thread.is_alive():
            return True
        if not self._goes_on_to(_Stage.GIVEN_UP):
            # All is written and only has to be put in place.
            self._thread.join(PUBLISHING_S)
            if not self._thread.is_alive():
                return True
        _cancel(self._group)
        return False

    def _goes_on_to(self, stage: _Stage) -> bool:
        """Whether the write, which is being written, becomes published or given up."""
        with self._lock:
            if self._stage is not _Stage.WRITING:
                return False
            self._stage = stage
            return True

    def _run(self) -> None:
        try:
            context = _spark_context()
            if context is not None:
                description = f"side output: {self._parcel.words}"
                context.setJobGroup(self._group, description, interruptOnCancel=True)
            with working_for(self._employer):
                self._write()
        except (Exception, SystemExit) as error:
            self.error = error

    def _write(self) -> None:
        epoch = self._parcel.epoch
        if not isinstance(self._outlet, StagedSink):
            self._outlet.write(self._records, epoch)
            self._goes_on_to(_Stage.PUBLISHED)
            return
        staged = self._outlet.stage(self._records, epoch)
        if self._goes_on_to(_Stage.PUBLISHED):
            staged.publish()
        else:
            staged.discard()


def _cancel(group: str) -> None:
    """Cancel the jobs of a group, and those that it would still start."""
    context = _spark_context()
    if context is None:
        return
    try:
        context._jsc.sc().cancelJobGroupAndFutureJobs(group)
    except Py4JError as error:
        _LOG.warning("jobs of a side sink could not be cancelled: %s", reason_of(error))


def _spark_context() -> Any:  # noqa: ANN401 - None where Spark has ended
    from pyspark import SparkContext

    return SparkContext._active_spark_context
