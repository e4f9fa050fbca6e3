"""Tables of the benchmarks beside Flink: computed by Spark from row numbers, kept as Parquet.

Times are in milliseconds, the finest that Flink's event time has, and are stored as such, so that
both engines read them as they are. A table has many files, in the order of time. A micro-batch is
several of them, and both engines can read two at once without running far apart in event time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.workload import CACHE, FIRST_EVENT_TIME_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_EVENT_TIME_MS = FIRST_EVENT_TIME_US // 1_000

# Types of Spark SQL, with those of Flink that have the same values.
FLINK_TYPES = {
    "INT": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "TIMESTAMP": "TIMESTAMP_LTZ(3)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``rows`` rows in ``files`` files, of which ``files_a_batch`` are a micro-batch.

    ``columns`` maps a name to a type (a key of ``FLINK_TYPES``) and Spark SQL over the row's number
    ``id`` and ``event``, which is Spark SQL over ``id`` in turn. Event time is the column ``ts``.
    """

    name: str
    rows: int
    event: str = "id"
    columns: Mapping[str, tuple[str, str]]
    files: int = 64
    files_a_batch: int = 8

    @property
    def schema(self) -> str:
        """The columns as DDL of Spark."""
        return ", ".join(f"{name} {kind}" for name, (kind, _) in self.columns.items())

    @property
    def flink_schema(self) -> str:
        """The columns as DDL of Flink."""
        columns = self.columns.items()
        return ", ".join(f"`{name}` {FLINK_TYPES[kind]}" for name, (kind, _) in columns)

    @property
    def folder(self) -> Path:
        """The folder of the rows; its name depends on everything that determines them."""
        shape = f"{self.event} {list(self.columns.items())} {self.files}"
        digest = hashlib.sha256(shape.encode()).hexdigest()[:10]
        return CACHE / f"{self.name}-{self.rows}-{digest}"

    def compute(self, spark: SparkSession) -> DataFrame:
        """Return the rows, in the order of their numbers."""
        ids = spark.range(0, self.rows, 1, self.files)
        numbers = ids.selectExpr("id", f"{self.event} AS event")
        columns = self.columns.items()
        return numbers.selectExpr(
            *(f"CAST({text} AS {kind}) AS {name}" for name, (kind, text) in columns)
        )

    def write(self, spark: SparkSession) -> Path:
        """Write the rows unless they are cached; return their folder."""
        if self.folder.exists():
            return self.folder
        unfinished = self.folder.with_name(self.folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _write(self.compute(spark), unfinished / "parts")
        parts = sorted((unfinished / "parts").glob("part-*.parquet"))
        assert len(parts) == self.files, f"{len(parts)} files for {self.files} partitions"
        for number, part in enumerate(parts):
            file = part.rename(unfinished / f"{number:05}.parquet")
            modified = FIRST_EVENT_TIME_US // 1_000_000 + number
            os.utime(file, (modified, modified))
        shutil.rmtree(unfinished / "parts")
        unfinished.rename(self.folder)
        return self.folder

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a stream, in the order of time."""
        reader = spark.readStream.schema(self.schema)
        return reader.option("maxFilesPerTrigger", self.files_a_batch).parquet(str(self.folder))

    def table(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a table."""
        return spark.read.schema(self.schema).parquet(str(self.folder))


def milliseconds(text: str) -> str:
    """Return Spark SQL for the event time so many milliseconds after the first one."""
    return f"timestamp_millis({FIRST_EVENT_TIME_MS}L + {text})"


def _write(rows: DataFrame, folder: Path) -> None:
    setting = "spark.sql.parquet.outputTimestampType"
    before = str(rows.sparkSession.conf.get(setting))
    rows.sparkSession.conf.set(setting, "TIMESTAMP_MILLIS")
    try:
        rows.write.parquet(str(folder))
    finally:
        rows.sparkSession.conf.set(setting, before)
