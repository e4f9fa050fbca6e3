"""Kill the process between any two writes of a batch: nothing is lost, nothing is twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.engine.faults import FAULT_POINTS

from . import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

# A JVM that is killed after three batches does not live to see code that is compiled well.
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}

# Each batch closes a window and has a late row (from the third on), so that every write happens in
# epoch 2.
BATCHES = (
    [("00:00:01", "ann", 1), ("00:00:12", "bob", 2)],
    [("00:00:22", "ann", 3), ("00:00:31", "bob", 4), ("00:00:14", "cy", 5)],
    [("00:00:45", "ann", 6), ("00:00:02", "ann", 7), ("00:00:33", "bob", 8)],
    [("00:01:20", "ann", 9), ("00:00:05", "bob", 10)],
)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("undisturbed")
    write_input(folder)
    run = job.run(spark, folder)
    assert run.status["late"] == 2
    return answers(folder)


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_a_killed_query_gives_the_results_of_an_undisturbed_one(
    point: str, undisturbed: Answers, spark: SparkSession, tmp_path: Path
) -> None:
    write_input(tmp_path)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.crash.job", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **SHORT_LIVED, "TIDEGATE_FAULT": f"{point}:2"},
        capture_output=True,
        check=False,
        timeout=180,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert answers(tmp_path) != undisturbed, "it was killed before it was through"
    job.run(spark, tmp_path)
    assert answers(tmp_path) == undisturbed


Answers = dict[str, Counter[str]]


def write_input(folder: Path) -> None:
    (folder / "in").mkdir()
    for number, rows in enumerate(BATCHES):
        lines = (
            json.dumps({"ts": f"2026-01-01 {ts}", "user": user, "pages": pages})
            for ts, user, pages in rows
        )
        path = folder / "in" / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def answers(folder: Path) -> Answers:
    """Every line of every result file, by folder: which epoch it is in is part of the answer."""
    found: Answers = {}
    for kind in ("out", "late"):
        for path in sorted((folder / kind).glob("emit_epoch=*/*.json")):
            name = f"{kind}/{path.parent.name}"
            # The clock of a batch is part of a side output record and differs between two runs.
            lines = (json.loads(line) for line in path.read_text().splitlines())
            rows = (json.dumps({**line, "processing_time": None}) for line in lines)
            found.setdefault(name, Counter()).update(rows)
    return found
