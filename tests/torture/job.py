"""A query in a process of its own, to be killed: see ``processes.py`` for who starts it.

``python -m tests.torture.job FOLDER KIND LAG LATENESS CORES MODE``; MODE is ``live`` (until it is
killed) or how the run ends once all files have been read: ``stop``, ``flush`` or ``drain``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidegate as tg

from .stream import Place, start


def main(*told: str) -> None:
    """Run the query."""
    folder, kind, lag, lateness, cores, mode = told
    spark = tg.local_session(cores=cores, options={"spark.sql.shuffle.partitions": cores})
    run = start(
        spark,
        Place(folder=Path(folder)),
        kind,
        once=mode != "live",
        settings={"watermark_lag": lag, "allowed_lateness": lateness},
    )
    run.await_termination()
    run.stop(flush=mode == "flush", drain=mode == "drain")


if __name__ == "__main__":
    main(*sys.argv[1:])
