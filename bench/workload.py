"""The rows of the benchmarks: generated once by Spark, kept as Parquet under ``bench/.cache``.

A workload computes event time, key and value of a row from its number, so rows are the same on
every machine. Files hold consecutive rows and have increasing modification times, the order in
which a file source reads them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CACHE = Path(__file__).parent / ".cache"
SCHEMA = "ts TIMESTAMP, key INT, value DOUBLE"

# 2026-01-01T00:00:00Z, a multiple of every window size used here.
FIRST_EVENT_TIME_US = 1_767_225_600_000_000

# Small row groups, so that both cores can read the one file of a micro-batch.
ROW_GROUP_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """``rows`` rows in ``files`` equal files over ``span_seconds`` of event time.

    ``key`` and ``value`` are Spark SQL over the row number ``id``. Event times rise evenly with the
    row number, plus a pseudo-random jitter below ``jitter_us``; ``event_time_us`` (Spark SQL over
    ``id``, microseconds after the start) replaces them. With ``closing_row_after_seconds`` a last
    file has one row that long after the end of the span.
    """

    name: str
    rows: int
    files: int
    span_seconds: int
    jitter_us: int = 0
    key: str = "pmod(xxhash64(id, 'key'), 10000)"
    # Multiples of 0.25: their sums are exact in a DOUBLE, in any order.
    value: str = "pmod(xxhash64(id, 'value'), 40000) / 4D"
    event_time_us: str | None = None
    closing_row_after_seconds: int | None = None

    @property
    def folder(self) -> Path:
        """The folder of the rows; its name depends on everything that determines them."""
        shape = f"{sorted(asdict(self).items())} {FIRST_EVENT_TIME_US} {ROW_GROUP_BYTES}"
        return CACHE / f"{self.name}-{self.rows}-{hashlib.sha256(shape.encode()).hexdigest()[:10]}"


def generate(spark: SparkSession, workload: Workload, folder: Path | None = None) -> Path:
    """Write the workload to a folder, by default that of the cache, unless it is there already."""
    folder = folder or workload.folder
    if folder.exists():
        return folder
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    parts = unfinished / "parts"
    rows = spark.range(0, workload.rows, 1, workload.files).selectExpr(
        f"timestamp_micros({FIRST_EVENT_TIME_US} + {_event_time_us(workload)}) AS ts",
        f"CAST({workload.key} AS INT) AS key",
        f"CAST({workload.value} AS DOUBLE) AS value",
    )
    _write(rows, parts)
    files = sorted(parts.glob("part-*.parquet"))
    assert len(files) == workload.files, f"{len(files)} files for {workload.files} partitions"
    if workload.closing_row_after_seconds is not None:
        files.append(_closing_file(spark, workload, unfinished / "closing"))
    for index, file in enumerate(files):
        target = unfinished / f"events-{index:05d}.parquet"
        file.rename(target)
        modified = FIRST_EVENT_TIME_US // 1_000_000 + index
        os.utime(target, (modified, modified))
    shutil.rmtree(parts)
    shutil.rmtree(unfinished / "closing", ignore_errors=True)
    unfinished.rename(folder)
    return folder


def read_stream(spark: SparkSession, folder: Path, files: int = 1) -> DataFrame:
    """Return the folder as a stream, so many files a micro-batch, oldest file first."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", files)
        .option("pathGlobFilter", "*.parquet")
        .parquet(str(folder))
    )


def read_table(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the folder as a table."""
    return spark.read.schema(SCHEMA).parquet(str(folder))


def greatest_event_time_us(spark: SparkSession, folder: Path) -> int:
    """Return the greatest event time of the folder, in microseconds since 1970."""
    row = read_table(spark, folder).selectExpr("max(unix_micros(ts))").first()
    assert row is not None, f"{folder} holds no rows"
    return int(row[0])


def _event_time_us(workload: Workload) -> str:
    if workload.event_time_us is not None:
        return f"({workload.event_time_us})"
    even = f"(id * {workload.span_seconds * 1_000_000}L DIV {workload.rows}L)"
    if workload.jitter_us == 0:
        return even
    return f"{even} + pmod(xxhash64(id, 'jitter'), {workload.jitter_us}L)"


def _closing_file(spark: SparkSession, workload: Workload, folder: Path) -> Path:
    assert workload.closing_row_after_seconds is not None
    seconds = workload.span_seconds + workload.closing_row_after_seconds
    closing_row = spark.range(0, 1, 1, 1).selectExpr(
        f"timestamp_micros({FIRST_EVENT_TIME_US} + {seconds * 1_000_000}L) AS ts",
        "CAST(0 AS INT) AS key",
        "CAST(0 AS DOUBLE) AS value",
    )
    _write(closing_row, folder)
    (file,) = folder.glob("part-*.parquet")
    return file


def _write(rows: DataFrame, folder: Path) -> None:
    setting = "spark.sql.parquet.outputTimestampType"
    before = str(rows.sparkSession.conf.get(setting))
    # Spark's default is INT96, a deprecated type; other writers of Parquet use this one.
    rows.sparkSession.conf.set(setting, "TIMESTAMP_MICROS")
    try:
        rows.write.option("parquet.block.size", ROW_GROUP_BYTES).parquet(str(folder))
    finally:
        rows.sparkSession.conf.set(setting, before)
