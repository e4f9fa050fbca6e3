"""The clock: one instant for all rows of a batch, the same when the batch is replayed.

It is the timestamp that Spark writes to its offset log before a batch runs, which is also what
``current_timestamp()`` is for the rows of the batch. As a column of the rows it would be a constant
in the code that reads the source, which Spark would then compile, and the JVM warm up, batch by
batch. So the log is asked for it.

Ticks let time pass for a query when no rows come.
Spark calls ``foreachBatch`` only when there is data. A plan that must meet deadlines by the clock
therefore unions a slow ``rate`` stream; its rows are ticks, which carry the clock and nothing else.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tidegate.plan.columns import TICK
from tidegate.spark.files import file_manager
from tidegate.state.batch import SparkBatch
from tidegate.time import MICROS_PER_SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MICROS_PER_MILLI = 1_000


class OffsetLogClock:
    """The batches of a query as Spark has written them down before they run.

    Args:
        spark: any session.
        checkpoint: the query's checkpoint folder.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark._jvm
        log = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
        root = checkpoint.rstrip("/")
        self._log = log(spark._jsparkSession, f"{root}/offsets", True)
        self._query_id = _query_id(spark, root)

    def batch(self, batch_id: int) -> SparkBatch:
        """Return a batch that has been planned."""
        offsets = self._log.get(batch_id).get()
        return SparkBatch(
            batch_id=batch_id,
            clock_us=int(offsets.metadataOpt().get().batchTimestampMs()) * MICROS_PER_MILLI,
            query_id=self._query_id,
            offsets_hash=sha256(str(offsets.toString()).encode()).hexdigest()[:32],
        )


def _query_id(spark: SparkSession, root: str) -> str:
    """Return the id of a streaming query, which Spark writes down once for a checkpoint."""
    jvm: Any = spark._jvm
    stream = file_manager(spark, root).open(jvm.org.apache.hadoop.fs.Path(f"{root}/metadata"))
    try:
        return str(json.loads(bytes(stream.readAllBytes()).decode())["id"])
    finally:
        stream.close()


def with_ticks(rows: DataFrame, interval_us: int) -> DataFrame:
    """Return prepared rows with ticks among them, one an interval (at least one a second)."""
    per_second = max(1, MICROS_PER_SECOND // interval_us)
    rate = rows.sparkSession.readStream.format("rate").option("rowsPerSecond", per_second).load()
    return without_ticks(rows).unionByName(
        rate.selectExpr(f"true AS {TICK}"), allowMissingColumns=True
    )


def without_ticks(rows: DataFrame) -> DataFrame:
    """Return prepared rows of a plan that needs ticks when there are none (``once``, a table)."""
    return rows.selectExpr("*", f"false AS {TICK}")
