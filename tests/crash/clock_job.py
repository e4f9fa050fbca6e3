"""The query in processing time that is killed: ``python -m tests.crash.clock_job FOLDER N``.

Every row has a window that closes after a second. After N rows only ticks are left, and the process
dies after the first tick that closes windows.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg
from tidegate.connectors.sinks import FileSink, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.batches import OnBatch
    from tidegate.metrics.report import BatchReport

SQL = """
    SELECT name, window_trigger() AS t, window_end() AS e, window_id() AS id
    FROM guests GROUP BY slidingwindow('ss', 0, 1) OVER (PARTITION BY name)
"""


@dataclass(slots=True, kw_only=True)
class DeadlySink:
    """A file sink; once ``rows_left`` is 0 the process dies before the commit of what it wrote."""

    files: FileSink
    rows_left: int

    def write(self, frame: DataFrame, epoch: int) -> None:
        self.files.write(frame, epoch)
        if not self.rows_left:
            os.environ["TIDEGATE_FAULT"] = f"after_merge:{epoch}"

    def count(self, report: BatchReport) -> None:
        """Take note of a batch."""
        self.rows_left -= report.accumulated


def results(folder: Path) -> FileSink:
    """Return the sink of the results."""
    return FileSink(format="json", path=str(folder / "out"))


def start(spark: SparkSession, folder: Path, sink: Sink, on_batch: OnBatch | None = None) -> tg.Run:
    """Start the query over ``folder/in``, one file per batch."""
    guests = (
        spark.readStream.schema("name STRING")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
    )
    query = tg.sql(SQL, settings={"time": "processing"}, streams={"guests": guests})
    return query.start(sink=sink, checkpoint=str(folder / "checkpoint"), on_batch=on_batch)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    deadly = DeadlySink(files=results(path), rows_left=int(sys.argv[2]))
    start(tg.local_session(cores=2), path, deadly, deadly.count).await_termination()
