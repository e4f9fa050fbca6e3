"""Restarts of a failed query: only of what may pass, bounded, each after a longer wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from tidegate.cli.exits import FAILED, TRY_AGAIN, exit_code_of
from tidegate.cli.restarts import Kept, watch
from tidegate.errors import ConfigError, ExecutionError, StateError, TidegateError
from tidegate.plan.pipeline import Restart, RestartPolicy


def away(text: str = "the query stopped: no Kafka broker answers\n\nStart it.") -> TidegateError:
    error = ExecutionError(text)
    error.transient = "kafka"
    return error


class Fake:
    """Queries that fail as they are told to, on a clock that moves when somebody waits.

    ``script`` has a step for each start: an error to fail with, None to end well, or a function
    that is called first.
    """

    def __init__(self, *script: object, policy: RestartPolicy | None = None) -> None:
        self.script = list(script)
        self.time = 0.0
        self.starts: list[float] = []
        self.stops: list[dict[str, bool]] = []
        self.ran_batch: Callable[[], None] = lambda: None
        self.stopping = threading.Event()
        self.stopping.wait = self.wait  # type: ignore[method-assign]
        self.kept = Kept(
            name="delays",
            start=self.start,
            policy=policy or RestartPolicy(),
            now=lambda: self.time,
        )

    def start(self, ran_batch: Callable[[], None]) -> Fake:
        self.starts.append(self.time)
        self.ran_batch = ran_batch
        if self.script and self.script[0] == "refuses":
            self.script.pop(0)
            raise self.script.pop(0)
        return self

    def wait(self, timeout: float | None = None) -> bool:
        self.time += timeout or 0
        return self.stopping.is_set()

    def await_termination(self, timeout: float | None = None) -> bool:
        self.time += timeout or 0
        while callable(self.script[0]):
            self.script.pop(0)()
        failure = self.script.pop(0)
        if failure is not None:
            raise failure
        return True

    def stop(self, *, flush: bool = False, drain: bool = False) -> None:
        self.stops.append({"flush": flush, "drain": drain})

    def run(self) -> list[float]:
        """Run to the end; return the waits before each restart, in whole seconds."""
        self.kept.begin()
        watch([self.kept], self.stopping)
        return [round(b - a) for a, b in zip(self.starts, self.starts[1:], strict=False)]


def test_each_restart_in_a_row_comes_after_twice_the_wait_up_to_the_longest() -> None:
    policy = RestartPolicy(attempts=6, delay_us=1_000_000, max_delay_us=10_000_000)
    fake = Fake(*[away()] * 6, None, policy=policy)
    assert fake.run() == [1, 2, 4, 8, 10, 10]


def test_after_the_last_attempt_the_pipeline_ends_with_the_failure_and_exit_code_75() -> None:
    fake = Fake(*[away()] * 3, policy=RestartPolicy(attempts=2))
    with pytest.raises(ExecutionError) as failed:
        fake.run()
    assert len(fake.starts) == 3
    assert str(failed.value) == (
        "delays: the query stopped: no Kafka broker answers\n\nStart it.\n\n"
        "Given up after 2 restarts in a row."
    )
    assert exit_code_of(failed.value) == TRY_AGAIN


LASTING = [
    ExecutionError("the query stopped in a batch: no space left on device"),
    ConfigError("the table has no unique index"),
    StateError("another process writes to the checkpoint"),
]


@pytest.mark.parametrize(
    "script",
    # A query that runs fails with errors of ours only.
    [[each] for each in LASTING] + [["refuses", each] for each in (*LASTING, RuntimeError("bug"))],
)
def test_what_stays_is_never_tried_again(script: list[object]) -> None:
    fake = Fake(*script)
    with pytest.raises(type(script[-1])) as failed:
        fake.run()
    assert len(fake.starts) == 1
    assert exit_code_of(failed.value) == FAILED


def test_with_restart_never_nothing_is_tried_again_but_the_exit_code_says_that_it_may_pass() -> (
    None
):
    fake = Fake(away(), policy=RestartPolicy(restart=Restart.NEVER))
    with pytest.raises(ExecutionError) as failed:
        fake.run()
    assert len(fake.starts) == 1
    assert exit_code_of(failed.value) == TRY_AGAIN


def test_a_start_that_fails_because_a_server_is_away_is_tried_again_too() -> None:
    down = ConfigError("sink results: the database cannot be used")
    down.transient = "database"
    fake = Fake("refuses", down, "refuses", away(), None)
    assert fake.run() == [1, 2]


def test_a_query_that_worked_for_longer_than_the_longest_delay_counts_anew() -> None:
    policy = RestartPolicy(attempts=2, delay_us=1_000_000, max_delay_us=5_000_000)
    fake = Fake(policy=policy)

    def works() -> None:
        fake.time += 6
        fake.ran_batch()

    fake.script = [away(), away(), works, away(), away(), None]
    assert fake.run() == [1, 2, 1 + 6, 2]


def test_time_without_a_batch_is_no_recovery_so_slow_failures_are_bounded_too() -> None:
    policy = RestartPolicy(attempts=2, delay_us=1_000_000, max_delay_us=5_000_000)
    fake = Fake(policy=policy)

    def hangs() -> None:
        fake.time += 60

    fake.script = [hangs, away()] * 3
    with pytest.raises(ExecutionError, match="Given up after 2 restarts"):
        fake.run()


def test_a_stop_during_the_wait_ends_it_at_once_and_is_no_failure() -> None:
    fake = Fake(away())
    fake.kept.begin()
    assert not fake.kept.has_ended(0.2)
    fake.stopping.set()
    watch([fake.kept], fake.stopping)
    fake.kept.stop()
    assert fake.stops == []
    with pytest.raises(ExecutionError, match="Nothing was flushed or drained") as refused:
        fake.kept.stop(drain=True)
    assert exit_code_of(refused.value) == TRY_AGAIN


def test_while_one_query_waits_the_others_go_on() -> None:
    waits, ends = Fake(away(), None), Fake(None)
    for each in (waits, ends):
        each.kept.begin()
    waits.kept.now = ends.kept.now = lambda: waits.time + ends.time
    watch([waits.kept, ends.kept], waits.stopping)
    assert (len(waits.starts), len(ends.starts)) == (2, 1)


def test_every_restart_is_logged_and_counted_by_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tidegate.metrics.recorder import RECORDER

    def counted() -> float:
        return sum(
            sample.value
            for family in RECORDER.collect()
            for sample in family.samples
            if sample.name == "tidegate_restarts_total"
            and sample.labels == {"transform": "delays", "cause": "kafka"}
        )

    before = counted()
    with caplog.at_level(logging.WARNING, "tidegate"):
        Fake(away(), away(), None).run()
    assert counted() - before == 2
    assert [record.getMessage() for record in caplog.records] == [
        "delays: the query stopped: no Kafka broker answers; restart 1 of at most 5 in 1 s",
        "delays: the query stopped: no Kafka broker answers; restart 2 of at most 5 in 2 s",
    ]
    assert caplog.records[0].facts == {
        "query": "delays",
        "cause": "kafka",
        "attempt": 1,
        "delay_seconds": 1.0,
    }
