"""Keeps the queries of a pipeline running: one that fails may be started again.

Only failures that may pass by themselves lead to a restart (``connectors/transient.py``), only a
few in a row, each after a longer wait; every one is logged and counted. The query goes on from its
checkpoint, so the batch that failed is run again. Any other failure ends the pipeline.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.connectors.transient import transient_cause
from tidegate.errors import ExecutionError, TidegateError
from tidegate.metrics.health import HEALTH
from tidegate.metrics.recorder import RECORDER
from tidegate.names import listed
from tidegate.plan.pipeline import Restart, RestartPolicy

POLL_SECONDS = 0.2

_LOG = logging.getLogger("tidegate")


class Running(Protocol):
    """What is needed of the handle of a query (``Run``)."""

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; False if it goes on, an error if it has failed."""

    def stop(self, *, flush: bool = False, drain: bool = False) -> None:
        """Finish the current batch, then stop."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """A query that is kept running.

    Attributes:
        name: its name.
        others: the names of the other transforms that it runs.
        start: starts it on its checkpoint; it is given a function to call after each batch.
        policy: when it is started again.
        now: seconds of a clock that is never set.
    """

    name: str
    start: Callable[[Callable[[], None]], Running]
    policy: RestartPolicy
    others: tuple[str, ...] = ()
    now: Callable[[], float] = time.monotonic
    _run: Running | None = field(default=None, init=False)
    # How many restarts there were in a row, when the next one is due, and the failure before it.
    _attempts: int = field(default=0, init=False)
    _due: float = field(default=0.0, init=False)
    _failure: Exception | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _worked_until: float = field(default=0.0, init=False)

    def ran_batch(self) -> None:
        """Note that a batch has been committed.

        A query that does so for longer than the longest delay has recovered: its next failure is
        the first one again.
        """
        self._worked_until = self.now()

    def begin(self) -> None:
        """Start the query.

        Raises:
            Exception: it cannot be started, and that is not tried again.
        """
        self._started = self._worked_until = self.now()
        try:
            self._run = self.start(self.ran_batch)
        except Exception as error:
            self._plan_restart(error)
        else:
            self._failure = None

    def has_ended(self, wait: float) -> bool:
        """Wait a little; return whether the query has ended, and start it again if that is due.

        Raises:
            Exception: it has failed, and is not started again.
        """
        if self._failure is not None:
            if self.now() >= self._due:
                self.begin()
            return False
        assert self._run is not None, "it was started, or it has failed"
        try:
            return self._run.await_termination(timeout=wait)
        except TidegateError as error:
            self._plan_restart(error)
            return False

    @property
    def is_waiting(self) -> bool:
        """Whether it has failed and waits for its restart."""
        return self._failure is not None

    def stop(self, *, flush: bool = False, drain: bool = False) -> None:
        """Stop it after its current batch; one that waits for a restart is left as it is.

        Raises:
            TidegateError: it fails; or it waits for a restart, so it cannot flush or drain.
        """
        if self._failure is None:
            if self._run is not None:
                self._run.stop(flush=flush, drain=drain)
            return
        if flush or drain:
            more = "Nothing was flushed or drained, because the query waited for a restart."
            raise self._refused(self._failure, more)
        _LOG.warning("%s: stopped while it waited for a restart", self.name)

    def _plan_restart(self, error: Exception) -> None:
        """Note when the query is started again.

        Raises:
            Exception: it is not.
        """
        cause = transient_cause(error)
        if self.policy.restart is Restart.NEVER or cause is None:
            raise self._refused(error)
        if isinstance(error, TidegateError):
            error.transient = cause
        if self._worked_until - self._started > self.policy.max_delay_us / 1_000_000:
            self._attempts = 0
        if self._attempts >= self.policy.attempts:
            tried = f"{self._attempts} restarts" if self._attempts > 1 else "a restart"
            raise self._refused(error, f"Given up after {tried} in a row.")
        self._attempts += 1
        delay = self.policy.delay_before(self._attempts)
        self._due, self._failure = self.now() + delay, error
        self._run = None
        RECORDER.restarted(self.name, cause)
        for name in (self.name, *self.others):
            HEALTH.waits(name, str(error).split("\n", 1)[0])
        _LOG.warning(
            "%s: %s; restart %d of at most %d in %g s",
            self.name,
            str(error).split("\n", 1)[0],
            self._attempts,
            self.policy.attempts,
            delay,
            extra={
                "event": "restart",
                "facts": {
                    "query": self.name,
                    "cause": cause,
                    "attempt": self._attempts,
                    "delay_seconds": delay,
                },
            },
        )

    def _refused(self, error: Exception, more: str = "") -> Exception:
        """Return the error with which the pipeline ends; one of a running query gets its name."""
        if not isinstance(error, ExecutionError):
            return error
        name = getattr(error, "transform", None) or self.name
        with_it = [each for each in (self.name, *self.others) if each != name]
        parts = [f"{name}: {error}", more]
        if with_it:
            are = "is" if len(with_it) == 1 else "are"
            parts.append(
                f"{listed(with_it)} {are} part of the same query and stopped with it; a restart "
                "runs all of them again."
            )
        found = ExecutionError("\n\n".join(part for part in parts if part))
        found.transient = transient_cause(error)
        found.__cause__ = error
        return found


def watch(queries: Sequence[Kept], stopping: threading.Event) -> None:
    """Wait until all queries have ended or ``stopping`` is set.

    Raises:
        Exception: a query has failed and is not started again.
    """
    going = list(queries)
    while going and not stopping.is_set():
        if all(query.is_waiting for query in going):
            stopping.wait(POLL_SECONDS)
        going = [query for query in going if not query.has_ended(POLL_SECONDS)]
