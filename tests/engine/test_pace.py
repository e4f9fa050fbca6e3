"""The pace of batches: by a clock that nobody sets, and never in the way of an end."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.api.arguments import trigger
from tidegate.engine import pace
from tidegate.engine.gate import Gate
from tidegate.engine.pace import Pace, polling

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Clock:
    """A monotonic clock that goes on when somebody waits for the gate to close."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait_until_closed(self, gate: Gate, seconds: float) -> bool:
        self.now += seconds
        return gate.is_closed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    monkeypatch.setattr(
        Gate, "wait_until_closed", lambda gate, seconds: clock.wait_until_closed(gate, seconds)
    )
    return clock


def starts(clock: Clock, interval_us: int, takes: list[float]) -> list[float]:
    """Run batches that take some seconds each, planned 0.01 s before; return when they start."""
    kept, gate, seen = Pace(interval_us), Gate(), []
    for seconds in takes:
        clock.now += 0.01
        seen.append(round(clock.now - 100, 2))
        kept.starts()
        clock.now += seconds
        kept.wait(gate, lambda: True)
    return seen


def test_batches_start_an_interval_apart_and_at_once_after_one_that_took_longer(
    clock: Clock,
) -> None:
    assert starts(clock, 1_000_000, [0.1, 0.2, 0.1, 2.5, 0.1, 0.1]) == [
        0.01,
        1.01,
        2.01,
        3.01,
        5.52,
        6.53,
    ]
    assert starts(clock, 0, [0.1, 0.1])[1] - starts(clock, 0, [0.1])[0] < 1


def test_a_wait_ends_when_the_gate_closes_or_the_query_has_ended(clock: Clock) -> None:
    kept, gate = Pace(3_600_000_000), Gate()
    kept.starts()
    kept.wait(gate, lambda: False)
    assert clock.now < 101
    gate.close()
    kept.wait(gate, lambda: True)
    assert clock.now < 102


@pytest.mark.parametrize(
    ("text", "interval_us"),
    [(None, 0), ("1s", 1_000_000), ("90 seconds", 90_000_000), (" 1 Minute 5 seconds", 65_000_000)],
)
def test_a_trigger_is_a_duration_of_ours_or_of_sparks(text: str | None, interval_us: int) -> None:
    assert trigger(text) == interval_us


def test_a_live_query_keeps_its_pace_and_a_stop_does_not_wait_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        path = tmp_path / "in" / f"{number}.json"
        path.write_text(json.dumps({"ts": f"2026-01-01 00:00:0{number}"}))
        os.utime(path, (number, number))
    rows = spark.readStream.schema("ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)",
        settings={"event_time_field": "ts"},
        r=rows.json(str(tmp_path / "in")),
    )
    ended: list[float] = []
    options = {"sink": tidegate.MemorySink(), "on_batch": lambda _: ended.append(time.monotonic())}
    run = query.start(checkpoint=tmp_path / "checkpoint", trigger="700ms", **options)
    while len(ended) < 3:
        assert not run.await_termination(0.01)
    # From start to start; the first batch of a query may take longer than the interval.
    assert ended[2] - ended[1] > 0.3
    run.stop()

    run = query.start(checkpoint=tmp_path / "other", trigger="1h", **options)
    while len(ended) < 4:
        assert not run.await_termination(0.01)
    asked = time.monotonic()
    run.stop(drain=True)
    assert time.monotonic() - asked < 60
    assert [row["n"] for row in options["sink"].rows()] == [1]
    # A query that finds no rows looks again after the interval, and Spark waits by itself.
    assert polling(700_000) == {"spark.sql.streaming.pollingDelay": "700ms"}
