"""Health: what supervisors are told of the queries of a process."""

from __future__ import annotations

import json
import threading
import urllib.request
from urllib.error import HTTPError

import pytest

from docs.pages import page
from tidegate.metrics import health
from tidegate.metrics.health import Health, Limits, QueryHealth, State
from tidegate.metrics.server import CHECKS, answer, serve_metrics

NOWHERE = Limits()


def of(**states: State) -> Health:
    found = Health()
    for name, state in states.items():
        found.watch(name, lambda state=state: QueryHealth(state=state, failure="it broke"))
    return found


@pytest.mark.parametrize(
    ("states", "live", "ready"),
    [
        ({}, True, False),
        ({"a": State.STARTING}, True, False),
        ({"a": State.RUNNING}, True, True),
        ({"a": State.RUNNING, "b": State.STARTING}, True, False),
        ({"a": State.RUNNING, "b": State.RESTARTING}, True, False),
        ({"a": State.RUNNING, "b": State.ENDED}, True, True),
        ({"a": State.RUNNING, "b": State.FAILED}, False, False),
    ],
)
def test_a_process_is_live_until_a_query_has_failed_and_ready_once_all_run(
    states: dict[str, State], live: bool, ready: bool
) -> None:
    report = of(**states).report(NOWHERE)
    assert (report.live, report.ready) == (live, ready)
    assert report.problems == (() if live else ("b: it broke",))


def test_who_asks_says_what_is_too_long() -> None:
    found = Health()
    running = QueryHealth(
        state=State.RUNNING, last_batch_age_seconds=70.0, batch_running_seconds=65.0
    )
    found.watch("a", lambda: running)
    assert found.report(NOWHERE).live
    assert found.report(Limits(age=71, batch=66)).live
    assert found.report(Limits(age=60)).problems == ("a: the last batch ended 70 s ago",)
    report = found.report(Limits(batch=60))
    assert (report.live, report.ready) == (False, False)
    assert report.problems == ("a: the current batch has been running for 65 s",)
    # Nobody waits for the batches of a query that has ended.
    found.watch("a", lambda: QueryHealth(state=State.ENDED, last_batch_age_seconds=70.0))
    assert found.report(Limits(age=60)).live


def test_a_query_that_is_expected_waits_for_a_restart_or_is_forgotten_is_told_so() -> None:
    found = Health()
    found.expect(["a"])
    assert found.report(NOWHERE).queries["a"].state is State.STARTING
    found.waits("a", "no broker answers")
    waiting = found.report(NOWHERE).queries["a"]
    assert (waiting.state, waiting.failure) == (State.RESTARTING, "no broker answers")
    found.watch("a", lambda: None)  # its handle is gone
    assert found.report(NOWHERE).queries == {}
    found.expect(["a"])
    found.forget(["a"])
    assert found.report(NOWHERE).queries == {}


def test_a_process_whose_spark_does_not_answer_is_not_live(monkeypatch) -> None:
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.05)
    found, hangs = Health(), threading.Event()

    def probe() -> QueryHealth:
        hangs.wait()
        return QueryHealth(state=State.RUNNING)

    found.watch("a", probe)
    for _ in range(2):
        report = found.report(NOWHERE)
        assert (report.live, report.ready) == (False, False)
        assert report.problems == ("Spark has not answered for 0.05 s",)
    hangs.set()
    monkeypatch.setattr(health, "ANSWER_SECONDS", 30)
    assert found.report(NOWHERE).live
    assert found.report(NOWHERE).ready


@pytest.fixture
def running(monkeypatch) -> Health:
    found = of(delays=State.RUNNING)
    monkeypatch.setattr("tidegate.metrics.server.HEALTH", found)
    return found


def test_the_checks_are_served_beside_the_metrics(running: Health) -> None:
    with serve_metrics(port=0) as server:
        root = f"http://{server.host}:{server.port}"
        for path in CHECKS:
            with urllib.request.urlopen(root + path) as found:
                assert found.headers["Content-Type"] == "application/json"
                told = json.load(found)
        assert told["queries"]["delays"]["state"] == "running"
        running.waits("delays", "no broker answers")
        with urllib.request.urlopen(root + "/livez") as found:
            assert found.status == 200
        for path in ("/readyz", "/healthz"):
            with pytest.raises(HTTPError) as refused:
                urllib.request.urlopen(root + path)
            assert refused.value.code == 503
            told = json.load(refused.value)
            assert told["queries"]["delays"]["failure"] == "no broker answers"
        with urllib.request.urlopen(root + "/metrics") as found:
            assert b"tidegate_batches_total" in found.read()


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("max_age=10m&max_batch=1h", 200, '"live": true'),
        ("max_age=ten", 400, "'ten' is not a duration"),
        ("age=10m", 400, "age is unknown; write max_age=10m or max_batch=10m"),
    ],
)
def test_a_limit_is_a_duration_and_other_questions_are_refused(
    query: str, status: int, told: str
) -> None:
    found, body = answer("/livez", query)
    assert found == status
    assert told in body.decode()


def test_every_check_and_state_is_in_the_docs() -> None:
    told = page("operations.md")
    for name in (*CHECKS, *State, "max_age", "max_batch", *QueryHealth.__slots__):
        assert f"`{name}`" in told, name
