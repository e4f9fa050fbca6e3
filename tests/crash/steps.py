"""Queries driven step by step over a checkpoint, with sinks that can fail where a test wants it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tidegate
from tidegate.engine.faults import FAULT_POINTS
from tidegate.engine.job import Outlets
from tidegate.engine.stepper import Stepper
from tidegate.spark.isolation import in_session
from tidegate.state.batch import SparkBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.metrics.report import BatchReport

CLOCK_US = 4_000_000_000_000_000
SQL = """
    SELECT k, count(*) AS n, sum(v) AS total, window_start() AS s
    FROM r GROUP BY tumblingwindow('ss', 10), k
"""
SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT"

# Seconds and values of each batch: the first closes nothing, each later one closes a window.
BATCHES = (((1, 1), (2, 2), (9, 3)), ((4, 4), (12, 5), (21, 6)), ((25, 7), (33, 8)))


# Where a step can be killed that is not finished beside the next one.
POINTS = tuple(point for point in FAULT_POINTS if point != "after_taken")


class Failed(Exception):
    """A sink or a process that is made to fail."""


@dataclass(kw_only=True)
class Target:
    """What sinks have written: the rows of each epoch, replaced as a sink of files does."""

    epochs: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    opened: list[tuple[str, int | None]] = field(default_factory=list)
    # Called after the rows of an epoch have been written.
    then: Callable[[int], object] = lambda _: None

    def open(self, owner: str, newest_epoch: int | None) -> None:
        self.opened.append((owner, newest_epoch))
        for epoch in [each for each in self.epochs if newest_epoch is None or each > newest_epoch]:
            del self.epochs[epoch]

    def write(self, frame: DataFrame, epoch: int) -> None:
        self.epochs[epoch] = sorted((tuple(row) for row in frame.collect()), key=repr)
        self.then(epoch)

    def totals(self) -> list[int]:
        return sorted(row[2] for rows in self.epochs.values() for row in rows)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A query, its checkpoint and its target."""

    spark: SparkSession
    checkpoint: Path
    target: Target = field(default_factory=Target)
    sql: str = SQL
    schema: str = SCHEMA
    settings: dict[str, str] = field(default_factory=lambda: {"event_time_field": "ts"})
    reports: list[BatchReport] = field(default_factory=list)

    def start(self, target: Target | None = None, **settings: str) -> Stepper:
        """Start the query, as after a crash."""
        query = tidegate.sql(
            self.sql,
            streams={"r": self.schema},
            settings={**self.settings, **settings},
            spark=self.spark,
        )
        empty = query._prepare(query.given.empty(self.spark))
        job = query._job(empty, Outlets(results=target or self.target), 2)
        return Stepper(job, str(self.checkpoint), self.spark, self.taken)

    def taken(self, report: BatchReport, shards: object) -> None:
        """Keep the report of a step."""
        del shards
        self.reports.append(report)

    def run(self, stepper: Stepper, number: int, **spark: str) -> object:
        """Run one of ``BATCHES``."""
        batch = SparkBatch(
            **{
                "batch_id": number,
                "clock_us": CLOCK_US,
                "query_id": "q",
                "offsets_hash": f"o{number}",
                **spark,
            }
        )
        return stepper.run(batch, self.prepared(self.rows(number)))

    def rows(self, number: int) -> DataFrame:
        values = ", ".join(
            f"(timestamp_seconds({second}), 'a', {value}L)" for second, value in BATCHES[number]
        )
        return self.spark.sql(f"SELECT * FROM VALUES {values} AS rows(ts, k, v)")

    def prepared(self, rows: DataFrame) -> DataFrame:
        query = tidegate.sql(self.sql, settings=self.settings, spark=self.spark, r=rows)
        return in_session(query._prepare({"r": rows}), self.spark)

    def tree(self) -> dict[str, int]:
        """Every file of the checkpoint and its size."""
        return {
            str(path.relative_to(self.checkpoint)): path.stat().st_size
            for path in self.checkpoint.rglob("*")
            if path.is_file()
        }
