"""The contenders: Tidegate, Spark streaming and Spark batch answer the same question.

A contender is a function that writes the answer, with the question's columns, to Parquet files and
returns what Spark reports of its batches. Register new ones in ``CONTENDERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.workload import Workload, read_stream, read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegate.engine.stream import Run

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

AGGREGATES = {
    "n": "count(*)",
    "total": "sum(value)",
    "mean": "avg(value)",
    "low": "min(value)",
    "high": "max(value)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query over a workload, as each contender writes it.

    ``sql`` is for Tidegate, over ``events``; ``ask`` computes the same from a DataFrame, streaming
    or not. Both yield ``columns``, including ``e``, the window's end. ``lag`` is the watermark lag
    in seconds, ``settings`` are further settings of Tidegate. A batch of a stream reads
    ``files_a_batch`` files. ``changelog``: Spark checkpoints its state as a changelog instead of
    snapshots, because that is faster for this question.
    """

    name: str
    workload: Workload
    sql: str
    ask: Callable[[DataFrame], DataFrame]
    columns: tuple[str, ...]
    lag: int = 5
    settings: Mapping[str, str] = field(default_factory=dict)
    files_a_batch: int = 1
    changelog: bool = False


def per_window_and_key(
    name: str, workload: Workload, *, sql: str, window: Callable[[], Column], lag: int = 5
) -> Question:
    """Return the question for ``AGGREGATES`` per window and key.

    ``sql`` is the window for Tidegate (``tumblingwindow('ss', 10)``), ``window`` returns Spark's
    column for it, over ``ts``.
    """
    aggregates = ", ".join(f"{text} AS {column}" for column, text in AGGREGATES.items())

    def ask(events: DataFrame) -> DataFrame:
        from pyspark.sql import functions

        return (
            events.groupBy(window().alias("w"), "key")
            .agg(*(functions.expr(text).alias(column) for column, text in AGGREGATES.items()))
            .selectExpr("key", "w.start AS s", "w.end AS e", *AGGREGATES)
        )

    return Question(
        name=name,
        workload=workload,
        sql=(
            f"SELECT key, window_start() AS s, window_end() AS e, {aggregates} "
            f"FROM events GROUP BY {sql}, key"
        ),
        ask=ask,
        columns=("key", "s", "e", *AGGREGATES),
        lag=lag,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where a contender reads and writes; all folders but ``source`` are new in every run."""

    source: Path
    results: Path
    checkpoint: Path


# A batch as Spark's ``StreamingQueryProgress`` has it.
Progress = Mapping[str, Any]

Answer = Callable[["SparkSession", Question, Paths], list[Progress]]


def tidegate(spark: SparkSession, question: Question, paths: Paths) -> list[Progress]:
    """Run one query of Tidegate over all files; return its batches with rows."""
    run = start_tidegate(spark, question, paths)
    run.await_termination()
    return batches_with_rows(run.query)


def start_tidegate(
    spark: SparkSession, question: Question, paths: Paths, *, once: bool = True
) -> Run:
    """Start one query of Tidegate over all files, after which it ends; or also those to come."""
    import tidegate as tg
    from tidegate.connectors.sinks import FileSink

    query = tg.sql(
        question.sql,
        settings={
            "event_time_field": "ts",
            "watermark_lag": f"{question.lag}s",
            **question.settings,
        },
        streams={"events": read_stream(spark, paths.source, question.files_a_batch)},
    )
    sink = FileSink(format="parquet", path=str(paths.results), options={})
    return query.start(sink=sink, checkpoint=str(paths.checkpoint), once=once)


def spark_streaming(spark: SparkSession, question: Question, paths: Paths) -> list[Progress]:
    """Run Spark's own streaming aggregation, append mode; return its batches with rows."""
    # A query keeps the session's setting as of its start.
    spark.conf.set(CHANGELOG, str(question.changelog).lower())
    events = read_stream(spark, paths.source, question.files_a_batch)
    events = events.withWatermark("ts", f"{question.lag} seconds")
    query = (
        question.ask(events)
        .writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(paths.results))
        .option("checkpointLocation", str(paths.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches_with_rows(query)


def spark_batch(spark: SparkSession, question: Question, paths: Paths) -> list[Progress]:
    """Run the same GROUP BY as one batch job: the limit. It has no micro-batches."""
    question.ask(read_table(spark, paths.source)).write.parquet(str(paths.results))
    return []


CONTENDERS: dict[str, Answer] = {
    "tidegate": tidegate,
    "spark": spark_streaming,
    "batch": spark_batch,
}


def batches_with_rows(query: StreamingQuery) -> list[Progress]:
    """Return what Spark reports of a query's batches, without those that had no rows."""
    return [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
