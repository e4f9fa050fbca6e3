"""The query that the crash test kills: run as ``python -m tests.crash.job FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg
from tidegate.io.sinks import FileSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = """
    SELECT user, count(*) AS n, sum(pages) AS pages, first(pages) AS first_pages,
      window_start() AS s, emit_epoch() AS epoch
    FROM clicks GROUP BY hoppingwindow('ss', 20, 10), user
"""


def run(spark: SparkSession, folder: Path) -> tg.Run:
    """Read what is in ``folder/in`` into ``folder/out`` and ``folder/late``, and end."""
    clicks = (
        spark.readStream.schema("ts TIMESTAMP, user STRING, pages BIGINT")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
    )
    query = tg.sql(SQL, settings={"event_time_field": "ts"}, streams={"clicks": clicks})
    run = query.start(
        sink=FileSink(format="json", path=str(folder / "out")),
        late=FileSink(format="json", path=str(folder / "late")),
        checkpoint=str(folder / "checkpoint"),
        once=True,
    )
    run.await_termination()
    return run


if __name__ == "__main__":
    run(tg.local_session(cores=1), Path(sys.argv[1]))
