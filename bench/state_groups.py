"""The process with a small heap that ``bench state`` starts: opens many groups, closes them.

``python -m bench.state_groups CONTENDER ROWS STATE_FOLDER SCRATCH`` prints an ``Outcome`` as JSON.
The query stops between filling and closing, so that the state is measured when it is largest and
closing starts from the checkpoint.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contenders import CONTENDERS, Paths, Question, per_window_and_key
from bench.session import start_session
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

DRIVER_MEMORY = "2g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The resources that one contender needed."""

    fill_seconds: float
    close_seconds: float
    peak_rss_bytes: int
    state_bytes: int
    results: int


def question_of(rows: int) -> Question:
    """Return a question with half as many groups as rows, all in one window of an hour.

    The first half of the rows opens the groups in scattered order, the second adds to each.
    """
    workload = Workload(
        name="groups",
        rows=rows,
        files=10,
        span_seconds=3_000,
        # The prime 7919 divides no round number: every key comes once, none next to the one before.
        key=f"pmod(id * 7919L, {rows // 2}L)",
        closing_row_after_seconds=3_600,
    )
    return per_window_and_key(
        "state_groups", workload, sql="tumblingwindow('hh', 1)", window=window, lag=0
    )


def window() -> Column:
    """Return Spark's column for a window of an hour."""
    from pyspark.sql import functions

    return functions.window("ts", "1 hour")


def measure(question: Question, contender: str, state_folder: str, scratch: Path) -> Outcome:
    """Fill the state from all files but the last, then close it with the last."""
    answer = CONTENDERS[contender]
    spark = start_session(driver_memory=DRIVER_MEMORY, shuffle_partitions=8, scratch=scratch)
    source = scratch / "source"
    paths = Paths(source=source, results=scratch / "results", checkpoint=scratch / "checkpoint")
    source.mkdir()
    *filling, closing = sorted(question.workload.folder.glob("events-*.parquet"))
    for file in filling:
        shutil.copy2(file, source)
    started = time.perf_counter()
    answer(spark, question, paths)
    filled = time.perf_counter()
    state = paths.checkpoint / state_folder
    state_bytes = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
    shutil.copy2(closing, source)
    restarted = time.perf_counter()
    answer(spark, question, paths)
    closed = time.perf_counter()
    return Outcome(
        fill_seconds=filled - started,
        close_seconds=closed - restarted,
        peak_rss_bytes=_peak_rss_bytes(spark),
        state_bytes=state_bytes,
        results=spark.read.parquet(str(paths.results)).count(),
    )


def _peak_rss_bytes(spark: SparkSession) -> int:
    """Return the peak resident memory of the JVM, from Linux's ``/proc``."""
    assert spark._jvm is not None, "a running session has a JVM"
    process_id = spark._jvm.java.lang.ProcessHandle.current().pid()
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"/proc/{process_id}/status has no VmHWM line: this bench needs Linux.")


def main() -> None:
    """Measure what the command line asks for and print it."""
    contender, rows, state_folder, scratch = sys.argv[1:]
    outcome = measure(question_of(int(rows)), contender, state_folder, Path(scratch))
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
