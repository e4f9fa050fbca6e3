"""Runs a query over files that are written for it, one for each batch; returns what they did."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.rounds import Harness
    from tidegate.metrics.report import BatchReport

# Modification times of the files, in whose order they are read.
FIRST_MODIFIED = 1_700_000_000

# Small row groups, so that both cores can read the one file of a batch.
ROW_GROUP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches of a run.

    Attributes:
        reports: one for each.
        ended: the times at which they had ended, in seconds.
    """

    reports: Sequence[BatchReport]
    ended: Sequence[float]

    @property
    def intervals_ms(self) -> list[float]:
        """From the end of the batch before to the end of this one, from the second batch on.

        A batch that is finished beside the next one lasts longer than that.
        """
        return [1_000 * (end - before) for before, end in pairwise(self.ended)]


def batches_of(
    harness: Harness,
    sql: str,
    schema: str,
    settings: Mapping[str, str],
    batches: Callable[[SparkSession], Iterable[DataFrame]],
) -> Batches:
    """Return the batches of a query that reads the stream ``events``.

    Args:
        harness: the benchmark's.
        sql: the statement.
        schema: the columns of ``events``, as DDL.
        settings: the settings of the query.
        batches: returns the rows of each batch, each in one partition.
    """
    folder = Path(tempfile.mkdtemp(prefix="batches-", dir=harness.scratch))
    try:
        (folder / "in").mkdir()
        for number, rows in enumerate(batches(harness.spark)):
            _write(rows, folder, number)
        events = (
            harness.spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in"))
        )
        reports: list[BatchReport] = []
        ended: list[float] = []

        def note(report: BatchReport) -> None:
            reports.append(report)
            ended.append(time.monotonic())

        run = tg.sql(sql, settings=settings, streams={"events": events}).start(
            sink=str(folder / "out"),
            checkpoint=str(folder / "checkpoint"),
            once=True,
            on_batch=note,
        )
        run.await_termination()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Batches(reports=reports, ended=ended)


def _write(rows: DataFrame, folder: Path, number: int) -> None:
    parts = folder / "parts"
    writer = rows.coalesce(1).write.mode("overwrite")
    writer.option("parquet.block.size", ROW_GROUP_BYTES).parquet(str(parts))
    (part,) = parts.glob("part-*.parquet")
    moved = part.rename(folder / "in" / f"{number:03}.parquet")
    os.utime(moved, (FIRST_MODIFIED + number,) * 2)
