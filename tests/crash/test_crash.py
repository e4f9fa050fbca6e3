"""Kill the process between any two writes of a batch: nothing is lost or duplicated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from short_lived import SHORT_LIVED
from side_by_side import selected
from tidegate.engine.faults import FAULT_POINTS
from tidegate.errors import StateError

from . import job
from .steps import POINTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

# The epoch in which queries are killed: it closes a window and has a late row, so every write
# happens in it.
KILLED = 2
BATCHES = (
    [("00:00:01", "ann", 1), ("00:00:12", "bob", 2)],
    [("00:00:22", "ann", 3), ("00:00:31", "bob", 4), ("00:00:14", "cy", 5)],
    [("00:00:45", "ann", 6), ("00:00:02", "ann", 7), ("00:00:33", "bob", 8)],
    [("00:01:20", "ann", 9), ("00:00:05", "bob", 10)],
)

WRITTEN = {
    "before_segment": [],
    "after_segment": ["segment"],
    "after_intent": ["segment", "intent"],
    "after_results": ["segment", "intent", "results"],
    "after_side_output": ["segment", "intent", "results", "late"],
    "after_merge": ["segment", "intent", "results", "late", "merged segment"],
    "after_manifest": ["segment", "intent", "results", "late", "merged segment", "manifest"],
    "after_clean_up": ["intent", "results", "late", "merged segment", "manifest"],
}


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a query that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_input(folder)
    run = job.run(spark, folder)
    assert run.status["late"] == 2
    return folder


@pytest.fixture(scope="module")
def undisturbed(finished: Path) -> Answers:
    return answers(finished)


@pytest.fixture(scope="module")
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that has, for each selected point, the folder of a query killed there."""
    return killed_at(tmp_path_factory.mktemp("killed"), selected(request, "point"))


@pytest.fixture(scope="module")
def killed_ahead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Likewise, of queries whose steps are finished beside the next batch."""
    points = selected(request, "later_point")
    return killed_at(tmp_path_factory.mktemp("killed"), points, "--ahead")


def killed_at(folder: Path, points: list[str], *more: str) -> Path:
    for point in points:
        (folder / point).mkdir()
        write_input(folder / point)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.job", str(folder), str(KILLED), *points, *more],
        cwd=ROOT,
        env=SHORT_LIVED,
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    return folder


# Bad weeks raise at all points; a process is killed at the others with ``make test-all``.
QUICK = ("after_segment", "after_results")


@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.whole) for each in POINTS],
)
def test_a_killed_query_gives_the_results_of_an_undisturbed_one(
    point: str, undisturbed: Answers, spark: SparkSession, killed: Path
) -> None:
    folder = killed / point
    assert answers(folder) != undisturbed, "it was killed before it was through"
    assert written(folder) == WRITTEN[point], "it was killed where it was to be"
    job.run(spark, folder)
    assert answers(folder) == undisturbed


@pytest.mark.whole
@pytest.mark.parametrize("later_point", FAULT_POINTS)
def test_a_query_that_is_killed_while_it_catches_up_gives_the_same_results(
    later_point: str, undisturbed: Answers, spark: SparkSession, killed_ahead: Path
) -> None:
    folder, expected = killed_ahead / later_point, results_of(undisturbed)
    assert results_of(answers(folder)) != expected, "it was killed before it was through"
    job.run(spark, folder, ahead=True)
    assert results_of(answers(folder)) == expected


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        (["offsets", "commits", "sources", "metadata"], "Spark's part is of query"),
        (["offsets/3", "commits/3", "offsets/2", "commits/2"], "Spark is at batch 2, the state"),
    ],
    ids=["deleted", "older"],
)
def test_a_part_of_spark_that_does_not_fit_the_state_is_refused_and_nothing_changes(
    gone: list[str], told: str, finished: Path, undisturbed: Answers, spark: SparkSession
) -> None:
    kept = finished.with_name(f"{finished.name}-kept")
    shutil.copytree(finished, kept)
    try:
        for name in gone:
            path = finished / "checkpoint" / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(StateError, match=told):
            job.run(spark, finished)
        assert answers(finished) == undisturbed
        state = sorted(path.name for path in (finished / "checkpoint" / "tidegate").rglob("*"))
        assert state == sorted(path.name for path in (kept / "checkpoint" / "tidegate").rglob("*"))
    finally:
        shutil.rmtree(finished)
        kept.rename(finished)


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
    """Return every line of every result file, by folder, since that names the epoch."""
    found: Answers = {}
    for kind in ("out", "late"):
        for path in sorted((folder / kind).glob("emit_epoch=*/*.json")):
            name = f"{kind}/{path.parent.name}"
            # The clock in a side output record differs between two runs.
            lines = (json.loads(line) for line in path.read_text().splitlines())
            rows = (json.dumps({**line, "processing_time": None}) for line in lines)
            found.setdefault(name, Counter()).update(rows)
    return found


def results_of(found: Answers) -> Answers:
    """Return the answers without side output."""
    return {name: lines for name, lines in found.items() if name.startswith("out/")}


def written(folder: Path) -> list[str]:
    """Return what the killed batch has written, in order."""
    state = folder / "checkpoint" / "tidegate"
    writes = {
        "segment": state.glob(f"segments/{KILLED}-*-batch"),
        "intent": state.glob(f"intents/{KILLED}-*.json"),
        "results": folder.glob(f"out/emit_epoch={KILLED}/_SUCCESS"),
        "late": folder.glob(f"late/emit_epoch={KILLED}/_SUCCESS"),
        "merged segment": state.glob(f"segments/{KILLED}-*-merged"),
        "manifest": state.glob(f"manifests/{KILLED}.json"),
    }
    return [name for name, paths in writes.items() if any(paths)]
