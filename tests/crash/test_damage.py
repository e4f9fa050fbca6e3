"""Damage of the state is told; a file system that fails stops a batch and nothing else."""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.errors import StateError
from tidegate.state import store
from tidegate.state.hadoop_files import HadoopFiles

from .steps import BATCHES, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.state.files import Files

WINDOWS = "of windows from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z"


@pytest.fixture
def case(interpreted: SparkSession, tmp_path: Path) -> Case:
    return Case(spark=interpreted, checkpoint=tmp_path / "checkpoint")


def elsewhere(*_: object) -> tuple[str, str]:
    """A file system that is not the local disk."""
    return "elsewhere", "/"


def remove(part: Path) -> None:
    part.unlink()


def cut(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-10])


def scramble(part: Path) -> None:
    part.write_bytes(bytes(part.stat().st_size))


@pytest.mark.parametrize("where", ["local", "elsewhere"])
@pytest.mark.parametrize(
    ("harm", "told"),
    [(remove, "is missing"), (cut, "bytes instead of"), (scramble, "cannot be read")],
)
def test_a_damaged_file_is_named_with_the_windows_it_held(
    where: str, harm: Any, told: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "elsewhere":
        monkeypatch.setattr(store, "qualified", elsewhere)
    stepper = case.start()
    case.run(stepper, 0)
    parts = case.checkpoint.glob("tidegate/segments/0-*-batch/*.parquet")
    part = max(parts, key=lambda path: path.stat().st_size)  # another has no rows
    for checksum in part.parent.glob(".*.crc"):
        checksum.unlink()
    harm(part)
    case.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    case.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(StateError) as error:
            case.run(stepper, 1)
    finally:
        case.spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
        case.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    message = str(error.value)
    assert f"{part.name} of segment {part.parent.name} " in message
    assert told in message.split("\n\n")[0]
    assert WINDOWS in message
    assert case.target.epochs == {}


@dataclass
class FailsOnce:
    """Files of which one call fails, before it has done anything."""

    files: Files
    failing: int
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.files, name)
        if name == "where":
            return call

        def counted(*arguments: object) -> object:
            self.calls += 1
            if self.calls == self.failing:
                raise OSError(errno.ENOSPC, "No space left on device")
            return call(*arguments)

        return counted


@pytest.mark.whole  # The quick tests have bad weeks, in which calls fail by chance.
def test_each_call_of_the_file_system_may_fail_and_a_restart_goes_on_exactly(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = store.LocalFiles
    before = case.start()
    case.run(before, 0)
    shutil.copytree(case.checkpoint, tmp_path / "before")
    case.run(before, 1)
    undisturbed = dict(case.target.epochs)
    told: list[str] = []
    for failing in range(1, 100):
        case.target.epochs.clear()
        shutil.rmtree(case.checkpoint)
        shutil.copytree(tmp_path / "before", case.checkpoint)
        shaky: list[FailsOnce] = []

        def made(root: str, failing: int = failing, shaky: list[FailsOnce] = shaky) -> Any:
            shaky.append(FailsOnce(local(root), failing))
            return shaky[-1]

        monkeypatch.setattr(store, "LocalFiles", made)
        try:
            case.run(case.start(), 1)
        except StateError as error:
            told.append(str(error))
        monkeypatch.setattr(store, "LocalFiles", local)
        case.run(case.start(), 1)
        assert case.target.epochs == undisturbed, f"call {failing}"
        if shaky[0].calls < failing:
            break
    # Reading the newest manifest, the claim, the intent, the segment's files, the manifest ..
    assert len(told) >= 8
    assert all("No space left on device" in message for message in told), told
    assert failing > len(told) + 1, "cleaning up never stops a batch"


def test_paths_are_literal_wherever_they_lead(interpreted: SparkSession, tmp_path: Path) -> None:
    case = Case(spark=interpreted, checkpoint=tmp_path / "q[1] {a,b}*" / "day=1" / "x?")
    stepper = case.start()
    for number in range(len(BATCHES)):
        case.run(stepper, number)
    assert case.target.totals() == [5, 10, 13]


def test_another_file_system_is_as_good_as_the_local_disk(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "qualified", elsewhere)
    case = Case(spark=interpreted, checkpoint=tmp_path / "q[1]")
    for number in range(len(BATCHES)):
        case.run(case.start(), number)
    assert case.target.totals() == [5, 10, 13]

    files = HadoopFiles(interpreted, str(tmp_path / "files"))
    files.make_folder("manifests")
    files.put_if_absent("manifests/1.json", "first")
    with pytest.raises(FileExistsError):
        files.put_if_absent("manifests/1.json", "second")
    assert files.read("manifests/1.json") == "first"
    assert [entry.name for entry in files.entries("manifests")] == ["1.json"]
    files.delete("manifests/1.json")
    files.delete("manifests/1.json")
    assert files.entries("manifests") == files.entries("nowhere") == []
    with pytest.raises(FileNotFoundError):
        files.read("manifests/1.json")
