"""Sessions against Spark's own ``session_window``: with many rows each, and with about one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.contenders import per_window_and_key
from bench.report import Report
from bench.rounds import Harness
from bench.throughput import compare
from bench.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column

SLOT_SECONDS = 20


def session_dense(harness: Harness) -> Report:
    """Sessions of 400 rows: half of the keys send rows for 20 s, then the other half; gap 5 s."""
    rows, span_seconds = harness.rows_or(16_000_000), 160
    second = f"(id * {span_seconds}L DIV {rows}L)"
    workload = Workload(
        name="session_dense",
        rows=rows,
        files=8,
        span_seconds=span_seconds,
        jitter_us=2_000_000,
        key=f"2 * pmod(xxhash64(id, 'key'), 5000) + pmod({second} DIV {SLOT_SECONDS}, 2)",
    )
    return _compare(harness, workload, gap=5, targets={"spark": ">= 3"})


def session_sparse(harness: Harness) -> Report:
    """Sessions of one or two rows: a million keys, a row each every 10 s on average; gap 2 s."""
    workload = Workload(
        name="session_sparse",
        rows=harness.rows_or(4_000_000),
        files=8,
        span_seconds=40,
        jitter_us=2_000_000,
        key="pmod(xxhash64(id, 'key'), 1000000)",
    )
    return _compare(harness, workload, gap=2, targets={"spark": ">= 1", "batch": ">= 0.5"})


def _compare(
    harness: Harness, workload: Workload, *, gap: int, targets: Mapping[str, str]
) -> Report:
    """Run ``throughput.compare`` with targets for the figures against others, by their names."""
    question = per_window_and_key(
        workload.name,
        workload,
        sql=f"sessionwindow('ss', {gap})",
        window=lambda: _session_window(f"{gap} seconds"),
    )
    report = compare(harness, question)
    figures = [
        replace(figure, target=targets.get(figure.name.rpartition("_vs_")[2], ""))
        for figure in report.figures
    ]
    return replace(report, figures=figures)


def _session_window(gap: str) -> Column:
    from pyspark.sql import functions

    return functions.session_window("ts", gap)
