"""Compares contenders: in turn, in rounds, in new folders, with their answers checked."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.activity import Activity, TaskWatch, ms_of
from bench.contenders import CONTENDERS, Paths, Progress, Question
from bench.session import start_session
from bench.workload import generate, greatest_event_time_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True, kw_only=True)
class Harness:
    """What a benchmark gets: options, a scratch folder, a session created on first use."""

    rounds: int
    scratch: Path
    warm_ups: int = 1
    rows: int | None = None
    only: Sequence[str] = ()
    _spark: SparkSession | None = field(default=None, init=False)

    @property
    def spark(self) -> SparkSession:
        """The one session of the run."""
        if self._spark is None:
            # If the heap shrank after a run, the next run would pay for growing it again.
            self._spark = start_session(
                driver_memory="8g",
                shuffle_partitions=2,
                scratch=self.scratch,
                java_options="-Xms8g",
            )
        return self._spark

    def rows_or(self, default: int) -> int:
        """Return ``--rows`` if given, else the benchmark's own number."""
        return default if self.rows is None else self.rows

    def stop(self) -> None:
        """Stop the session, if there is one."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contender and its question; ``label`` names the line in the table.

    An entry that only provides answers, not a time, needs no warm-up.
    """

    label: str
    contender: str
    question: Question
    warms_up: bool = True


@dataclass(frozen=True, slots=True)
class Digest:
    """Count and order-independent checksum of the windows that every contender must have closed."""

    rows: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of one entry.

    Wall time from start to end, what the cores did meanwhile, the time from batch to batch, the
    digest.
    """

    seconds: float
    activity: Activity
    batches_ms: Sequence[float]
    digest: Digest


@dataclass(frozen=True, slots=True)
class Measurements:
    """All rounds of one entry."""

    entry: Entry
    runs: Sequence[Measurement]

    @property
    def seconds(self) -> list[float]:
        """The wall time of each run, in the order of rounds."""
        return [run.seconds for run in self.runs]

    @property
    def median_seconds(self) -> float:
        """The median wall time of a run."""
        return statistics.median(self.seconds)

    @property
    def rows_per_second(self) -> float:
        """Rows of the workload over the median wall time."""
        return self.entry.question.workload.rows / self.median_seconds


def entries(question: Question, contenders: Iterable[str] = tuple(CONTENDERS)) -> list[Entry]:
    """Return an entry of the question for each contender, by default all."""
    return [Entry(label=name, contender=name, question=question) for name in contenders]


def measure(harness: Harness, competing: Sequence[Entry]) -> dict[str, Measurements]:
    """Run the entries in turn, in rounds, and return measurements by label.

    Every other round runs them backwards (A B C, C B A, ..), so that no entry always comes after
    the same one. Warm-up rounds come first: a first round takes up to twice as long as a third,
    while the JVM compiles.
    """
    for _ in range(harness.warm_ups):
        for entry in competing:
            if entry.warms_up:
                _run(harness, entry)
    runs: dict[str, list[Measurement]] = {entry.label: [] for entry in competing}
    for round_number in range(1, harness.rounds + 1):
        for entry in in_turn(competing, round_number):
            measurement = _run(harness, entry)
            runs[entry.label].append(measurement)
            progress(f"round {round_number}: {entry.label} {measurement.seconds:.2f} s")
    return {entry.label: Measurements(entry, runs[entry.label]) for entry in competing}


T = TypeVar("T")


def in_turn(competing: Sequence[T], round_number: int) -> Sequence[T]:
    """Return what competes in the order of a round, counted from 1."""
    return competing if round_number % 2 else competing[::-1]


def disagreements(measured: dict[str, Measurements]) -> list[str]:
    """Return a sentence for each run whose answer differs from the first one to its question."""
    first: dict[str, tuple[str, Digest]] = {}
    sentences = []
    for label, measurements in measured.items():
        name = measurements.entry.question.name
        for number, run in enumerate(measurements.runs, start=1):
            reference, expected = first.setdefault(name, (label, run.digest))
            if run.digest != expected or run.digest.rows == 0:
                sentences.append(
                    f"{name}: {label}, round {number}: {run.digest.rows} results "
                    f"(checksum {run.digest.checksum:x}), while {reference} has {expected.rows} "
                    f"(checksum {expected.checksum:x})"
                )
    return sentences


def verdict(failures: Sequence[str]) -> list[str]:
    """Return the lines below a table that say whether the answers agree."""
    if failures:
        return [f"THE ANSWERS DIFFER. {failure}" for failure in failures]
    return ["the answers agree in every round (rows and checksum of all windows closed)"]


def progress(text: str) -> None:
    """Print progress to standard error; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def _run(harness: Harness, entry: Entry) -> Measurement:
    spark, question = harness.spark, entry.question
    source = generate(spark, question.workload)
    folder = Path(tempfile.mkdtemp(prefix=f"{entry.contender}-", dir=harness.scratch))
    paths = Paths(source=source, results=folder / "results", checkpoint=folder / "checkpoint")
    _settle(spark)
    try:
        with TaskWatch(spark) as watch:
            started = time.perf_counter()
            batches = CONTENDERS[entry.contender](spark, question, paths)
            seconds = time.perf_counter() - started
        return Measurement(
            seconds=seconds,
            activity=watch.activity(),
            batches_ms=_intervals_ms(batches),
            digest=_digest(spark, question, paths),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _intervals_ms(batches: Sequence[Progress]) -> list[float]:
    """From the start of each batch to that of the next; of the last one how long it took."""
    starts_ms = [ms_of(batch["timestamp"].replace("Z", "GMT")) for batch in batches]
    found = [later - earlier for earlier, later in pairwise(starts_ms)]
    return [*found, *(float(each["durationMs"]["triggerExecution"]) for each in batches[-1:])]


def _settle(spark: SparkSession) -> None:
    """Collect garbage and flush the disk, so that the next contender does not pay for this one."""
    assert spark._jvm is not None, "a running session has a JVM"
    spark._jvm.java.lang.System.gc()
    os.sync()


def _digest(spark: SparkSession, question: Question, paths: Paths) -> Digest:
    # Streams leave the last windows open and batch jobs do not, so only windows that end before the
    # final watermark count. Spark's watermark has milliseconds, hence a margin of one.
    watermark_us = greatest_event_time_us(spark, paths.source) - question.lag * 1_000_000
    closed = spark.read.parquet(str(paths.results)).where(
        f"unix_micros(e) <= {watermark_us - 1_000}"
    )
    types = dict(closed.dtypes)
    hashed = ", ".join(_comparable(column, types[column]) for column in question.columns)
    row = closed.selectExpr("count(*)", f"coalesce(bit_xor(xxhash64({hashed})), 0L)").first()
    assert row is not None
    return Digest(int(row[0]), int(row[1]))


def _comparable(column: str, type_name: str) -> str:
    """Return the column as a number that does not depend on the width of its type."""
    match type_name:
        case "timestamp":
            return f"unix_micros({column})"
        case "float" | "double":
            return f"CAST(round({column} * 1000) AS BIGINT)"
        case _:
            return f"CAST({column} AS BIGINT)"
