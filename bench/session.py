"""The Spark session of a run: two cores, the same settings for every contender."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SETTINGS = {
    # As in Tidegate's own sessions; a single query runs the same without.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # Contenders share Spark's cache of compiled classes; this size lets none evict another's.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Spark's own operator at its best here; see "How Spark is tuned" in README.md.
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def start_session(
    *, driver_memory: str, shuffle_partitions: int, scratch: Path, java_options: str = ""
) -> SparkSession:
    """Return a new ``local[2]`` session with its temporary files below ``scratch``."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import (
        SparkSession,
    )  # imported here, so that listing the benchmarks needs no Spark

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tidegate-bench")
        .config("spark.driver.memory", driver_memory)
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.sql.shuffle.partitions", shuffle_partitions)
        .config("spark.local.dir", str(scratch / "spark-local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    )
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
