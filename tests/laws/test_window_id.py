"""``window_id()``: no two windows share one, and a replayed batch yields the same ones.

Each batch runs twice: it is killed before its manifest is written, then run by a query restarted
with another number of partitions. Rows have few different times, so that windows have equal bounds
within a partition, across partitions and across batches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

import tidegate
from side_by_side import dealt
from tidegate.connectors.sinks import MemorySink
from tidegate.engine.job import Outlets
from tidegate.engine.stepper import Stepper
from tidegate.state.batch import SparkBatch
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from tidegate.api.query import Query
    from tidegate.metrics.report import BatchReport

SCHEMA = "ts TIMESTAMP, k STRING, page STRING, v BIGINT"
SHOWN = "window_id() AS id, window_start() AS s, window_end() AS e"
KEYED = f"SELECT k, count(*) AS n, {SHOWN} FROM r GROUP BY"
# By kind: the statement, and the columns that name a window. A session belongs to its key, and
# those of two keys may have the same id.
KINDS = {
    "tumbling": (f"{KEYED} tumblingwindow('ss', 2), k", ("id",)),
    "hopping": (f"{KEYED} hoppingwindow('ss', 3, 2), k", ("id",)),
    "cumulate": (f"{KEYED} cumulatewindow('ss', 4, 2), k", ("id",)),
    "session": (f"{KEYED} sessionwindow('ms', 250), k", ("id", "k")),
    "sliding at once": (f"SELECT v, {SHOWN} FROM r GROUP BY slidingwindow('ss', 1)", ("id",)),
    "sliding with groups": (
        f"SELECT page, count(*) AS n, {SHOWN} FROM r "
        "GROUP BY slidingwindow('ss', 1, 2) OVER (PARTITION BY k WHEN v > 0), page",
        ("id",),
    ),
    "state": (f"{KEYED} statewindow(v > 1, v <> 2) OVER (PARTITION BY k), k", ("id",)),
    "count": (
        f"SELECT count(*) AS n, {SHOWN} FROM r GROUP BY countwindow(3, 2) OVER (PARTITION BY k)",
        ("id",),
    ),
    "count by the clock": (f"{KEYED} countwindow(2), k", ("id",)),
}
# How the stream ends, for kinds whose last windows no batch closes.
ENDS = {"state": "flush", "count": "drain"}
EVENT_TIME = {"event_time_field": "ts", "watermark_lag": "1s"}
# The clock stands still, so that in processing time all windows have equal bounds.
CLOCK_US = 4_000_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """A query over a checkpoint, restarted for every step with another number of partitions."""

    query: Query
    checkpoint: Path
    partitions: list[int] = field(default_factory=lambda: [3, 2, 5, 1, 4, 2])

    def batch(self, rows: DataFrame) -> tuple[list[Row], BatchReport]:
        """Run a batch; return its output."""
        stepper, sink = self._started()
        report = stepper.run(next_batch(stepper), self._prepared(rows))
        assert report is not None, "no manifest has the batch yet"
        return sink.rows(), report

    def killed(self, rows: DataFrame) -> list[Row]:
        """Run a batch that is killed before it writes its manifest; return its output."""
        stepper, sink = self._started()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StateStore, "commit", _killed)
            with pytest.raises(_Killed):
                stepper.run(next_batch(stepper), self._prepared(rows))
        return sink.rows()

    def end(self, name: str) -> tuple[list[Row], BatchReport]:
        """Flush or drain; return the output."""
        stepper, sink = self._started()
        report = getattr(stepper, name)()
        return sink.rows(), report

    def _started(self) -> tuple[Stepper, MemorySink]:
        query, sink = self.query, MemorySink()
        empty = query._prepare(query.given.empty(query.spark))
        job = query._job(empty, Outlets(results=sink), self.partitions.pop())
        return Stepper(job, str(self.checkpoint), query._session), sink

    def _prepared(self, rows: DataFrame) -> DataFrame:
        return self.query._prepare({"r": rows})


class _Killed(Exception):
    """The process died."""


def _killed(*_: object) -> None:
    raise _Killed


@pytest.mark.parametrize("kind", dealt(KINDS, ("hopping", "session", "count")))
def test_no_two_windows_share_an_id_and_a_replay_gives_the_same_ones(
    kind: str, interpreted: SparkSession, tmp_path: Path
) -> None:
    spark = interpreted
    statement, named_by = KINDS[kind]
    settings = {} if kind == "count by the clock" else EVENT_TIME
    query = tidegate.sql(statement, streams={"r": SCHEMA}, settings=settings, spark=spark)
    restarts = Restarts(query=query, checkpoint=tmp_path)

    steps = [restarts.batch(rows_of(spark, 0))]
    killed = restarts.killed(rows_of(spark, 1))
    replayed, report = restarts.batch(rows_of(spark, 1))
    assert sorted(killed, key=repr) == sorted(replayed, key=repr)
    steps.append((replayed, report))
    if kind in ENDS:
        steps.append(restarts.end(ENDS[kind]))

    known: set[tuple[str, ...]] = set()
    for rows, report in steps:
        named = {tuple(row[name] for name in named_by) for row in rows}
        with_bounds = {(*(row[name] for name in named_by), row["s"], row["e"]) for row in rows}
        assert len(named) == len(with_bounds) == report.closed_windows
        assert not known & named, "an id came again in a later step"
        assert {len(row["id"]) for row in rows} <= {32}
        known |= named
    assert all(steps[1]), "the replayed batch has closed windows"
    assert len(known) >= 3


def next_batch(stepper: Stepper) -> SparkBatch:
    return SparkBatch(batch_id=stepper.state.batch_id + 1, clock_us=CLOCK_US)


def rows_of(spark: SparkSession, seed: int) -> DataFrame:
    """Return forty rows of six seconds around 1970; most of their times occur twice."""
    dice = random.Random(seed)
    rows = [
        (
            dice.randint(-8, 4) * 500 + seed * 2_000,
            dice.choice(["NULL", "'a'", "'b'"]),
            dice.choice(["'x'", "'y'"]),
            dice.randint(0, 3),
        )
        for _ in range(40)
    ]
    values = ", ".join(f"(timestamp_millis({ms}L), {k}, {page}, {v}L)" for ms, k, page, v in rows)
    return spark.sql(f"SELECT * FROM VALUES {values} AS rows(ts, k, page, v)")
