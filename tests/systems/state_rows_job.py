"""A script for ``spark-submit``: merges and closes windows with state rows of a given size."""

from __future__ import annotations

import sys

import tidegate

BATCHES, KEYS = 8, 70
# Text that does not compress, of as many bytes as a row says.
SQL = """
    SELECT id, max(left(array_join(transform(sequence(0, size DIV 32),
      i -> md5(concat_ws('-', id, ts, i))), ''), size)) AS text
    FROM r GROUP BY tumblingwindow('dd', 1), id ON ts
"""


def main(folder: str, *sizes: str) -> None:
    """Run a query over ``BATCHES`` files for each size; print a line when it has ended."""
    spark = tidegate.local_session()
    started: list[tidegate.Run] = []

    def wait_for_merges(report: object) -> None:
        """Otherwise the end of the query would give up the one that has just begun."""
        for run in started:
            run._batches.stepper._merges.wait()

    for size in sizes:
        place = f"{folder}/{size}"
        ids = spark.range(BATCHES * KEYS).selectExpr(
            "id", f"{size} AS size", "timestamp_seconds(id) AS ts"
        )
        ids.coalesce(1).write.option("maxRecordsPerFile", KEYS).json(f"{place}/in")
        stream = spark.readStream.schema("id BIGINT, size INT, ts TIMESTAMP")
        stream = stream.option("maxFilesPerTrigger", 1).json(f"{place}/in")
        run = tidegate.sql(SQL, r=stream).start(
            sink=f"{place}/out",
            checkpoint=f"{place}/checkpoint",
            once=True,
            on_batch=wait_for_merges,
        )
        started.append(run)
        run.await_termination()
        spark.sparkContext.setJobDescription("close")
        run.stop(drain=True)
        spark.sparkContext.setJobDescription(None)
        found = spark.read.parquet(f"{place}/out").selectExpr("count(*)", "min(length(text))")
        print("ended", size, *found.first(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
