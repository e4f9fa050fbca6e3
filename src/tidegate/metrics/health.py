"""The health of this process: what its queries do now, for those who watch it (``/livez`` ..).

A query tells it with a function that is called when somebody asks. Only one thread asks, because a
thread that talks to Spark keeps a connection; if Spark does not answer it, the process is not well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from enum import StrEnum
from queue import SimpleQueue
from typing import TypeAlias

# How long Spark may take to say whether a query is running.
ANSWER_SECONDS = 5.0


class State(StrEnum):
    """What a query does."""

    STARTING = "starting"
    RUNNING = "running"
    # It has failed and is started again after a while.
    RESTARTING = "restarting"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryHealth:
    """What a query does now.

    Attributes:
        state: what it does.
        failure: why it has failed, in a line; None if it has not.
        batch_id: Spark's id of its last batch, None before the first.
        watermark: the watermark as ISO 8601 UTC, None before the first timed row.
        last_batch_age_seconds: how long ago its last step was committed by this process.
        batch_running_seconds: how long the current batch has been running, None between batches.
    """

    state: State
    failure: str | None = None
    batch_id: int | None = None
    watermark: str | None = None
    last_batch_age_seconds: float | None = None
    batch_running_seconds: float | None = None


Probe: TypeAlias = "Callable[[], QueryHealth | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the one who asks thinks too long, in seconds.

    Attributes:
        age: since the last step of a running query.
        batch: since the current batch has begun.
    """

    age: float | None = None
    batch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The health of the process.

    Attributes:
        live: False if a restart of the process is needed.
        ready: whether every query is running or has ended well.
        problems: why it is not live.
        queries: by name.
    """

    live: bool
    ready: bool
    problems: tuple[str, ...]
    queries: Mapping[str, QueryHealth]

    def json(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self)


class Health:
    """The health of all queries of this process; may be used by several threads at a time."""

    def __init__(self) -> None:
        self._probes: dict[str, Probe] = {}
        self._lock = threading.Lock()
        self._asker = _Asker()

    def expect(self, names: Iterable[str]) -> None:
        """Say that queries will be started: until then the process is not ready."""
        for name in names:
            self.watch(name, lambda: QueryHealth(state=State.STARTING))

    def watch(self, name: str, probe: Probe) -> None:
        """Ask this function for the health of a query; it returns None if the query is no more."""
        with self._lock:
            self._probes[name] = probe

    def waits(self, name: str, failure: str) -> None:
        """Say that a query has failed and is started again after a while."""
        self.watch(name, lambda: QueryHealth(state=State.RESTARTING, failure=failure))

    def forget(self, names: Iterable[str]) -> None:
        """Say that queries are no longer of interest."""
        with self._lock:
            for name in names:
                self._probes.pop(name, None)

    def report(self, limits: Limits) -> Report:
        """Return the health of the process now."""
        with self._lock:
            probes = dict(self._probes)
        found = self._asker.ask(lambda: {name: probe() for name, probe in probes.items()})
        if found is None:
            problem = f"Spark has not answered for {ANSWER_SECONDS:g} s"
            return Report(live=False, ready=False, problems=(problem,), queries={})
        queries = {name: health for name, health in found.items() if health is not None}
        self.forget(found.keys() - queries.keys())
        problems = tuple(
            f"{name}: {what}" for name, health in queries.items() for what in _wrong(health, limits)
        )
        well = all(health.state in (State.RUNNING, State.ENDED) for health in queries.values())
        return Report(
            live=not problems,
            ready=well and not problems and bool(queries),
            problems=problems,
            queries=queries,
        )


def _wrong(health: QueryHealth, limits: Limits) -> Iterable[str]:
    if health.state is State.FAILED:
        yield health.failure or "it has failed"
    if health.state is not State.RUNNING:
        return
    age, batch = health.last_batch_age_seconds, health.batch_running_seconds
    if limits.age is not None and age is not None and age > limits.age:
        yield f"the last batch ended {age:.0f} s ago"
    if limits.batch is not None and batch is not None and batch > limits.batch:
        yield f"the current batch has been running for {batch:.0f} s"


_Answer: TypeAlias = "dict[str, QueryHealth | None]"


class _Asker:
    """Calls functions in a thread of its own, and does not wait for ever.

    Who asks while an answer is on its way gets that one, so there is never a queue.
    """

    def __init__(self) -> None:
        self._questions: SimpleQueue[tuple[Callable[[], _Answer], Future[_Answer]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._newest: Future[_Answer] | None = None
        self._lock = threading.Lock()

    def ask(self, question: Callable[[], _Answer]) -> _Answer | None:
        """Return the answer, None if it does not come in time."""
        with self._lock:
            if self._newest is None or self._newest.done():
                self._newest = Future()
                self._questions.put((question, self._newest))
            answer = self._newest
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="tidegate-health", daemon=True
                )
                self._thread.start()
        try:
            return answer.result(timeout=ANSWER_SECONDS)
        except TimeoutError:
            return None

    def _work(self) -> None:
        while True:
            question, answer = self._questions.get()
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)


# The queries of this process.
HEALTH = Health()
