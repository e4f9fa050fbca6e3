"""What Spark's file source costs after a day of one-second files, which it never forgets.

Spark notes each file that it has read in a log of its own (``sources/0``), writes all of that log
anew every ten batches, and lists the folder in each batch. So the log is written here as it would
be after a day.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg
from bench.report import Table
from bench.rounds import Harness, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_MODIFIED = 1_700_000_000
# The log is complete, as one file, after so many batches: Spark compacts it every ten.
COMPACTED = 20
BATCHES = 40
SQL = "SELECT count(*) AS n FROM r GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Batches after so many files; times in ms, those that write the log anew apart."""

    label: str
    others_ms: Sequence[int]
    compacting_ms: Sequence[int]
    listing_ms: Sequence[int]


def file_source(harness: Harness, files: int) -> Table:
    """Return what batches take after few files, and after so many, there still or moved away."""
    found = [
        _measured(harness, "few files", 0, kept=False),
        _measured(harness, f"{files:,} files, since moved away", files, kept=False),
        _measured(harness, f"{files:,} files in the folder", files, kept=True),
    ]
    return Table(
        title=f"day: Spark's file source after so many files, medians of {BATCHES} batches",
        header=["", "ms a batch", "ms if it compacts", "of it listing"],
        rows=[
            [
                each.label,
                *(
                    f"{statistics.median(times):.0f}"
                    for times in (each.others_ms, each.compacting_ms, each.listing_ms)
                ),
            ]
            for each in found
        ],
    )


def _measured(harness: Harness, label: str, files: int, *, kept: bool) -> Files:
    folder = Path(tempfile.mkdtemp(prefix="day-files-", dir=harness.scratch))
    spark = harness.spark
    try:
        source = folder / "in"
        source.mkdir()
        _run(spark, folder, range(COMPACTED))
        log = folder / "checkpoint" / "sources" / "0" / f"{COMPACTED - 1}.compact"
        _pretend(log, source, range(COMPACTED, COMPACTED + files), kept=kept)
        first = COMPACTED + files
        batches = _run(spark, folder, range(first, first + BATCHES))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = Files(
        label=label,
        others_ms=[each["triggerExecution"] for number, each in batches if (number + 1) % 10],
        compacting_ms=[
            each["triggerExecution"] for number, each in batches if not (number + 1) % 10
        ],
        listing_ms=[each.get("latestOffset", 0) for _, each in batches],
    )
    progress(f"day: file source, {label}: {statistics.median(found.others_ms):.0f} ms a batch")
    return found


def _run(spark: SparkSession, folder: Path, numbers: range) -> list[tuple[int, dict[str, int]]]:
    """Add files, each when the one before has been read; return the batches and their durations."""
    done, coming = threading.Event(), iter(numbers)

    def add_next(_: object = None) -> None:
        number = next(coming, None)
        if number is None:
            done.set()
        else:
            _add(folder / "in", [number])

    add_next()
    rows = spark.readStream.schema("ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    run = tg.sql(
        SQL,
        settings={"event_time_field": "ts"},
        streams={"r": rows.json(str(folder / "in"))},
    ).start(sink=str(folder / "out"), checkpoint=str(folder / "checkpoint"), on_batch=add_next)
    while not done.wait(timeout=1):
        assert run.query.isActive, run.query.exception()
    run.stop()
    return [
        (each["batchId"], dict(each["durationMs"]))
        for each in run.query.recentProgress
        if each["numInputRows"]
    ]


def _add(source: Path, numbers: Iterable[int]) -> None:
    for number in numbers:
        file = source / f"{number:06}.json"
        minutes, second = divmod(number, 60)
        hour, minute = divmod(minutes, 60)
        day, hour = divmod(hour, 24)
        file.write_text(
            json.dumps({"ts": f"2026-01-{1 + day:02} {hour:02}:{minute:02}:{second:02}"})
        )
        os.utime(file, (FIRST_MODIFIED + number,) * 2)


def _pretend(log: Path, source: Path, numbers: range, *, kept: bool) -> None:
    """Add files to Spark's log as if they had been read."""
    lines = log.read_text().splitlines()
    like = json.loads(lines[-1])
    lines += [
        json.dumps(
            {
                **like,
                # Not of the last batch, which Spark may run again.
                "batchId": 0,
                "path": f"file://{source}/{number:06}.json",
                "timestamp": (FIRST_MODIFIED + number) * 1_000,
            }
        )
        for number in numbers
    ]
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    log.write_text("\n".join(lines))
    if kept:
        _add(source, numbers)
