"""How Tidegate, Flink and Spark's batch job answer a question, each into Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg
from bench.flink.cluster import Cluster
from bench.flink.questions import Question
from bench.tables import FLINK_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Tidegate commits each micro-batch, which takes about as long here.
CHECKPOINT_INTERVAL = "1 s"

FLINK_SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.interval": CHECKPOINT_INTERVAL,
    "execution.checkpointing.incremental": "true",
}


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a run writes; both are new."""

    results: Path
    checkpoint: Path


Answer = Callable[[Question, Folders], None]


def tidegate_answer(spark: SparkSession) -> Answer:
    """Return Tidegate: it runs the query over all files, a micro-batch of several at a time."""

    def answer(question: Question, folders: Folders) -> None:
        query = query_of(question, {table.name: table.stream(spark) for table in question.tables})
        run = query.start(sink=str(folders.results), checkpoint=str(folders.checkpoint), once=True)
        run.await_termination()
        if question.by_clock:
            run.drain()

    return answer


def flink_answer(cluster: Cluster, state: str) -> Answer:
    """Return Flink with one of its state backends, ``hashmap`` or ``rocksdb``."""

    def answer(question: Question, folders: Folders) -> None:
        cluster.run(flink_script(question, folders, state=state))

    return answer


def query_of(question: Question, frames: Mapping[str, DataFrame]) -> tg.Query:
    """Return Tidegate's query over streams, or tables, by the names of the question's tables."""
    in_event_time = {"event_time_field": "ts", "watermark_lag": f"{question.lag}s"}
    united = {name: frames[name].selectExpr(*columns) for name, columns in question.united.items()}
    return tg.sql(
        question.ours,
        settings={"time": "processing"} if question.by_clock else in_event_time,
        streams={"united": united} if united else frames,
    )


def batch(spark: SparkSession, question: Question, folders: Folders) -> None:
    """Run the question as one batch job."""
    for table in question.tables:
        table.table(spark).createOrReplaceTempView(table.name)
    spark.sql(question.batch).write.parquet(str(folders.results))


def flink_script(question: Question, folders: Folders, *, state: str) -> str:
    """Return the settings, the tables and the INSERT; ``state`` is ``hashmap`` or ``rocksdb``."""
    settings = {
        **FLINK_SETTINGS,
        "state.backend.type": state,
        "execution.checkpointing.dir": folders.checkpoint.as_uri(),
    }
    statements = [f"SET '{name}' = '{value}'" for name, value in settings.items()]
    statements += [
        f"CREATE TABLE {table.name} ({table.flink_schema}, clock AS PROCTIME(), "
        f"WATERMARK FOR ts AS ts - INTERVAL '{question.lag}' SECOND) "
        f"WITH ('connector' = 'files-in-order', 'path' = '{table.folder}')"
        for table in question.tables
    ]
    columns = ", ".join(f"`{name}` {FLINK_TYPES[kind]}" for name, kind in question.columns.items())
    statements.append(
        f"CREATE TABLE results ({columns}) WITH ('connector' = 'filesystem', "
        f"'path' = '{folders.results}', 'format' = 'parquet', "
        "'parquet.compression' = 'SNAPPY', 'parquet.utc-timezone' = 'true')"
    )
    chosen = ", ".join(f"`{name}`" for name in question.columns)
    statements.append(f"INSERT INTO results SELECT {chosen} FROM ({question.flink})")
    return "".join(f"{statement};\n" for statement in statements)
