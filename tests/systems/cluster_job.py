"""A script for ``spark-submit``: runs a query over files, and prints a line for each batch."""

from __future__ import annotations

import sys

import tidegate
from systems.flows import SCHEMA, SQL


def main(folder: str) -> None:
    """Process the files in ``folder``, and emit every window at the end."""
    spark = tidegate.local_session()
    context = spark.sparkContext
    started = context._gateway.proc is not None
    zone = spark.conf.get("spark.sql.session.timeZone")
    print("spark", context.master, zone, "second" if started else "one", flush=True)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{folder}/in")
    run = tidegate.sql(SQL, streams={"r": stream}).start(
        sink=f"{folder}/out",
        checkpoint=f"{folder}/checkpoint",
        once=True,
        on_batch=lambda report: print("batch", report.batch_id, flush=True),
    )
    run.await_termination()
    run.stop(drain=True)


if __name__ == "__main__":
    main(sys.argv[1])
