"""``bench flink``: Tidegate and Flink SQL in turn, over the same files, with answers checked."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.flink.answers import Checked, Expected, expect
from bench.flink.cluster import Cluster, Unavailable
from bench.flink.contenders import Answer, Folders, flink_answer, tidegate_answer
from bench.flink.questions import QUESTIONS, Question
from bench.report import Figure, Report, Table, paired
from bench.rounds import Harness, progress, verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
OURS = "tidegate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """How a contender answers, and the processes in which it does.

    One that takes several minutes runs only in the last round, once the others have warmed up what
    they share with it.
    """

    answer: Answer
    processes: Sequence[int]
    last_round_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run: wall time, CPU time of all processes of the contender, and its answer."""

    seconds: float
    core_seconds: float
    checked: Checked


def flink(harness: Harness) -> Report:
    """Ask Tidegate and Flink each question, or those of ``--only``; or say how to get Flink."""
    try:
        cluster = Cluster(harness.scratch)
    except Unavailable as missing:
        progress(f"flink: skipped, because {missing}")
        return Report(tables=[], figures=[])
    reports = []
    try:
        for name in harness.only or QUESTIONS:
            ask, size = QUESTIONS[name]
            reports.append(compare(harness, cluster, ask(harness.rows_or(size))))
    finally:
        cluster.stop()
    return Report(
        tables=[table for report in reports for table in report.tables],
        figures=[figure for report in reports for figure in report.figures],
        failures=[failure for report in reports for failure in report.failures],
    )


def compare(harness: Harness, cluster: Cluster, question: Question) -> Report:
    """Run the contenders in turn for every round, after one round that is not measured."""
    spark = harness.spark
    for table in question.tables:
        table.write(spark)
    expected = expect(spark, question, harness.scratch)
    contenders = {
        OURS: Contender(
            answer=tidegate_answer(spark), processes=(os.getpid(), _java_process(spark))
        ),
        "flink, heap": Contender(answer=flink_answer(cluster, "hashmap"), processes=(cluster.pid,)),
        "flink, rocksdb": Contender(
            answer=flink_answer(cluster, "rocksdb"),
            processes=(cluster.pid,),
            last_round_only=True,
        ),
    }
    runs: dict[str, list[Measured]] = {label: [] for label in contenders}
    for number in range(harness.rounds + 1):
        for label, contender in contenders.items():
            if contender.last_round_only and number < harness.rounds:
                continue
            measured = _run(harness, contender, expected, all_rows=label == OURS)
            progress(
                f"{question.name}, round {number}: {label} {measured.seconds:.2f} s, "
                f"{measured.core_seconds:.1f} core-seconds"
            )
            if number:
                runs[label].append(measured)
    return _report(question, runs)


def _run(harness: Harness, contender: Contender, expected: Expected, *, all_rows: bool) -> Measured:
    spark = harness.spark
    folder = Path(tempfile.mkdtemp(prefix="flink-", dir=harness.scratch))
    folders = Folders(results=folder / "results", checkpoint=folder / "checkpoint")
    # Nobody pays for the garbage, or the unwritten files, of the one before.
    assert spark._jvm is not None, "a running session has a JVM"
    spark._jvm.java.lang.System.gc()
    os.sync()
    try:
        used = _core_seconds(contender.processes)
        started = time.perf_counter()
        contender.answer(expected.question, folders)
        seconds = time.perf_counter() - started
        core_seconds = _core_seconds(contender.processes) - used
        checked = expected.check(spark, folders.results, all_rows=all_rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Measured(seconds=seconds, core_seconds=core_seconds, checked=checked)


def _report(question: Question, runs: Mapping[str, Sequence[Measured]]) -> Report:
    failures = [
        f"{question.name}: {label}, round {number}: {run.checked.fault}"
        for label, measured in runs.items()
        for number, run in enumerate(measured, start=1)
        if run.checked.fault
    ]
    table = Table(
        title=f"{question.name}: {question.rows:,} rows, medians",
        header=[
            "",
            "M rows/s",
            "seconds",
            "least",
            "most",
            "core-seconds",
            "rounds",
            "results checked",
        ],
        rows=[_line(question, label, measured) for label, measured in runs.items()],
        notes=verdict(failures),
    )
    figures = [
        _paired(f"flink_{question.name}_vs_{backend}", runs[f"flink, {backend}"], runs[OURS])
        for backend in ("heap", "rocksdb")
    ]
    return Report(tables=[table], figures=figures, failures=failures)


def _line(question: Question, label: str, measured: Sequence[Measured]) -> list[str]:
    seconds = [run.seconds for run in measured]
    return [
        label,
        f"{question.rows / statistics.median(seconds) / 1e6:.2f}",
        f"{statistics.median(seconds):.2f}",
        f"{min(seconds):.2f}",
        f"{max(seconds):.2f}",
        f"{statistics.median(run.core_seconds for run in measured):.1f}",
        str(len(measured)),
        f"{measured[-1].checked.rows:,}",
    ]


def _paired(name: str, theirs: Sequence[Measured], ours: Sequence[Measured]) -> Figure:
    """Return the figure of their time over ours; those that ran in fewer rounds ran in the last."""
    return paired(
        name, [run.seconds for run in theirs], [run.seconds for run in ours[-len(theirs) :]]
    )


def _java_process(spark: SparkSession) -> int:
    assert spark._jvm is not None, "a running session has a JVM"
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def _core_seconds(processes: Sequence[int]) -> float:
    """Return the CPU time that the processes have used so far."""
    ticks = 0
    for process in processes:
        # The name, in brackets, may contain spaces; behind it, user and system time are at 11, 12.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_A_SECOND
