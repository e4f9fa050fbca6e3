"""Fifty million open groups: what a batch costs beside them, and a restart, and their close.

Each part runs in a process of its own with a small heap (``bench.open_groups_job``). The first is
killed in the middle of a batch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.open_groups_job import BATCHES, DRIVER_MEMORY, ROWS_PER_GROUP
from bench.report import Figure, Report, Table, format_bytes
from bench.rounds import Harness, progress

ROOT = Path(__file__).parent.parent
# All groups are open by then; then the process is killed.
KILL_AFTER = 3 * BATCHES // 4
# The first batches, which compile code, are not counted; so many of each end are.
LEFT_OUT, COUNTED = 2, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a process printed, and when: seconds since it was started."""

    seconds: float
    numbers: Mapping[str, Any]


def open_groups(harness: Harness) -> Report:
    """Open 50 M groups with 200 M rows in a heap of 3 GB, kill the process, go on, close them."""
    rows = harness.rows_or(200_000_000)
    rows -= rows % (BATCHES * ROWS_PER_GROUP)
    folder = Path(tempfile.mkdtemp(prefix="open-groups-", dir=harness.scratch))
    harness.stop()  # its heap is needed here
    try:
        return _measured(_Job(rows=rows, folder=folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Starts the processes."""

    rows: int
    folder: Path

    def lines(self, *arguments: str, until: int | None = None) -> list[Line]:
        """Return what a process prints; kill it and its Java after so many lines."""
        found = []
        for line in self._lines(*arguments):
            found.append(line)
            progress(f"open_groups: {line.seconds:.0f} s: {dict(line.numbers)}")
            if len(found) == until:
                break
        return found

    def _lines(self, *arguments: str) -> Iterator[Line]:
        stage, *name = arguments
        command = [sys.executable, "-m", "bench.open_groups_job", stage, str(self.rows)]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, str(self.folder), *name],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None, "it is a pipe"
        try:
            for text in process.stdout:
                yield Line(seconds=time.perf_counter() - started, numbers=json.loads(text))
            if process.wait() != 0:
                raise RuntimeError(f"bench.open_groups_job {stage} ended with {process.returncode}")
        finally:
            # Only while it runs: its number may be another's afterwards.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _measured(job: _Job) -> Report:
    job.lines("write")
    filled = job.lines("run", "state", until=KILL_AFTER)
    fresh = job.lines("run", "fresh", until=1)[0]
    *rest, end = job.lines("run", "state")
    (job.folder / "closing.parquet").rename(job.folder / "source" / "events-99999.parquet")
    *_, closed, _ = job.lines("run", "state")
    (checked,) = job.lines("check", "state")
    batches = [line.numbers for line in (*filled, *rest)]
    groups = job.rows // ROWS_PER_GROUP
    found = {"results": checked.numbers["results"], "rows": checked.numbers["rows"]}
    failures = (
        []
        if found == {"results": groups, "rows": job.rows}
        else [f"open_groups: {found}, not {groups:,} results of {job.rows:,} rows"]
    )
    early, late = _durations(batches[LEFT_OUT:][:COUNTED]), _durations(batches[-COUNTED:])
    # Without the first ones of each process.
    steady = _durations([line.numbers for run in (filled, rest) for line in run[LEFT_OUT:]])
    restart, merges = rest[0], sum(each["merges"] for each in batches)
    table = Table(
        title=f"open_groups: {groups:,} groups open at once, {job.rows:,} rows in {BATCHES} "
        f"batches, driver heap {DRIVER_MEMORY}",
        header=["", "measured"],
        rows=[
            ["median batch, early", f"{statistics.median(early) / 1000:.1f} s"],
            ["median batch, late", f"{statistics.median(late) / 1000:.1f} s"],
            ["longest batch", f"{max(steady) / 1000:.1f} s"],
            ["merges of segments", str(merges)],
            ["state rows", f"{batches[-1]['state_rows']:,}"],
            ["state on disk", format_bytes(batches[-1]["state_bytes"])],
            ["heap in use at the end", f"{end.numbers['end']['heap_mb']} MB"],
            ["JVM peak RSS", f"{max(each['peak_rss_mb'] for each in batches)} MB"],
            ["process to first batch, after the kill", f"{restart.seconds:.1f} s"],
            ["the same on a new checkpoint", f"{fresh.seconds:.1f} s"],
            ["the batch that closes all", f"{closed.numbers['duration_ms'] / 1000:.1f} s"],
        ],
        notes=failures or ["every group closed, and every row is in its group"],
    )
    figures = [
        Figure(
            name="open_groups_late_vs_early",
            value=statistics.median(late) / statistics.median(early),
            target="<= 1.3",
        ),
        Figure(name="open_groups_restart_seconds", value=restart.seconds, target="<= 20"),
        Figure(name="open_groups_restart_vs_new", value=restart.seconds / fresh.seconds),
    ]
    return Report(tables=[table], figures=figures, failures=failures)


def _durations(batches: Sequence[Mapping[str, Any]]) -> list[int]:
    return [each["duration_ms"] for each in batches]
