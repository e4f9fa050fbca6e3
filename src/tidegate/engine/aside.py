"""Work on the state beside the steps: in a thread and session of its own, on half of the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import uuid4

from tidegate.engine.tasks import Tasks
from tidegate.spark.isolation import cores_of, private_session
from tidegate.spark.pools import turn_of

if TYPE_CHECKING:
    from tidegate.engine.state_io import StateIO

Result = TypeVar("Result")


class Asides:
    """Starts the work beside the steps of a query, and gives it up when the query stops."""

    def __init__(self) -> None:
        self._states: dict[str, StateIO] = {}
        self._running: dict[str, Aside[Any]] = {}

    def start(self, what: str, io: StateIO, run: Callable[[StateIO], Result]) -> Aside[Result]:
        """Start some work; the last one of the same name has to be done.

        Args:
            what: a word for it, which names its thread and its session.
            io: the state, in the session of the steps.
            run: does it with the state in a session of its own. Of what it writes only what is
                disowned is deleted.
        """
        if what not in self._states:
            self._states[what] = _state_aside(io)
        aside = Aside(what, self._states[what], run)
        self._running[what] = aside
        return aside

    def wait(self) -> None:
        """Wait until all has ended."""
        for aside in self._running.values():
            aside.wait()

    def stop(self) -> None:
        """Give up what is not done; its files are left as they are."""
        for aside in self._running.values():
            aside.cancel()
        self._running.clear()


class Aside(Generic[Result]):
    """Some work in a thread of its own."""

    def __init__(self, what: str, io: StateIO, run: Callable[[StateIO], Result]) -> None:
        self._spark = io.store.spark
        self._group = f"tidegate-{what}-{uuid4().hex}"
        self._future: Future[Result] = Future()

        def work() -> None:
            context = self._spark.sparkContext
            try:
                context.setJobGroup(self._group, f"{what} segments of the state")
                with turn_of(f"{io.store.checkpoint} {what}", context):
                    self._future.set_result(run(io))
            except BaseException as error:
                self._future.set_exception(error)

        # A daemon: a process that ends does not wait for it.
        threading.Thread(target=work, name=f"tidegate-{what}", daemon=True).start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._future.done()

    def result(self) -> Result:
        """Wait for the result and return it, or raise what it raised."""
        return self._future.result()

    def wait(self) -> None:
        """Wait until it has ended."""
        self._future.exception()

    def cancel(self) -> None:
        """Cancel its jobs."""
        if not self.is_done:
            self._spark.sparkContext.cancelJobGroup(self._group)


def _state_aside(io: StateIO) -> StateIO:
    spark = private_session(io.store.spark)
    tasks = Tasks(spark, max(1, cores_of(spark) // 2))
    return replace(io, store=io.store.in_session(spark), tasks=tasks, readers=tasks.most)
