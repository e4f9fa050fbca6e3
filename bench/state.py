"""State: how much fits, and whether it grows with rows or only with groups."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.contenders import CONTENDERS, Paths, Question, per_window_and_key
from bench.report import Figure, Report, Table, format_bytes
from bench.rounds import Harness, progress
from bench.state_groups import DRIVER_MEMORY, Outcome, question_of, window
from bench.workload import Workload, generate

# Where each contender keeps its state, below the checkpoint.
STATE_FOLDERS = {"tidegate": "tidegate", "spark": "state"}
ROOT = Path(__file__).parent.parent


def state(harness: Harness) -> Report:
    """Answer both questions about state."""
    groups, rows = state_groups(harness), state_rows(harness)
    return Report(
        tables=[*groups.tables, *rows.tables],
        figures=[*groups.figures, *rows.figures],
        failures=[*groups.failures, *rows.failures],
    )


def state_groups(harness: Harness) -> Report:
    """Open five million groups at once in a driver of 2 GB; one row an hour later closes them."""
    question = question_of(harness.rows_or(10_000_000))
    groups = question.workload.rows // 2
    generate(harness.spark, question.workload)
    outcomes = {name: _in_small_driver(harness, question, name) for name in STATE_FOLDERS}
    lines = [_outcome_line(name, outcome) for name, outcome in outcomes.items()]
    failures = [
        f"state_groups: {name} did not finish: {outcome}"
        for name, outcome in outcomes.items()
        if isinstance(outcome, str)
    ]
    failures += [
        f"state_groups: {name} closed {outcome.results:,} groups of {groups:,}"
        for name, outcome in outcomes.items()
        if isinstance(outcome, Outcome) and outcome.results != groups
    ]
    table = Table(
        title=(
            f"state_groups: {groups:,} groups open at once, {question.workload.rows:,} rows, "
            f"driver heap {DRIVER_MEMORY}"
        ),
        header=["", "fill s", "close s", "JVM peak RSS", "state on disk", "groups closed"],
        rows=lines,
        notes=failures or ["all finished, and every group closed"],
    )
    return Report(tables=[table], figures=[], failures=failures)


def state_rows(harness: Harness) -> Report:
    """Compare bytes of state after 50 batches of one window and 100 groups: 1 M and 10 K rows."""
    sizes = {
        (name, rows): _state_bytes(harness, name, rows)
        for name in STATE_FOLDERS
        for rows in (10_000, 1_000_000)
    }
    ratios = {name: sizes[name, 1_000_000] / sizes[name, 10_000] for name in STATE_FOLDERS}
    table = Table(
        title="state_rows: bytes of state on disk after 50 batches, one window, 100 groups",
        header=["", "10 K rows", "1 M rows", "ratio"],
        rows=[
            [
                name,
                format_bytes(sizes[name, 10_000]),
                format_bytes(sizes[name, 1_000_000]),
                f"{ratios[name]:.2f}",
            ]
            for name in STATE_FOLDERS
        ],
    )
    figure = Figure(name="state_1m_vs_10k", value=ratios["tidegate"], target="<= 1.5")
    return Report(tables=[table], figures=[figure])


def _in_small_driver(harness: Harness, question: Question, contender: str) -> Outcome | str:
    """Run ``bench.state_groups`` in a process; return its report, or how the process ended."""
    folder = Path(tempfile.mkdtemp(prefix=f"groups-{contender}-", dir=harness.scratch))
    command = [sys.executable, "-m", "bench.state_groups", contender]
    command += [str(question.workload.rows), STATE_FOLDERS[contender], str(folder)]
    started = time.perf_counter()
    try:
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    progress(f"state_groups: {contender} {time.perf_counter() - started:.0f} s")
    if process.returncode != 0:
        last_lines = " | ".join(process.stderr.strip().splitlines()[-3:])
        return f"exit status {process.returncode}: {last_lines}"
    return Outcome(**json.loads(process.stdout.strip().splitlines()[-1]))


def _outcome_line(name: str, outcome: Outcome | str) -> Sequence[str]:
    if isinstance(outcome, str):
        return [name, "-", "-", "-", "-", "NOT FINISHED"]
    shown = asdict(outcome)
    return [
        name,
        f"{shown['fill_seconds']:.1f}",
        f"{shown['close_seconds']:.1f}",
        format_bytes(shown["peak_rss_bytes"]),
        format_bytes(shown["state_bytes"]),
        f"{shown['results']:,}",
    ]


def _state_bytes(harness: Harness, contender: str, rows: int) -> int:
    workload = Workload(
        name="one-window",
        rows=rows,
        files=50,
        span_seconds=3_000,
        key="pmod(xxhash64(id, 'key'), 100)",
    )
    question = per_window_and_key(
        "state_rows", workload, sql="tumblingwindow('hh', 1)", window=window, lag=0
    )
    source = generate(harness.spark, workload)
    folder = Path(tempfile.mkdtemp(prefix=f"rows-{contender}-", dir=harness.scratch))
    paths = Paths(source=source, results=folder / "results", checkpoint=folder / "checkpoint")
    try:
        CONTENDERS[contender](harness.spark, question, paths)
        size = bytes_below(paths.checkpoint / STATE_FOLDERS[contender])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    progress(f"state_rows: {contender}, {rows:,} rows: {format_bytes(size)}")
    return size


def bytes_below(folder: Path) -> int:
    """Return the size of all files below the folder, including hidden ones and checksums."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert size > 0, f"no state below {folder}"
    return size
