"""A process with a small heap that ``bench open_groups`` starts, and kills while it runs.

``python -m bench.open_groups_job write ROWS FOLDER`` writes the rows, ``.. run ROWS FOLDER NAME``
runs the query on the checkpoint ``NAME`` and prints a line of JSON for each batch, ``.. check ROWS
FOLDER NAME`` prints what its results add up to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders import Question, per_window_and_key
from bench.session import start_session
from bench.state_groups import window
from bench.workload import Workload, generate, read_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.metrics.report import BatchReport

DRIVER_MEMORY = "3g"
BATCHES = 40
ROWS_PER_GROUP = 4


def question_of(rows: int) -> Question:
    """Return a question with a quarter as many groups as rows, all in one window of a day.

    Every batch has two rows of each of its groups. The first half of the batches opens all groups,
    the second half comes back to them in the same order.
    """
    batch = rows // BATCHES
    fresh = batch // ROWS_PER_GROUP
    groups = fresh * BATCHES
    # The first half of a batch's rows are of one block of groups, the second of another, half of
    # all blocks away.
    block = (
        f"pmod(id DIV {batch}L + IF(id % {batch}L < {batch // 2}L, 0L, {BATCHES // 2}L), "
        f"{BATCHES}L)"
    )
    workload = Workload(
        name="open-groups",
        rows=batch * BATCHES,
        files=BATCHES,
        span_seconds=40_000,
        # The prime 7919 divides no round number, so no group is beside the one before.
        key=f"pmod(({block} * {fresh}L + id % {fresh}L) * 7919L, {groups}L)",
        closing_row_after_seconds=86_400,
    )
    return per_window_and_key(
        "open_groups", workload, sql="tumblingwindow('hh', 24)", window=window, lag=0
    )


def write(spark: SparkSession, question: Question, folder: Path) -> None:
    """Write the rows, apart from them the one that closes the window."""
    source = generate(spark, question.workload, folder / "source")
    *_, closing = sorted(source.glob("events-*.parquet"))
    closing.rename(folder / "closing.parquet")


def run(spark: SparkSession, question: Question, folder: Path, name: str) -> None:
    """Run the query over all that is in the source, and print a line for each batch."""
    import tidegate as tg

    def tell(report: BatchReport) -> None:
        numbers = {
            "epoch": report.epoch,
            "duration_ms": report.duration_ms,
            "state_rows": report.state_rows,
            "state_bytes": report.state_bytes,
            "segments": report.segments,
            "merges": report.merges,
            "closed_windows": report.closed_windows,
            "rows_out": report.rows_out,
            "phases_ms": dict(report.phases_ms),
            **memory(spark),
        }
        print(json.dumps(numbers), flush=True)

    query = tg.sql(
        question.sql,
        settings={"event_time_field": "ts"},
        streams={"events": read_stream(spark, folder / "source")},
    )
    query.start(
        sink=str(folder / f"{name}-results"),
        checkpoint=str(folder / name),
        once=True,
        on_batch=tell,
    ).await_termination()
    collect(spark)
    print(json.dumps({"end": memory(spark)}), flush=True)


def check(spark: SparkSession, folder: Path, name: str) -> None:
    """Print how many results there are, and how many rows they count."""
    results = spark.read.parquet(str(folder / f"{name}-results"))
    found = results.selectExpr("count(*)", "sum(n)", "sum(total)").first()
    assert found is not None
    print(json.dumps({"results": found[0], "rows": found[1], "total": found[2]}), flush=True)


def memory(spark: SparkSession) -> dict[str, int]:
    """Return the MB of the heap in use, and of resident memory of the JVM at its peak."""
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    process = jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{process}/status").read_text()
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    return {
        "heap_mb": (runtime.totalMemory() - runtime.freeMemory()) // 1_000_000,
        "peak_rss_mb": peak_kb // 1_000,
    }


def collect(spark: SparkSession) -> None:
    """Collect garbage, so that only what is needed is in the heap."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()


def main() -> None:
    """Do what the command line asks for."""
    stage, rows, folder, *name = sys.argv[1:]
    spark = start_session(
        driver_memory=DRIVER_MEMORY, shuffle_partitions=8, scratch=Path(folder) / "spark"
    )
    question = question_of(int(rows))
    match stage:
        case "write":
            write(spark, question, Path(folder))
        case "run":
            run(spark, question, Path(folder), *name)
        case "check":
            check(spark, Path(folder), *name)
        case _:
            raise ValueError(stage)


if __name__ == "__main__":
    main()
