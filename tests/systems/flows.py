"""A small query over files, which a test may crash anywhere and start again on its checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "ts TIMESTAMP, user STRING, v BIGINT"
SQL = """
    SELECT user, count(*) AS n, sum(v) AS total, window_start() AS s
    FROM r GROUP BY tumblingwindow('ss', 10), user ON ts WATERMARK (INTERVAL '0' SECOND)
"""


class Crash(Exception):
    """Raised in the place of a fault."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Rows in files, one file a batch, and a query over them.

    Attributes:
        folder: for the files and the checkpoint.
        sql: the statement, over ``r``.
        schema: the columns of the rows.
    """

    folder: Path
    sql: str = SQL
    schema: str = SCHEMA

    def add(self, rows: Iterable[dict[str, object]]) -> None:
        """Add a file, which makes a batch."""
        folder = self.folder / "in"
        folder.mkdir(exist_ok=True)
        number = len(list(folder.iterdir()))
        file = folder / f"{number:04}.json"
        file.write_text("\n".join(json.dumps(row) for row in rows))
        os.utime(file, (1_700_000_000 + number,) * 2)

    def query(self, spark: SparkSession) -> tidegate.Query:
        reader = spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return tidegate.sql(self.sql, streams={"r": reader.json(str(self.folder / "in"))})

    def run(self, spark: SparkSession, sink: object, *, drain: bool = False, **more: object):
        """Process all files that are there.

        Raises:
            ExecutionError: a batch failed.
        """
        run = self.query(spark).start(
            sink=sink, checkpoint=str(self.folder / "checkpoint"), once=True, **more
        )
        run.await_termination()
        if drain:
            run.stop(drain=True)
        return run


def crashing(monkeypatch: pytest.MonkeyPatch, place: str, epochs: Iterable[int]) -> list[int]:
    """Make a step fail at a place (``engine/faults.py``), once in each of some epochs.

    Returns:
        The epochs in which it has not failed yet.
    """
    left = list(epochs)

    def fail(at: str, epoch: int) -> None:
        if at == place and epoch in left:
            left.remove(epoch)
            raise Crash(f"{place} in epoch {epoch}")

    monkeypatch.setattr("tidegate.engine.step.fault_point", fail)
    return left


def clicks(minute: int, *users: str) -> list[dict[str, object]]:
    """Return a row for each user, one second apart, from the start of a minute."""
    return [
        {"ts": f"2026-01-01T10:{minute:02}:{second:02}Z", "user": user, "v": second}
        for second, user in enumerate(users)
    ]
