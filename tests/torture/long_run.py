"""A long run of tiny batches: nothing may grow.

``python -m tests.torture.long_run --batches 2000`` (``make long-run``) runs one query and compares
what there is after the first tenth of its batches with what there is at the end.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.finalizer import ThreadSafeFinalizer

import tidegate as tg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.metrics.report import BatchReport

STATEMENT = """
    SELECT value % 7 AS k, count(*) AS n, max(value) AS v
    FROM r GROUP BY TUMBLE(timestamp, INTERVAL '10' SECOND), value % 7
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a running query holds at one moment.

    Attributes:
        heap_mb: the heap of the JVM after a collection.
        jvm_threads, threads: live threads of the JVM, without ``POOLS``, and of Python.
        java_objects: objects of the JVM that Python refers to.
        views: temporary views of the user's session.
        files: files of the state and of its manifests.
        batch_ms: the median time of the batches since the weighing before.
    """

    heap_mb: float
    jvm_threads: int
    threads: int
    java_objects: int
    views: int
    files: int
    batch_ms: float


# Pools of Spark's block manager, which it fills with up to 128 threads each.
POOLS = ("block-manager-storage-async-", "block-manager-ask-")

# How much more there may be at the end than after the first tenth: a factor, and what is noise.
ROOM = {
    "heap_mb": (1.15, 15.0),
    "jvm_threads": (1.0, 12),
    "threads": (1.0, 2),
    "java_objects": (1.0, 400),
    "views": (1.0, 0),
    "files": (1.0, 60),
    "batch_ms": (1.5, 30.0),
}


def weigh_run(spark: SparkSession, folder: Path, batches: int) -> tuple[Weight, Weight]:
    """Run a query for some batches; return what it held after a tenth of them, and at the end."""
    rows = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=20, numPartitions=1, advanceMillisPerBatch=1_000)
        .load()
    )
    query = tg.sql(STATEMENT, streams={"r": rows})
    times: list[int] = []
    reached = {batches // 10: threading.Event(), batches: threading.Event()}
    go_on = threading.Event()

    def on_batch(report: BatchReport) -> None:
        times.append(report.duration_ms)
        if len(times) in reached:
            reached[len(times)].set()
            go_on.wait(timeout=60)
            go_on.clear()

    run = query.start(
        sink=lambda frame, epoch: frame.collect(), checkpoint=folder, on_batch=on_batch
    )
    found: list[Weight] = []
    try:
        for event in reached.values():
            while not event.wait(timeout=1):
                assert run.query.isActive, run.query.exception()
            found.append(_weight(spark, folder, times[-max(1, batches // 10) :]))
            go_on.set()
    finally:
        go_on.set()
        run.stop()
    return found[0], found[1]


def grown(before: Weight, after: Weight) -> dict[str, tuple[float, float]]:
    """Return what has grown by more than it may, with both values."""
    first, last = asdict(before), asdict(after)
    return {
        name: (first[name], last[name])
        for name, (factor, noise) in ROOM.items()
        if last[name] > first[name] * factor + noise
    }


def _weight(spark: SparkSession, folder: Path, times: list[int]) -> Weight:
    gc.collect()
    jvm: Any = spark._jvm
    management = jvm.java.lang.management.ManagementFactory
    for _ in range(2):
        jvm.System.gc()
    threads = list(jvm.java.lang.Thread.getAllStackTraces().keySet().toArray())
    heap = management.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return Weight(
        heap_mb=round(heap / 1e6, 1),
        jvm_threads=sum(not thread.getName().startswith(POOLS) for thread in threads),
        threads=threading.active_count(),
        java_objects=len(ThreadSafeFinalizer.finalizers),
        views=len(spark.catalog.listTables()),
        files=sum(path.is_file() for path in (folder / "tidegate").rglob("*")),
        batch_ms=statistics.median(times),
    )


def main() -> int:
    """Run from the command line; the exit code is 1 when something has grown."""
    options = argparse.ArgumentParser(prog="long_run")
    options.add_argument("--batches", type=int, default=2000)
    asked = options.parse_args()
    spark = tg.local_session(cores=2, options={"spark.sql.shuffle.partitions": "2"})
    with tempfile.TemporaryDirectory(prefix="tidegate-long-run-") as folder:
        before, after = weigh_run(spark, Path(folder), asked.batches)
    for name, value in asdict(before).items():
        print(f"{name:12} {value:>10} after a tenth {getattr(after, name):>10} at the end")
    print(f"grown: {grown(before, after) or 'nothing'}")
    return 1 if grown(before, after) else 0


if __name__ == "__main__":
    sys.exit(main())
