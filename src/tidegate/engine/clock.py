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

from typing import TYPE_CHECKING, Any

from tidegate.plan.columns import TICK
from tidegate.time import MICROS_PER_SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MICROS_PER_MILLI = 1_000


class OffsetLogClock:
    """The timestamps of the batches of a query, from Spark's offset log.

    Args:
        spark: any session.
        checkpoint: the query's checkpoint folder.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark._jvm
        log = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
        self._log = log(spark._jsparkSession, f"{checkpoint.rstrip('/')}/offsets", True)

    def at(self, batch_id: int) -> int:
        """Return the clock of a batch that has been planned, in microseconds since 1970."""
        metadata = self._log.get(batch_id).get().metadataOpt().get()
        return int(metadata.batchTimestampMs()) * MICROS_PER_MILLI


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
