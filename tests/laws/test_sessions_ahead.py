"""Sessions equal the oracle where closes look ahead, because many sessions are open."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest

from laws.scripts import START, Law, Row, answers_of_spark, check
from side_by_side import dealt
from tidegate.engine.aside import Aside, Asides
from tidegate.engine.windows.sessions.ahead import Ahead, Close, Near, Outlook

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.engine.state_io import StateIO

SHOWN = "count(*) AS n, sum(v) AS total, window_start() AS s, window_end() AS e"
# Of 60 keys, each has a row about every seven seconds: some sessions go on, others end.
KEYS = [None, *(f"key {number}" for number in range(59))]
SECONDS, ROWS_A_SECOND, BATCHES = 12, 8, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Many(Law):
    """A first batch that opens many sessions, then one for each second.

    ``stale``: the part of the rows that are so old that their sessions may be due at once.
    """

    stale: float = 0

    def script(self) -> list[tuple[Row, ...]]:
        dice = random.Random(self.query)
        times = [dice.uniform(0, SECONDS) for _ in range(SECONDS * ROWS_A_SECOND)]
        batches = [tuple(self._at(dice, seconds) for seconds in times)]
        for number in range(BATCHES):
            ages = [self._age(dice) for _ in range(ROWS_A_SECOND)]
            batches.append(tuple(self._at(dice, SECONDS + number - age) for age in ages))
        return batches

    def _age(self, dice: random.Random) -> float:
        # Four seconds are waited for, so a few rows are late.
        return dice.uniform(7, 9.3) if dice.random() < self.stale else dice.uniform(-1, 4.3)

    def _at(self, dice: random.Random, seconds: float) -> Row:
        time = START + timedelta(seconds=round(seconds, 1))
        return time, dice.choice(KEYS), "x", dice.choice([None, 1, 2, 3, 4]), None


SPANS = Many(
    query=f"SELECT k, {SHOWN} FROM r GROUP BY sessionwindow('ms', 5300), k",
    settings={"event_time_field": "ts", "watermark_lag": "4s"},
)
LAWS = {
    "spans": SPANS,
    "spans, some of them due at once": replace(SPANS, stale=0.1),
}
QUICK = ("spans",)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Ahead]:
    """What each close beside many sessions has used, as they happen."""
    # So few spans are many.
    monkeypatch.setattr("tidegate.engine.tasks.FEW_ROWS", 32)
    monkeypatch.setattr("tidegate.engine.windows.sessions.ahead.PART_SINCE", 0.5)
    monkeypatch.setattr("tidegate.engine.windows.sessions.ahead.CLOSES_AHEAD", (8, 2))
    monkeypatch.setattr("tidegate.engine.windows.sessions.ahead.FIRST_CLOSES", 0)
    monkeypatch.setattr("tidegate.engine.windows.sessions.ahead.LONGEST_PAUSE", 1)
    used: list[Ahead] = []
    near = Outlook.near

    def watched(self: Outlook, close: Close, io: StateIO) -> Near | None:
        result = near(self, close, io)
        if self._ahead is not None:
            used.append(self._ahead)
        return result

    monkeypatch.setattr(Outlook, "near", watched)
    start, take_over, closes = Asides.start, Outlook._take_over, count()

    def at_once(
        self: Asides, what: str, io: StateIO, run: Callable[[StateIO], object]
    ) -> Aside[object]:
        aside = start(self, what, io, run)
        aside.wait()
        return aside

    def late(self: Outlook, io: StateIO) -> None:
        if next(closes) % 2:
            take_over(self, io)

    monkeypatch.setattr(Asides, "start", at_once)
    monkeypatch.setattr(Outlook, "_take_over", late)
    return used


@pytest.mark.parametrize("name", dealt(LAWS, QUICK))
def test_sessions_are_those_of_the_oracle(
    name: str, spark: SparkSession, looked: list[Ahead]
) -> None:
    check(LAWS[name], answers_of_spark(LAWS[name], spark))
    served = [each for each in looked if each.closes > 1]
    assert served, "some closes use what an earlier one has found"
    assert any(each.found is not None for each in served)
