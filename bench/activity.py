"""What Spark's cores did during a run: work of tasks, and time in which cores idled.

Read after the run from Spark's own status store, which it keeps anyway (even without its page), so
that nothing more happens while time is taken.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

# More tasks than any stage of a benchmark has.
MOST_TASKS = 1_000_000

_TIME = "%Y-%m-%dT%H:%M:%S.%fGMT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as the driver saw it; times in ms since 1970.

    ``cpu_ms`` and ``run_ms`` are the CPU and wall time of its code in the executor.
    """

    stage: int
    started_ms: int
    ended_ms: int
    cpu_ms: float = 0.0
    run_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the cores did within a time, in seconds.

    Attributes:
        seconds: the time itself.
        cpu: CPU time of tasks, of all cores together.
        run: time that tasks took on all cores together; what exceeds ``cpu`` they waited.
        no_task: time in which no task ran.
        some_idle: time in which a task ran, but fewer than there are cores.
    """

    seconds: float
    cpu: float
    run: float
    no_task: float
    some_idle: float


class TaskWatch:
    """Collects the tasks of a ``with`` block, ``tasks``, once it has ended."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._context = context
        self._store = context._jsc.sc().statusStore()
        self.tasks: Sequence[Task] = ()
        self.started_ms = self.ended_ms = 0

    def __enter__(self) -> TaskWatch:
        self._last_before = max((stage for stage, _ in self._stages()), default=-1)
        self.started_ms = now_ms()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.ended_ms = now_ms()
        if error is None:
            self.tasks = tuple(self._read())

    def activity(self) -> Activity:
        """Return what the cores did during the block."""
        return activity_of(self.tasks, self.started_ms, self.ended_ms, self.cores)

    @property
    def cores(self) -> int:
        """How many tasks can run at once."""
        return int(self._context.defaultParallelism)

    def _stages(self) -> Iterator[tuple[int, int]]:
        """The stages that the store knows, and their attempts."""
        nothing = self._context._gateway.new_array(self._context._jvm.double, 0)
        stages = self._store.stageList(None, False, False, nothing, None)
        for number in range(stages.size()):
            yield stages.apply(number).stageId(), stages.apply(number).attemptId()

    def _read(self) -> Iterator[Task]:
        # What fills the store runs behind.
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        for stage, attempt in self._stages():
            if stage > self._last_before:
                tasks = self._store.taskList(stage, attempt, MOST_TASKS)
                yield from tasks_of(stage, json.loads(self._json(tasks)), self.ended_ms)

    def _json(self, value: object) -> str:
        writer = self._context._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter()
        return str(writer.mapper().writeValueAsString(value))


def tasks_of(stage: int, records: Iterable[dict[str, Any]], until_ms: int) -> Iterator[Task]:
    """Return the tasks that Spark's status store tells of; one that still runs ends now."""
    for record in records:
        started_ms = ms_of(record["launchTime"])
        metrics = record.get("taskMetrics", {})
        yield Task(
            stage=stage,
            started_ms=started_ms,
            ended_ms=started_ms + record["duration"] if "duration" in record else until_ms,
            cpu_ms=metrics.get("executorCpuTime", 0) / 1e6,
            run_ms=metrics.get("executorRunTime", 0),
        )


def activity_of(tasks: Sequence[Task], from_ms: float, to_ms: float, cores: int) -> Activity:
    """Return what the cores did from one time to another.

    Work of a task that is only partly within counts by that part.
    """
    idle = idle_ms(tasks, from_ms, to_ms, cores)
    shares = [(task, _share(task, from_ms, to_ms)) for task in tasks]
    return Activity(
        seconds=(to_ms - from_ms) / 1000,
        cpu=sum(task.cpu_ms * share for task, share in shares) / 1000,
        run=sum(task.run_ms * share for task, share in shares) / 1000,
        no_task=idle.none / 1000,
        some_idle=idle.some / 1000,
    )


@dataclass(slots=True)
class Idle:
    """Milliseconds without any task, and with some tasks but fewer than cores."""

    none: float = 0.0
    some: float = 0.0


def idle_ms(tasks: Iterable[Task], from_ms: float, to_ms: float, cores: int) -> Idle:
    """Return how long no task ran from one time to another, and how long too few did."""
    changes: dict[float, int] = {from_ms: 0, to_ms: 0}
    for task in tasks:
        started, ended = max(task.started_ms, from_ms), min(task.ended_ms, to_ms)
        if started < ended:
            changes[started] = changes.get(started, 0) + 1
            changes[ended] = changes.get(ended, 0) - 1
    idle, running = Idle(), 0
    for here, there in pairwise(sorted(changes)):
        running += changes[here]
        if running == 0:
            idle.none += there - here
        elif running < cores:
            idle.some += there - here
    return idle


def ms_of(text: str) -> int:
    """Return a time as Spark's status store writes it in ms since 1970."""
    moment = datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def now_ms() -> int:
    """Return the time now in ms since 1970."""
    return time.time_ns() // 1_000_000


def _share(task: Task, from_ms: float, to_ms: float) -> float:
    """Return which part of a task was within a time."""
    if task.ended_ms <= task.started_ms:
        return float(from_ms <= task.started_ms < to_ms)
    within = min(task.ended_ms, to_ms) - max(task.started_ms, from_ms)
    return max(0.0, within) / (task.ended_ms - task.started_ms)
