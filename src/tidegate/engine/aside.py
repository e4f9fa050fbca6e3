"""Work on the state beside the steps: in a thread and session of its own, on half of the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import uuid4

from tidegate.engine.tasks import Tasks
from tidegate.spark.calls import OTHER_SPARK
from tidegate.spark.isolation import cores_of, private_session
from tidegate.spark.pools import turn_of

if TYPE_CHECKING:
    from tidegate.engine.state_io import StateIO
    from tidegate.state.manifest import Segment

Result = TypeVar("Result")


class Asides:
    """Starts the work beside the steps of a query, and gives it up when the query stops."""

    def __init__(self) -> None:
        self._states: dict[str, StateIO] = {}
        self._running: dict[str, Aside[Any]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something is going on."""
        return not all(aside.is_done for aside in tuple(self._running.values()))

    def start(self, what: str, io: StateIO, run: Callable[[StateIO], Result]) -> Aside[Result]:
        """Start some work.

        Args:
            what: what it does, in a word or two, which name its jobs and its thread.
            io: the state, in the session of the steps.
            run: does it with the state in a session of its own.
        """
        last = self._running.get(what)
        # What was given up may still be ending.
        if last is None or not last.is_done:
            self._states[what] = _state_aside(io)
        aside = Aside(what, self._states[what], run)
        self._running[what] = aside
        return aside

    def wait(self) -> None:
        """Wait until all has ended."""
        for aside in tuple(self._running.values()):
            aside.wait()

    def stop(self) -> None:
        """Give up what is not done; its files are left as they are."""
        for aside in tuple(self._running.values()):
            aside.cancel()


class Aside(Generic[Result]):
    """Some work in a thread of its own."""

    def __init__(self, what: str, io: StateIO, run: Callable[[StateIO], Result]) -> None:
        name = f"tidegate-{what.replace(' ', '-')}"
        self._spark = io.store.spark
        self._group = f"{name}-{uuid4().hex}"
        self._future: Future[Result] = Future()
        self._written: tuple[str, ...] = ()

        def work() -> None:
            context = self._spark.sparkContext
            try:
                context.setJobGroup(self._group, f"{what} segments of the state")
                with turn_of(f"{io.store.checkpoint} {what}", context):
                    found = run(io)
                self._written = io.store.take_written()
                self._future.set_result(found)
            except BaseException as error:
                self._written = io.store.take_written()
                self._future.set_exception(error)

        try:
            # A daemon: a process that ends does not wait for it.
            threading.Thread(target=work, name=name, daemon=True).start()
        except RuntimeError as error:
            self._future.set_exception(error)  # There are too many threads.

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

    def clean_up(self, io: StateIO, kept: Segment | None) -> None:
        """Have the segments deleted that it has written, but for one; it has ended."""
        for name in self._written:
            if kept is None or name != kept.name:
                io.store.disown(name)

    def cancel(self) -> None:
        """Cancel its jobs, and those that it has not begun."""
        if self.is_done:
            return
        context = self._spark.sparkContext
        context.cancelJobGroup(self._group)
        with suppress(*OTHER_SPARK):
            context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)


def _state_aside(io: StateIO) -> StateIO:
    spark = private_session(io.store.spark)
    tasks = Tasks(spark, max(1, cores_of(spark) // 2))
    return replace(io, store=io.store.in_session(spark), tasks=tasks, readers=tasks.most)
