"""Are the results of a run those of a batch job of Spark over the same rows?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.flink.contenders import Folders, batch
from bench.flink.questions import Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Digest:
    """The number of rows of a result, and the sum of their hashes, which ignores their order."""

    rows: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows (checksum {self.checksum:x})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The number of rows that were compared, and what is wrong with them; empty if nothing is."""

    rows: int
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The right answer to a question.

    Flink and the batch job also close the windows that are open when the input ends, so only those
    that end by ``closed_us`` are compared, the microseconds of the last watermark.
    """

    question: Question
    folder: Path
    closed_us: int
    digest: Digest

    def check(self, spark: SparkSession, results: Path, *, all_rows: bool) -> Checked:
        """Compare results with the right ones.

        Where windows are of the clock, the counts of each person are compared over all windows.
        Unless ``all_rows``, they may be too small: Flink drops the windows of the clock that are
        open when its input ends.
        """
        if self.question.by_clock:
            return self._check_totals(spark, results, all_rows=all_rows)
        found = _digest(spark, self.question, results, self.closed_us)
        if found == self.digest and found.rows:
            return Checked(rows=found.rows)
        return Checked(rows=found.rows, fault=f"{found}, while a batch job has {self.digest}")

    def _check_totals(self, spark: SparkSession, results: Path, *, all_rows: bool) -> Checked:
        right = spark.read.parquet(str(self.folder)).selectExpr("bidder", "n AS right_n")
        found = (
            _read(spark, self.question, results)
            .groupBy("bidder")
            .agg({"n": "sum"})
            .toDF("bidder", "n")
        )
        wrong = "NOT n <=> right_n" if all_rows else "right_n IS NULL OR n > right_n"
        row = (
            right.join(found, "bidder", "full")
            .selectExpr(f"count_if({wrong})", "coalesce(sum(n), 0)")
            .first()
        )
        assert row is not None
        differing, counted = int(row[0]), int(row[1])
        fault = f"{differing:,} bidders have a wrong count" if differing else ""
        if not counted:
            fault = "nothing was counted"
        return Checked(rows=counted, fault=fault)


def expect(spark: SparkSession, question: Question, scratch: Path) -> Expected:
    """Compute the right answer to a question with a batch job, into a folder below ``scratch``."""
    folder = scratch / f"expected-{question.name}"
    batch(spark, question, Folders(results=folder, checkpoint=folder))
    newest = [
        table.table(spark).selectExpr("max(unix_micros(ts))").first() for table in question.tables
    ]
    # A millisecond is the margin of a watermark in milliseconds.
    lag_us = question.lag * 1_000_000 + 1_000
    closed_us = min(int(row[0]) for row in newest if row is not None) - lag_us
    return Expected(
        question=question,
        folder=folder,
        closed_us=closed_us,
        digest=Digest(0, 0) if question.by_clock else _digest(spark, question, folder, closed_us),
    )


def _digest(spark: SparkSession, question: Question, results: Path, closed_us: int) -> Digest:
    columns = ", ".join(_comparable(name, kind) for name, kind in question.columns.items())
    row = (
        _read(spark, question, results)
        .where(f"unix_micros(e) <= {closed_us}")
        .selectExpr("count(*)", f"coalesce(sum(CAST(xxhash64({columns}) AS DECIMAL(38, 0))), 0)")
        .first()
    )
    assert row is not None
    return Digest(int(row[0]), int(row[1]))


def _read(spark: SparkSession, question: Question, results: Path) -> DataFrame:
    """Return the results, none if no file was written."""
    schema = ", ".join(f"{name} {kind}" for name, kind in question.columns.items())
    return spark.read.schema(schema).parquet(str(results))


def _comparable(column: str, kind: str) -> str:
    match kind:
        case "TIMESTAMP":
            return f"unix_micros({column})"
        case "DOUBLE":
            return f"CAST(round({column} * 1000) AS BIGINT)"
        case _:
            return f"CAST({column} AS {kind})"
