"""Finishing a step beside the next one: the driver and the cores are seldom busy at the same time.

    Spark's thread   | intake 7 | Spark plans 8 | intake 8       | Spark plans 9 | ..
    beside                      | finish 7          | (waits)    | finish 8 ..
                                ^ intent 7 holds what was taken in

A step is finished beside the next one only while its source has more rows at hand: then a next
batch is certain to come, which waits for it. Without a backlog a batch ends with its results, so
that whoever waits for Spark finds them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tidegate.engine.handover import SeveralSinks
from tidegate.engine.session import set_up
from tidegate.engine.side_output.routing import goes_out
from tidegate.engine.tasks import Tasks
from tidegate.spark.isolation import private_session
from tidegate.state.intents import StepKind

if TYPE_CHECKING:
    from tidegate.engine.intake import Taken
    from tidegate.engine.job import Job, Outlet
    from tidegate.engine.state_io import StateIO
    from tidegate.state.manifest import Manifest


@runtime_checkable
class PlainOutlet(Protocol):
    """An outlet that any thread may write to."""

    @property
    def reads_once(self) -> bool:
        """Whether it reads all of a frame in one action."""


def can_wait(taken: Taken, job: Job) -> bool:
    """Return whether a step may be finished beside the next one.

    Not if a sink of side output gets something: that is read from the rows of the batch, which
    Spark no longer has then. Not with a sink of a user's, which only the thread that brings the
    batches calls, nor with queries that read the results, since their steps are part of this one,
    nor with EMIT EARLY, whose results are to come while their windows are open.
    """
    outlets = job.outlets
    return (
        taken.intent.kind is StepKind.BATCH
        and not taken.is_announced
        and taken.leap is None
        and not outlets.takers
        and job.plan.close.early_us is None
        and _is_plain(outlets.results)
        and not goes_out(taken.unused, job)
    )


def _is_plain(outlet: Outlet) -> bool:
    if isinstance(outlet, SeveralSinks):
        return all(map(_is_plain, outlet.sinks))
    return isinstance(outlet, PlainOutlet) and outlet.reads_once is True


class Finishing:
    """A step that is finished in a thread of its own, from ``start`` on.

    Attributes:
        state: the state with the rows of its batch, before any window closes.

    Args:
        taken: the step.
        finish: finishes it.
        io: the state, in the session of that thread.
        entered: entered by that thread.
    """

    def __init__(
        self,
        taken: Taken,
        finish: Callable[[Taken, StateIO], object],
        io: StateIO,
        entered: AbstractContextManager[None],
    ) -> None:
        self.state: Manifest = taken.state
        self._future: Future[None] = Future()

        def run() -> None:
            try:
                with entered:
                    finish(taken, io)
            except BaseException as error:
                self._future.set_exception(error)
            else:
                self._future.set_result(None)

        # A daemon: of a process that ends meanwhile the next one finds the intent.
        self._thread = threading.Thread(target=run, name="tidegate-finish", daemon=True)

    def start(self) -> None:
        """Begin to finish it."""
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with an error."""
        return self._future.done() and self._future.exception() is not None

    def has_ended_by(self, until: float) -> bool:
        """Wait for it, at most until a time of ``monotonic``; return whether it has ended."""
        return not futures.wait([self._future], max(0.0, until - monotonic())).not_done

    @contextmanager
    def ended_on_failure(self) -> Iterator[None]:
        """Wait for it if what is done beside it fails: it decides which files are to be there."""
        try:
            yield
        except Exception:
            futures.wait([self._future])
            raise

    def wait(self) -> None:
        """Wait until it is finished; raise what it raised."""
        self._future.result()


def io_beside(io: StateIO) -> StateIO:
    """Return the state in a session of its own, so that jobs beside others have their own tasks."""
    spark = private_session(io.store.spark)
    set_up(spark)
    return replace(io, store=io.store.finishing_in(spark), tasks=Tasks(spark, io.tasks.most))
