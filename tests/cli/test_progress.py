"""Progress that cannot be written: told once, and nothing stops."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from tidegate.cli.progress import LineProgress, Note, Totals, Unfailing
from tidegate.metrics.report import BatchReport


class Full(LineProgress):
    """Lines on a disk that is full."""

    def batch(self, name: str, report: BatchReport) -> None:
        self.totals.setdefault(name, Totals()).add(report)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def report(batch_id: int) -> BatchReport:
    return BatchReport(batch_id=batch_id, epoch=batch_id, clock_us=0, watermark_us=None, rows_in=2)


def test_progress_that_cannot_be_written_is_told_once_and_counts_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Unfailing(Full())
    for batch_id in range(3):
        progress.batch("q", report(batch_id))
    progress.note(Note(text="still here"))
    assert capsys.readouterr().err == (
        "cannot show progress: No space left on device; the run continues\nstill here\n"
    )
    assert progress.totals["q"].rows_in == 6


def test_a_closed_pipe_is_no_failure_of_the_process() -> None:
    shows = """
from tests.cli.test_progress import report
from tidegate.cli.progress import progress_for

with progress_for() as progress:
    for batch_id in range(3):
        progress.batch("q", report(batch_id))
        input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", shows],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith("q  batch 0  rows 2")
    process.stdout.close()
    process.stdin.write("\n\n\n")
    process.stdin.close()
    told = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), told) == (
        0,
        "cannot show progress: Broken pipe; the run continues\n",
    )
