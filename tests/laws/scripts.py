"""What the laws that compare with the oracle share: scripts of random rows, and running them.

A script is a few batches on Spark, a second each, so there are few scripts. But each has random
rows of nine keys, and where keys are independent, each key is a script of its own. Rows come from
``random`` with a seed, so they are the same in every run. (Hypothesis would start with the simplest
scripts, one row per batch.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from interpreted import interpreting
from oracle.adapter import OracleEngine
from tidegate.cases import Case, CaseEngine, Observed
from tidegate.cases.model import Column, Stream
from tidegate.cases.spark import SparkRuns
from tidegate.time import from_datetime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = Stream(
    name="r",
    columns=(
        Column(name="ts", type="TIMESTAMP"),
        Column(name="k", type="STRING"),
        Column(name="page", type="STRING"),
        Column(name="v", type="BIGINT"),
        Column(name="stop", type="BOOLEAN"),
    ),
)
KEYS = ("a", "b", "c", "d", "e", "f", "g", "h", None)
# Half of a script is before 1970.
START = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=8)
EVENT_TIME = {"event_time_field": "ts", "watermark_lag": "2s", "allowed_lateness": "1s"}
PROCESSING_TIME = {"time": "processing"}

Row: TypeAlias = tuple[datetime | None, str | None, str, int | None, bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A query, and the script it runs on.

    Attributes:
        rows: the most rows of a batch.
        early_seconds: how far behind the time of its batch a row can be.
        path: the setting ``streaming_aggregation``.
        greets: rows of every key and page come before all others, a minute earlier.
    """

    query: str
    settings: Mapping[str, object] = field(default_factory=lambda: EVENT_TIME)
    batches: int = 4
    rows: int = 36
    early_seconds: int = 12
    path: str = "auto"
    greets: bool = False

    def script(self) -> list[tuple[Row, ...]]:
        """Return batches four seconds apart; equal queries get equal rows."""
        dice = random.Random(self.query)
        batches = [
            tuple(self._row(dice, batch) for _ in range(dice.randint(self.rows // 2, self.rows)))
            for batch in range(self.batches)
        ]
        if self.greets:
            early = START - timedelta(minutes=1)
            batches[0] = (*((early, k, page, 0, None) for k in KEYS for page in "xy"), *batches[0])
        return batches

    def _row(self, dice: random.Random, batch: int) -> Row:
        half_seconds = dice.randint(-2 * self.early_seconds, 8)
        time = START + timedelta(seconds=4 * batch + half_seconds / 2)
        return (
            None if dice.random() < 0.03 else time,
            dice.choice(KEYS),
            dice.choice("xy"),
            dice.choice([None, 1, 2, 3, 4]),
            dice.choice([True, False, False, None]),
        )


def drawn(name: str, least: int, most: int) -> int:
    """Return a random parameter of a query, always the same for its name."""
    return random.Random(name).randint(least, most)


def answers_of_spark(law: Law, spark: SparkSession) -> Answers:
    """Run the script of a law on Spark, without generated code."""
    with interpreting(spark):
        return answers(SparkRuns(spark=spark).factory()(case_of(law)), law.script())


def check(law: Law, found: Answers) -> None:
    """Check that Spark and the oracle agree at each step, with windows and late rows."""
    expected = answers(OracleEngine(case_of(law)), law.script())
    *before, _ = expected.steps
    assert sum(bool(step.emitted) for step in before) > 1, "windows close before the drain"
    if "allowed_lateness" in law.settings:
        assert any(step.late for step in before), "a law about late rows needs some"
    for number, (step, wanted) in enumerate(zip(found.steps, expected.steps, strict=True)):
        assert step.emitted == wanted.emitted, f"step {number}"
        assert step.late == wanted.late, f"step {number}"
        assert step.others == wanted.others, f"step {number}"
    watermarks = [step.watermark_us for step in expected.steps]
    *moved, drained = [step.watermark_us for step in found.steps]
    assert moved == watermarks[:-1]
    # A drain moves it past all rows that it removes, including those without a window.
    assert drained >= watermarks[-1]
    assert found.counts == expected.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The output of a step: results, late and other unused rows as sorted texts; the watermark."""

    emitted: list[str]
    late: list[str]
    others: list[str]
    watermark_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The output of each step, and the counters over all steps."""

    steps: list[Step]
    counts: dict[str, int]


def answers(engine: CaseEngine, script: list[tuple[Row, ...]]) -> Answers:
    """Run a script's batches, restart and flush before the last one, then a clock and a drain."""
    with closing(engine):
        seen = []
        for number, rows in enumerate(script):
            # Two batches at each instant, because the clock may stand still.
            clock = START + timedelta(seconds=30 + 3 * (number // 2))
            if number == len(script) - 1:
                engine.stop()
                seen.append(step_of(engine.flush()))
            seen.append(step_of(engine.batch(rows, from_datetime(clock))))
        seen.append(step_of(engine.clock(from_datetime(clock) + 2_500_000)))
        seen.append(step_of(engine.drain()))
        return Answers(steps=seen, counts=dict(engine.counts()))


def step_of(observed: Observed) -> Step:
    """Return the output of a step as texts."""
    late = observed.side.get("late", ())
    return Step(
        emitted=sorted(_text(row) for row in observed.emitted),
        late=sorted(f"{_text(row.original)} by {row.late_by_ms}" for row in late),
        others=sorted(
            f"{_text(row.original)}: {row.reason}"
            for kind, unused in observed.side.items()
            if kind != "late"
            for row in unused
        ),
        watermark_us=observed.watermark_us,
    )


def _text(row: Mapping[str, object]) -> str:
    return str({name: str(value) for name, value in sorted(row.items())})


def case_of(law: Law) -> Case:
    """Return the query as a case without steps."""
    return Case(
        path="", line=0, name="", stream=STREAM, tables=(), any_cuts=False, query=law.query,
        settings={**law.settings, "streaming_aggregation": law.path}, ordered=False, steps=(),
        final=None, counts={}, error=None,
    )  # fmt: skip
