"""Kill the process after a tick has closed windows: each window is still emitted once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from short_lived import SHORT_LIVED

from . import clock_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.metrics.report import BatchReport

ROOT = Path(__file__).parents[2]

# One batch per list; a batch has one clock, so its windows are due at the same tick.
FILES = (("ann", "bob"), ("cy", "ann", "dan"))
NAMES = sorted(name for file in FILES for name in file)


@pytest.mark.whole
def test_a_tick_killed_before_its_commit_closes_the_same_windows_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_input(tmp_path)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.crash.clock_job", str(tmp_path), str(len(NAMES))],
        cwd=ROOT,
        env=SHORT_LIVED,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    written = results(tmp_path)
    epoch = max(row["epoch"] for row in written)
    assert files_read(tmp_path, epoch) == files_read(tmp_path, epoch - 1), "it was a tick"
    assert not (tmp_path / "checkpoint" / "tidegate" / "manifests" / f"{epoch}.json").exists()

    # The tick is replayed, and more time passes than any window waits.
    reports: Queue[BatchReport] = Queue()
    run = clock_job.start(spark, tmp_path, clock_job.results(tmp_path), reports.put)
    first = reports.get(timeout=60)
    while reports.get(timeout=60).clock_us < first.clock_us + 2_000_000:
        pass
    run.stop()
    assert first.epoch == epoch
    rows = results(tmp_path)
    assert [row for row in rows if row["epoch"] == epoch] == [
        row for row in written if row["epoch"] == epoch
    ]
    assert sorted(row["name"] for row in rows) == NAMES
    assert len({row["id"] for row in rows}) == len(rows)


def write_input(folder: Path) -> None:
    (folder / "in").mkdir()
    for number, names in enumerate(FILES):
        path = folder / "in" / f"{number}.json"
        path.write_text("\n".join(json.dumps({"name": name}) for name in names))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def results(folder: Path) -> list[dict[str, object]]:
    """Return the windows of all completely written epochs, with the epoch of each."""
    rows = []
    for mark in (folder / "out").glob("emit_epoch=*/_SUCCESS"):
        epoch = int(mark.parent.name.partition("=")[2])
        lines = [
            line for path in mark.parent.glob("*.json") for line in path.read_text().split("\n")
        ]
        rows += [{**json.loads(line), "epoch": epoch} for line in lines if line]
    return sorted(rows, key=repr)


def files_read(folder: Path, batch_id: int) -> int:
    """Return the offset of the file source in a batch; a tick moves only the other source."""
    offsets = (folder / "checkpoint" / "offsets" / str(batch_id)).read_text().splitlines()[2:]
    (log_offset,) = (json.loads(each)["logOffset"] for each in offsets if "logOffset" in each)
    return int(log_offset)
