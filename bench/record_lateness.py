"""The cost of lateness exact to the record: rows out of order, none of them late, and some late."""

from __future__ import annotations

from dataclasses import replace

from bench.contenders import Question
from bench.report import Report
from bench.rounds import Entry, Harness, disagreements, measure
from bench.throughput import tumbling
from bench.timings import slower, timing_table

RECORD = {"lateness": "record"}


def record_lateness(harness: Harness) -> Report:
    """Compare the times of ``lateness = "record"`` and ``"batch"`` on rows of which none is late.

    Beside it, for information, a lag so short that rows are behind in every batch.
    """
    question = tumbling(harness, 10)
    behind = replace(question, name="behind", settings=RECORD, lag=1)
    measured = measure(
        harness,
        [
            _entry("batch", question),
            _entry("record", replace(question, settings=RECORD)),
            _entry("record, rows behind", behind),
        ],
    )
    failures = disagreements(measured)
    title = f"record_lateness: {question.workload.rows:,} rows, median of {harness.rounds}"
    table = timing_table(title, measured, failures)
    figure = slower(
        "record_vs_batch_lateness", measured["record"], measured["batch"], target="<= 1.2"
    )
    return Report(tables=[table], figures=[figure], failures=failures)


def _entry(label: str, question: Question) -> Entry:
    return Entry(label=label, contender="tidegate", question=question)
