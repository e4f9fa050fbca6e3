"""Queries that read the results of queries, run step by step without a streaming query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tidegate as tg
from tidegate.api import starting
from tidegate.api.starting import Wanted
from tidegate.engine.stepper import Stepper
from tidegate.spark.isolation import in_session, private_session
from tidegate.state.batch import SparkBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.api.chain import Attached

SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT"
# A row: the second of its time, its key and its value.
Row = tuple[int, str, int]
HOUR_US = 3_600_000_000
CLOCK_US = 100 * HOUR_US


class Kept:
    """A sink that keeps the rows of each epoch, and can fail once."""

    reads_once = True

    def __init__(self) -> None:
        self.epochs: dict[int, list[tuple[Any, ...]]] = {}
        self.writes = 0
        self.fails = False
        self.schema: Any = None

    def write(self, frame: DataFrame, epoch: int) -> None:
        if self.fails:
            self.fails = False
            raise OSError("the disk is full")
        self.writes += 1
        self.schema = frame.schema
        self.epochs[epoch] = sorted((tuple(row) for row in frame.collect()), key=repr)

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for epoch in sorted(self.epochs) for row in self.epochs[epoch]]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A query that reads the results of another one."""

    query: tg.Query
    folder: Path
    sink: Kept = field(default_factory=Kept)
    reports: list[tg.BatchReport] = field(default_factory=list)
    readers: Sequence[Reader] = ()

    def attach(self) -> Attached:
        return self.query.attach(
            sink=self.sink,
            checkpoint=self.folder,
            on_batch=self.reports.append,
            downstream=[each.attach() for each in self.readers],
        )


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A query over rows of ``SCHEMA`` and those that read its results."""

    query: tg.Query
    folder: Path
    sink: Kept = field(default_factory=Kept)
    reports: list[tg.BatchReport] = field(default_factory=list)

    def start(self, *readers: Reader) -> Running:
        """Start it, as after a crash."""
        wanted = Wanted(
            sink=self.sink,
            sides=dict.fromkeys(("late", "evicted", "errors", "duplicates")),
            checkpoint=str(self.folder),
            downstream=tuple(each.attach() for each in readers),
        )
        spark = private_session(self.query.spark)
        targets = starting._targets(self.query, wanted)
        job = starting._ready(self.query, targets, wanted.downstream).job
        return Running(self, Stepper(job, str(self.folder), spark, self._told), spark)

    def _told(self, report: tg.BatchReport, _: object) -> None:
        self.reports.append(report)


@dataclass(frozen=True)
class Running:
    """A chain that has been started."""

    chain: Chain
    stepper: Stepper
    spark: SparkSession

    def batch(
        self, number: int, rows: Sequence[Row], clock_us: int = CLOCK_US
    ) -> tg.BatchReport | None:
        """Run a batch; without rows only time passes."""
        batch = SparkBatch(
            batch_id=number, clock_us=clock_us, query_id="q", offsets_hash=f"o{number}-{len(rows)}"
        )
        return self.stepper.run(batch, self._prepared(rows) if rows else None)

    def _prepared(self, rows: Sequence[Row]) -> DataFrame:
        frame = frame_of(self.spark, rows)
        query = self.chain.query
        return in_session(query._prepare({"r": in_session(frame, query._session)}), self.spark)


def frame_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    values = ", ".join(f"(timestamp_seconds({s}), '{k}', {v}L)" for s, k, v in rows)
    return spark.sql(f"SELECT * FROM VALUES {values} AS rows(ts, k, v)")


def first(spark: SparkSession, sql: str, settings: Mapping[str, object] | None = None) -> tg.Query:
    """Return a query over rows of ``SCHEMA``."""
    own = {"event_time_field": "ts"} if settings is None else settings
    return tg.sql(sql, streams={"r": SCHEMA}, settings=own, spark=spark)
