"""Starting Spark's query: what is set up for the moment of the start, and what a start may change.

Nothing is changed in a checkpoint on which a query of this JVM runs, nor if the query's name is
taken: Spark refuses such a start.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidegate.engine.offsets import SparkProgress
from tidegate.engine.pace import polling
from tidegate.engine.ticks import AVAILABLE_NOW, Ticker, set_ticks, with_sources_of
from tidegate.errors import ExecutionError
from tidegate.spark.failures import reason_of
from tidegate.spark.files import cheaper_files
from tidegate.spark.isolation import starting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegate.engine.batches import BatchCallback, Batches, Launch

_INITIALIZATION_MS = 10_000

# Whether a start stops a query that already runs on the same checkpoint.
ONE_RUN = "spark.sql.streaming.stopActiveRunOnRestart"

# What py4j raises when a call fails in the JVM, or when the JVM is gone.
JVM_ERRORS = (PySparkException, Py4JError, OSError)


class Kind(Enum):
    """What a started query is to read; the value is Spark's trigger."""

    # As fast as possible; the pace is ours.
    LIVE = ("processingTime", "0 seconds")
    ALL_THERE_IS = ("availableNow", True)
    # Spark runs a batch that it has planned first, and with this trigger it runs one batch.
    PLANNED_BATCH = ("once", True)


@dataclass(frozen=True, slots=True)
class Started:
    """Spark's query, the function that it calls with batches, and its ticker if it has ticks."""

    query: StreamingQuery
    callback: BatchCallback
    ticker: Ticker | None

    def release(self) -> None:
        """Drop all references, once the query has ended."""
        self.callback.release()
        if self.ticker is not None:
            self.ticker.stop()


class Starter:
    """Starts Spark's query over prepared rows, with ticks if it needs them.

    Args:
        rows: prepared rows, a stream.
        launch: how to start.
        ticking: whether it needs ticks.

    Raises:
        StateError: the checkpoint has other sources than the query.
    """

    def __init__(self, rows: DataFrame, launch: Launch, *, ticking: bool) -> None:
        self._launch = launch
        self._spark = rows.sparkSession
        self._rows = with_sources_of(launch.checkpoint, rows, ticking=ticking)
        self._has_ticks = self._rows is not rows
        # Otherwise Spark would stop a query on this checkpoint in the middle of a batch.
        self._settings = cheaper_files(self._spark, launch.checkpoint) | {ONE_RUN: "false"}
        if self._has_ticks:
            self._settings |= {AVAILABLE_NOW: "true"}

    def start(self, kind: Kind, batches: Batches) -> Started:
        """Start Spark's query; return once Spark has created its sources.

        What an earlier process has left of a step is finished before.

        Raises:
            ExecutionError: Spark does not start it.
            TidegateError: that step fails.
        """
        # The step of a query that runs is not left, it is being finished.
        if batches.have_taken and not self._is_taken(
            SparkProgress(self._spark, self._launch.checkpoint)
        ):
            batches.finish_taken()
        trigger: dict[str, Any] = dict([kind.value])
        interval_us = self._launch.interval_us if kind is Kind.LIVE else 0
        query: weakref.ref[StreamingQuery] | None = None

        def goes_on() -> bool:
            return query is None or is_active(query())

        callback = batches.callback(interval_us, goes_on)
        writer = self._rows.writeStream.foreachBatch(callback).option(
            "checkpointLocation", self._launch.checkpoint
        )
        if self._launch.name:
            writer = writer.queryName(self._launch.name)
        # Spark reads settings of the user's session while it creates the sources.
        settings = self._settings | polling(interval_us)
        with starting(self._spark, settings):
            try:
                self._make_ready()
                started = writer.trigger(**trigger).start()
            except JVM_ERRORS as error:
                raise ExecutionError(
                    f"the query did not start: {reason_of(error)}\n\n"
                    "Fix that and start again; nothing has been read. Its checkpoint is "
                    f"{self._launch.checkpoint}."
                ) from error
            query = weakref.ref(started)
            execution: Any = started._jsq.streamingQuery()
            # If the query fails now, its handle reports that.
            with suppress(*JVM_ERRORS):
                execution.awaitInitialization(_INITIALIZATION_MS)
        ticking = self._has_ticks and kind is Kind.LIVE
        return Started(started, callback, Ticker(execution, goes_on) if ticking else None)

    def _make_ready(self) -> None:
        """Change what Spark expects of a checkpoint, unless Spark will refuse the start.

        A query of another process, if one writes to the checkpoint, stops if this has removed what
        it was just writing; it would stop in any case, because the later start goes on.
        """
        progress = SparkProgress(self._spark, self._launch.checkpoint)
        if self._is_taken(progress):
            return
        last = progress.newest()
        if last is None:
            progress.sweep()
        elif self._has_ticks:
            set_ticks(self._spark, self._launch.checkpoint, last)

    def _is_taken(self, progress: SparkProgress) -> bool:
        """Whether a query of this JVM has the name, or runs on the checkpoint."""
        name = self._launch.name
        if name and any(query.name == name for query in self._spark.streams.active):
            return True
        query_id = progress.query_id() if progress.has_query() else None
        if query_id is None:
            return False
        jvm: Any = self._spark._jvm
        session: Any = self._spark._jsparkSession
        key = jvm.java.util.UUID.fromString(query_id)
        return bool(session.sharedState().activeStreamingQueries().containsKey(key))


def is_active(query: StreamingQuery | None) -> bool:
    """Return whether Spark's query is running."""
    try:
        return query is not None and bool(query.isActive)
    except JVM_ERRORS:
        # Spark itself has ended.
        return False
