"""Reading the state without Spark and without Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tidegate.errors import StateError
from tidegate.state.manifest import StateFile
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader

from .manifests import local_files, manifest, segment

ROWS = [{"_pane": 0, "_k0": "ann", "count_1": 3}, {"_pane": 10, "_k0": None, "count_1": 1}]
PLAN = PlanFile(
    plan_id="p",
    fingerprint={"window": "tumbling"},
    keys={"_k0": "user"},
    merges={"count_1": "sum(count_1)"},
    values={"count(*)": "count_1"},
)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """The file of a checkpoint with one segment and two manifests."""
    folder = tmp_path / "tidegate" / "segments" / "1-aa-batch"
    files = local_files(tmp_path)
    folder.mkdir()
    part = folder / "part-0.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), part)
    file = StateFile(name=part.name, bytes=part.stat().st_size)
    for each in (manifest(0), manifest(1, segment(folder.name, file))):
        files.put_if_absent(f"manifests/{each.epoch}.json", each.to_json())
    files.put_if_absent("plan.json", PLAN.to_json())
    # Not of the state: no manifest names it.
    (folder / "part-1.parquet").write_bytes(b"")
    return part


def test_the_state_is_what_the_newest_manifest_names(tmp_path: Path, part: Path) -> None:
    reader = StateReader(tmp_path)
    assert reader.epochs() == [0, 1]
    newest = reader.manifest()
    assert newest.epoch == 1
    assert reader.paths(newest.segments) == [part]
    assert list(reader.rows(newest.tables.windows)) == ROWS
    assert reader.manifest(0).segments == ()
    assert reader.plan() == PLAN


def test_a_file_that_is_not_of_its_size_is_damage(tmp_path: Path, part: Path) -> None:
    reader = StateReader(tmp_path)
    segments = reader.manifest().segments
    size = part.stat().st_size
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(StateError) as error:
        reader.paths(segments)
    assert str(error.value) == (
        f"checkpoint {tmp_path} is damaged: part-0.parquet of segment 1-aa-batch has 100 bytes "
        f"instead of {size:,}\n\n"
        "The segment holds 7 rows of the state, of windows from 1970-01-01T00:00:00Z to "
        "1970-01-01T00:00:10Z; without the file their results would be wrong, so the query does "
        "not go on. Put the file back under tidegate/segments/1-aa-batch, or restore the whole "
        "checkpoint from one copy, or start with a new checkpoint."
    )
    part.unlink()
    with pytest.raises(StateError, match="segment 1-aa-batch is missing"):
        list(reader.rows(segments))


def test_a_folder_without_state_is_told(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="holds no state"):
        StateReader(tmp_path).manifest()
    with pytest.raises(StateError, match=r"plan\.json cannot be read"):
        StateReader(tmp_path).plan()


def test_reading_loads_neither_spark_nor_java() -> None:
    code = "import sys, tidegate.state.reader; print({'pyspark', 'py4j'} & set(sys.modules))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "set()"
