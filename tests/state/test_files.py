"""Files of our own on a local disk: put in place as a whole, and only where there is none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Barrier, Thread

import pytest

from tidegate.state.files import LocalFiles

from .manifests import local_files, put_part


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return local_files(tmp_path)


def test_of_many_writers_one_wins_and_nothing_is_overwritten(files: LocalFiles) -> None:
    together = Barrier(8)
    lost: list[int] = []

    def put(number: int) -> None:
        together.wait()
        try:
            files.put_if_absent("manifests/7.json", str(number))
        except FileExistsError:
            lost.append(number)

    threads = [Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = int(files.read("manifests/7.json"))
    assert sorted([winner, *lost]) == list(range(8))
    assert os.listdir(f"{files.root}/manifests") == ["7.json"]


def test_a_file_system_without_links_renames(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    files.put_if_absent("writers/1.json", "first")
    with pytest.raises(FileExistsError):
        files.put_if_absent("writers/1.json", "second")
    assert files.read("writers/1.json") == "first"
    assert os.listdir(f"{files.root}/writers") == ["1.json"]


def test_what_cannot_be_written_leaves_nothing(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    files.put_if_absent("manifests/0.json", "")
    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        files.put_if_absent("manifests/1.json", "text")
    assert os.listdir(f"{files.root}/manifests") == ["0.json"]


def test_deleting_what_is_not_there_is_no_error(files: LocalFiles) -> None:
    put_part(files, "7-aa-batch")
    for _ in range(2):
        files.delete("segments/7-aa-batch")
        files.delete("manifests/0.json")
    assert files.entries("segments") == []
    assert files.entries("manifests") == []


def test_a_disk_that_is_gone_is_not_made_anew(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "tidegate").rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        files.put_if_absent("manifests/8.json", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
