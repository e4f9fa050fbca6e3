"""Folders on a local disk are made before Spark writes them, and are what Spark would make."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.spark import files
from tidegate.spark.files import write_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITTER = ["_temporary", "_temporary/0", "_temporary/0/_temporary"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders that Python creates, not Spark."""
    folders: list[Path] = []
    make = os.mkdir

    def mkdir(path: str) -> None:
        folders.append(Path(path))
        make(path)

    monkeypatch.setattr(files.os, "mkdir", mkdir)
    return folders


@pytest.fixture
def strict_umask() -> Iterator[None]:
    """Use a umask that gives rights to the owner alone, as services may."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def write(frame: DataFrame, folder: str, format: str = "json") -> None:
    write_folder(frame, folder, format=format, options={})


def rights(root: Path) -> dict[str, str]:
    paths = [root, *root.rglob("*")]
    names = {
        path: "part" if path.name.lstrip(".").startswith("part") else path.name for path in paths
    }
    return {names[path]: stat.filemode(path.stat().st_mode) for path in paths if path != root}


@pytest.mark.usefixtures("strict_umask")
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize("group", [0, stat.S_ISGID])
def test_permissions_and_names_of_folders_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, made: list[Path], scheme: str, group: int
) -> None:
    tmp_path.chmod(0o755 | group)
    rows = spark.range(3).coalesce(1)
    rows.write.mode("overwrite").json(str(tmp_path / "theirs" / "results" / "emit_epoch=1"))
    assert not made
    folder = tmp_path / "ours" / "results" / "emit_epoch=1"
    write(rows, f"{scheme}{folder}")
    assert made == [
        tmp_path / "ours",
        tmp_path / "ours" / "results",
        folder,
        *(folder / name for name in COMMITTER),
    ]
    assert rights(tmp_path / "ours") == rights(tmp_path / "theirs")
    expected = "drwxr-sr-x" if group else "drwxr-xr-x"
    assert stat.filemode((tmp_path / "ours").stat().st_mode) == expected


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "orc"])
def test_the_output_of_an_earlier_attempt_is_replaced(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    folder = tmp_path / "emit_epoch=1"
    write(spark.range(5), str(folder), format)
    write(spark.range(2), str(folder), format)
    assert spark.read.format(format).load(str(folder)).count() == 2
    # A process killed just before Spark writes leaves empty folders.
    killed = tmp_path / "emit_epoch=2"
    (killed / COMMITTER[-1]).mkdir(parents=True)
    write(spark.range(2), str(killed), format)
    assert spark.read.format(format).load(str(killed)).count() == 2
    assert not (killed / "_temporary").exists()


def test_a_path_through_a_symlink_and_back_is_resolved_as_by_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    for count in (5, 2):
        write(spark.range(count), f"{tmp_path}/link/../results")
    assert spark.read.json(str(tmp_path / "results")).count() == 2
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["deep"]


def test_spark_creates_folders_with_remote_or_relative_paths(
    spark: SparkSession, tmp_path: Path, made: list[Path]
) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    relative = os.path.relpath(tmp_path / "relative")
    write(spark.range(2), relative)
    assert spark.read.json(relative).count() == 2

    default = conf.get("fs.defaultFS")
    conf.set("fs.defaultFS", "s3a://elsewhere")
    try:
        assert files._local_path(spark, "/results") is None
        assert files._local_path(spark, "file:/results") == "/results"
    finally:
        conf.set("fs.defaultFS", default)

    assert files._local_path(spark, "hdfs://host/results") is None
    assert files._local_path(spark, "file://host/results") is None
    assert not made


def test_spark_creates_folders_if_the_umask_is_symbolic_or_python_may_not(
    spark: SparkSession, tmp_path: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    umask = conf.get("fs.permissions.umask-mode")
    conf.set("fs.permissions.umask-mode", "u=rwx,g=rx,o=")
    try:
        write(spark.range(2), str(tmp_path / "words"))
    finally:
        conf.set("fs.permissions.umask-mode", umask)
    assert not made

    def refuse(path: str) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(files.os, "mkdir", refuse)
    write(spark.range(2), str(tmp_path / "refused"))
    for name in ("words", "refused"):
        assert spark.read.json(str(tmp_path / name)).count() == 2
