"""The query that the crash test kills: ``python -m tests.crash.job FOLDER EPOCH POINT..``.

With ``--ahead`` late rows have no sink, so that steps are finished beside the next batch.

One process for all points, since starting Spark is most of what it costs: the query of
``FOLDER/POINT`` comes as far as its point and waits there, then that of the next point starts. At
the last one the process is killed, and with it every query just where it is.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING
from unittest.mock import patch

import tidegate as tg
from tidegate.connectors.sinks import FileSink
from tidegate.engine import faults, merging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = """
    SELECT user, count(*) AS n, sum(pages) AS pages, first(pages) AS first_pages,
      window_start() AS s, emit_epoch() AS epoch
    FROM clicks GROUP BY hoppingwindow('ss', 20, 10), user
"""


def run(spark: SparkSession, folder: Path, *, ahead: bool = False) -> tg.Run:
    """Read what is in ``folder/in`` into ``folder/out`` and ``folder/late``, and end."""
    clicks = (
        spark.readStream.schema("ts TIMESTAMP, user STRING, pages BIGINT")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
    )
    query = tg.sql(SQL, settings={"event_time_field": "ts"}, streams={"clicks": clicks})
    # So that segments are merged in the batch that is killed.
    with patch.object(merging, "MERGE_FACTOR", 2):
        run = query.start(
            sink=FileSink(format="json", path=str(folder / "out")),
            late=None if ahead else FileSink(format="json", path=str(folder / "late")),
            checkpoint=str(folder / "checkpoint"),
            once=True,
        )
        run.await_termination()
    return run


class Killer:
    """Stands for ``os`` where a fault point kills: holds each query there until the last is."""

    environ = os.environ
    getpid = staticmethod(os.getpid)

    def __init__(self) -> None:
        self.reached = Event()
        self.hold = True

    def kill(self, pid: int, signal: int) -> None:
        """Kill the process, or tell that a query is where it is to be killed, and keep it there."""
        if not self.hold:
            os.kill(pid, signal)
        self.reached.set()
        Event().wait()


def run_to_the_kill(
    spark: SparkSession, folder: Path, epoch: str, points: list[str], *, ahead: bool
) -> None:
    """Bring a query to each of the points, then die."""
    killer = Killer()
    faults.os = killer  # type: ignore[assignment, attr-defined]
    for point in points:
        os.environ["TIDEGATE_FAULT"] = f"{point}:{epoch}"
        killer.hold = point != points[-1]
        killer.reached.clear()
        at_its_place = partial(run, spark, folder / point, ahead=ahead)
        Thread(target=at_its_place, daemon=True).start()
        if not killer.reached.wait(timeout=120):
            print(f"{point} was not reached", file=sys.stderr, flush=True)
            os._exit(1)  # threads of Spark's that are held would keep the process


if __name__ == "__main__":
    ahead, points = "--ahead" in sys.argv, [each for each in sys.argv[3:] if each != "--ahead"]
    session = tg.local_session(cores=1)
    run_to_the_kill(session, Path(sys.argv[1]), sys.argv[2], points, ahead=ahead)
