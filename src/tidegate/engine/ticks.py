"""Ticks: they let time pass for a query when no rows come.

Spark calls ``foreachBatch`` only when a source has moved on. A plan that must meet deadlines by the
clock therefore has one source more: a ``rate`` stream, which moves on every second. It has no rows:
its rate would reach one a second after ten thousand years. So a tick is a batch, and nothing in it.

Spark ties a checkpoint to the number of sources. So the ticks are there under every trigger; a run
that takes what there is would become a single batch, since a rate stream cannot tell where it will
be, unless Spark is told to read that once and keep to it (``AVAILABLE_NOW``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tidegate.engine.offsets import PlannedBatch, SparkProgress
from tidegate.errors import StateError
from tidegate.spark.files import file_manager

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.plan.physical import PhysicalPlan

# Lets a run over what there is take several batches although one source is a rate stream.
AVAILABLE_NOW = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"

_NEVER = "300000000000s"


def with_ticks(rows: DataFrame) -> DataFrame:
    """Return prepared rows with a tick each second among their batches."""
    ticks = (
        rows.sparkSession.readStream.format("rate")
        .option("rampUpTime", _NEVER)
        .option("numPartitions", 1)
        .load()
    )
    return rows.unionByName(ticks.select(), allowMissingColumns=True)


def with_sources_of(
    checkpoint: str, rows: DataFrame, plan: PhysicalPlan
) -> tuple[DataFrame, PlannedBatch | None]:
    """Return prepared rows with ticks if the plan or the checkpoint has them, and the last batch.

    Raises:
        StateError: the checkpoint has other sources than the query.
    """
    progress = SparkProgress(rows.sparkSession, checkpoint)
    last = progress.newest()
    if last is None:
        progress.sweep()
    ticking = plan.needs_ticks
    own = _count_sources(rows)
    there = own + ticking if last is None else len(last.offsets)
    # A plan that needs no ticks any more keeps those of its checkpoint.
    if there not in (own + ticking, own + 1):
        raise StateError(_refusal(checkpoint, there=there, own=own, ticking=ticking))
    return (with_ticks(rows) if there > own else rows), last


def _refusal(checkpoint: str, *, there: int, own: int, ticking: bool) -> str:
    if ticking and there == own:
        return (
            f"checkpoint {checkpoint} was written without ticks, which the query needs now\n\n"
            "Windows that time alone can close (idle_timeout, processing time) take a source of "
            "ticks, and Spark cannot add a source to a checkpoint. Leave idle_timeout out, or end "
            "the old query with stop(drain=True) or --drain and start this one with a new "
            "checkpoint."
        )
    return (
        f"checkpoint {checkpoint} was written by a query that reads {there} "
        f"{'source' if there == 1 else 'sources'}; this one reads {own + ticking}, ticks included"
        "\n\nSpark cannot add a source to a checkpoint or remove one. Start the query with the "
        "sources it had, or with a new checkpoint."
    )


def _count_sources(rows: DataFrame) -> int:
    """How many streams are read; it is Spark's number of offsets in a checkpoint."""
    leaves: Any = rows._jdf.queryExecution().analyzed().collectLeaves()
    jvm: Any = rows.sparkSession._jvm
    # What is read in two places is one source, as for Spark.
    streams = jvm.java.util.HashSet()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        # A reference to a part of the WITH clause is a leaf too, and what it refers to is another.
        if leaf.isStreaming() and leaf.nodeName() != "CTERelationRef":
            streams.add(leaf)
    return int(streams.size())


def turn_back_ticks(spark: SparkSession, checkpoint: str, last: PlannedBatch | None) -> None:
    """Let ticks go on from where they were, where the machine's clock has gone back since.

    A rate stream counts the seconds since it was first started. Were they fewer than the checkpoint
    says, Spark would fail; so its start is moved back by as much.

    Args:
        spark: any session.
        checkpoint: the checkpoint of a query that has ticks.
        last: the newest batch in it.
    """
    if last is None or not last.offsets[-1].isdecimal():
        return
    seconds = int(last.offsets[-1])
    folder = f"{checkpoint.rstrip('/')}/sources/{len(last.offsets) - 1}"
    files = file_manager(spark, folder)
    assert spark._jvm is not None, "a running session has a JVM"
    path: Any = spark._jvm.org.apache.hadoop.fs.Path(f"{folder}/0")
    latest_start_ms = time.time_ns() // 1_000_000 - seconds * 1_000
    if files.exists(path):
        stream = files.open(path)
        try:
            started = bytes(stream.readAllBytes()).decode().removeprefix("v1\n")
        finally:
            stream.close()
        # A file that was cut short is written anew, too.
        if started.isdecimal() and int(started) <= latest_start_ms:
            return
        # Not every file system can put a file in the place of another. After a crash between here
        # and there the next start writes the file.
        files.delete(path)
    writer = files.createAtomic(path, False)
    try:
        writer.write(bytearray(f"v1\n{latest_start_ms}".encode()))
    except BaseException:
        writer.cancel()
        raise
    writer.close()
