"""Ticks: empty batches that let time pass for a query when no rows come.

Spark calls ``foreachBatch`` only when a source has advanced. A plan with deadlines by the clock
therefore gets one more source: a ``rate`` stream, which advances every second. It never has rows:
its ramp-up would reach one row a second after ten thousand years.

By itself a ``rate`` stream counts the seconds of the machine's clock. If that were set back, there
would be no tick until it has caught up. So the stream has a clock of its own (Spark's option
``useManualClock``), which a thread moves on every second (``Ticker``).

Spark ties a checkpoint to the number of sources, so ticks are added under every trigger. A rate
stream cannot say in advance where it will end, so a run with ``once`` would be a single batch,
unless Spark reads its end once at the start (``AVAILABLE_NOW``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from tidegate.engine.offsets import PlannedBatch, SparkProgress
from tidegate.errors import StateError
from tidegate.spark.files import file_manager

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Allows several batches in a run with ``once`` although one source is a rate stream.
AVAILABLE_NOW = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"

_NEVER = "300000000000s"

_TICK_SECONDS = 1.0


def with_ticks(rows: DataFrame) -> DataFrame:
    """Return prepared rows with ticks, one every second."""
    ticks = (
        rows.sparkSession.readStream.format("rate")
        .option("rampUpTime", _NEVER)
        .option("numPartitions", 1)
        .option("useManualClock", True)
        .load()
    )
    return rows.unionByName(ticks.select(), allowMissingColumns=True)


def with_sources_of(checkpoint: str, rows: DataFrame, *, ticking: bool) -> DataFrame:
    """Return prepared rows with ticks if the query needs them or the checkpoint has them.

    Raises:
        StateError: the checkpoint has other sources than the query.
    """
    last = SparkProgress(rows.sparkSession, checkpoint).newest()
    own = _count_sources(rows)
    there = own + ticking if last is None else len(last.offsets)
    # A plan that no longer needs ticks keeps them if its checkpoint has them.
    if there not in (own + ticking, own + 1):
        raise StateError(_refusal(checkpoint, there=there, own=own, ticking=ticking))
    return with_ticks(rows) if there > own else rows


def _refusal(checkpoint: str, *, there: int, own: int, ticking: bool) -> str:
    if ticking and there == own:
        return (
            f"checkpoint {checkpoint} was written without ticks, which the query needs now\n\n"
            "Results that time alone can emit (idle_timeout, EMIT EARLY, processing time) take a "
            "source of ticks, and Spark cannot add a source to a checkpoint. Leave idle_timeout "
            "and EMIT EARLY out, or end the old query with stop(drain=True) or --drain and start "
            "this one with a new checkpoint."
        )
    return (
        f"checkpoint {checkpoint} was written by a query that reads {there} "
        f"{'source' if there == 1 else 'sources'}; this one reads {own + ticking}, ticks included"
        "\n\nSpark cannot add a source to a checkpoint or remove one. Start the query with the "
        "sources it had, or with a new checkpoint."
    )


def _count_sources(rows: DataFrame) -> int:
    """How many streams are read, which is the number of offsets in a checkpoint."""
    leaves: Any = rows._jdf.queryExecution().analyzed().collectLeaves()
    jvm: Any = rows.sparkSession._jvm
    # A stream that is read in two places is one source, as it is for Spark.
    streams = jvm.java.util.HashSet()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        # A reference to a part of the WITH clause is a leaf too; its target is found separately.
        if leaf.isStreaming() and leaf.nodeName() != "CTERelationRef":
            streams.add(leaf)
    return int(streams.size())


def set_ticks(spark: SparkSession, checkpoint: str, last: PlannedBatch | None) -> None:
    """Let ticks continue after the last one in the checkpoint.

    A rate stream counts the seconds since its first start, and its own clock begins at 0 whenever a
    query starts. So its first start is set to as many seconds before 0 as there have been ticks,
    and one more: that tick comes at once.

    Args:
        spark: any session.
        checkpoint: the checkpoint of a query that has ticks.
        last: the newest batch in it.
    """
    if last is None or not last.offsets[-1].isdecimal():
        return
    started_ms = -1_000 * (int(last.offsets[-1]) + 1)
    folder = f"{checkpoint.rstrip('/')}/sources/{len(last.offsets) - 1}"
    files = file_manager(spark, folder)
    assert spark._jvm is not None, "a running session has a JVM"
    path: Any = spark._jvm.org.apache.hadoop.fs.Path(f"{folder}/0")
    if files.exists(path):
        # Not every file system can replace a file, so delete it first. After a crash in between,
        # the next start writes the file.
        files.delete(path)
    writer = files.createAtomic(path, False)
    try:
        writer.write(bytearray(f"v1\n{started_ms}".encode()))
    except BaseException:
        writer.cancel()
        raise
    writer.close()


class Ticker:
    """Advances the clock of the ticks of a running query, second by second.

    Args:
        execution: Spark's query, which has ticks as its last source.
        is_active: whether it is still running.
    """

    def __init__(self, execution: Any, is_active: Callable[[], bool]) -> None:  # noqa: ANN401 - a JVM object
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=_tick,
            args=(execution, is_active, self._ended),
            name="tidegate-ticks",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; it ends by itself too, once the query is no longer running."""
        self._ended.set()


def _tick(execution: Any, is_active: Callable[[], bool], ended: threading.Event) -> None:  # noqa: ANN401
    # The JVM may go at any moment, and Spark's query with it.
    with suppress(Py4JError, OSError):
        while not ended.wait(_TICK_SECONDS) and is_active():
            sources = execution.sources()
            if sources.nonEmpty():
                ticks = sources.last()
                # A first start may have been written down by another clock.
                now_ms = max(ticks.clock().getTimeMillis(), ticks.creationTimeMs())
                ticks.clock().setTime(now_ms + 1_000)
