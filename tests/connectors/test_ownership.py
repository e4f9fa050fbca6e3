"""A folder of results has one owner, and epochs that its checkpoint does not know are deleted."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from tidegate.connectors.ownership import (
    OWNER_FILE,
    STAGING,
    STAGING_GRACE_S,
    Owner,
    check_owner,
    owner_of,
    take,
)
from tidegate.errors import ConfigError
from tidegate.spark.folders import LocalFolder

MINE = Owner(id="a1", checkpoint="/checkpoints/mine")
OTHER = Owner(id="b2", checkpoint="/checkpoints/other")


def epochs(path: Path, *numbers: int) -> None:
    for number in numbers:
        (path / f"emit_epoch={number}").mkdir(parents=True)
        (path / f"emit_epoch={number}" / "part-0.json").write_text("{}")


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def test_the_first_query_becomes_the_owner_and_comes_back(tmp_path):
    folder = LocalFolder(tmp_path / "out")
    take(folder, "out", MINE, None)
    assert owner_of(folder) == MINE
    epochs(tmp_path / "out", 0, 1)
    take(folder, "out", Owner(id="a1", checkpoint="/moved"), 1)
    assert names(tmp_path / "out") == [OWNER_FILE, "emit_epoch=0", "emit_epoch=1"]


@pytest.mark.parametrize("newest", [None, 0, 7])
def test_another_checkpoint_is_refused_with_the_ways_out_and_nothing_changes(tmp_path, newest):
    folder = LocalFolder(tmp_path)
    take(folder, "out", OTHER, None)
    epochs(tmp_path, 0, 1)
    before = names(tmp_path)
    with pytest.raises(ConfigError) as refused:
        take(folder, "out", MINE, newest)
    assert str(refused.value) == (
        "out holds the results of another query: its owner is checkpoint /checkpoints/other "
        "(id b2)\n\nWrite to another folder. If that query is gone for good, move its results away "
        "or delete the folder."
    )
    assert names(tmp_path) == before


def test_a_new_checkpoint_is_refused_before_it_has_an_id(tmp_path):
    folder = LocalFolder(tmp_path)
    take(folder, "out", OTHER, None)
    with pytest.raises(ConfigError, match="the results of another query"):
        check_owner(folder, "out", None)


def test_results_of_nobody_are_neither_replaced_nor_deleted_by_a_new_checkpoint(tmp_path):
    epochs(tmp_path, 0, 1)
    folder = LocalFolder(tmp_path)
    for refuse in (
        lambda: check_owner(folder, "out", None),
        lambda: take(folder, "out", MINE, None),
    ):
        with pytest.raises(ConfigError, match="out holds results that this checkpoint did not"):
            refuse()
    assert names(tmp_path) == ["emit_epoch=0", "emit_epoch=1"]


def test_results_of_nobody_are_taken_by_a_checkpoint_that_has_epochs(tmp_path):
    epochs(tmp_path, 0, 1)
    take(LocalFolder(tmp_path), "out", MINE, 1)
    assert names(tmp_path) == [OWNER_FILE, "emit_epoch=0", "emit_epoch=1"]


def test_results_of_nobody_beyond_the_newest_epoch_are_refused_and_stay(tmp_path):
    epochs(tmp_path, 0, 1, 2)
    with pytest.raises(ConfigError, match="out holds results that this checkpoint did not"):
        take(LocalFolder(tmp_path), "out", MINE, 1)
    assert names(tmp_path) == ["emit_epoch=0", "emit_epoch=1", "emit_epoch=2"]


def test_files_that_another_process_is_writing_stay_and_old_ones_go(tmp_path):
    folder = LocalFolder(tmp_path)
    take(folder, "out", MINE, None)
    for name in ("2-old", "2-young"):
        (tmp_path / STAGING / name).mkdir(parents=True)
    long_ago = time.time() - STAGING_GRACE_S - 1
    os.utime(tmp_path / STAGING / "2-old", (long_ago, long_ago))
    take(folder, "out", MINE, 1)
    assert names(tmp_path / STAGING) == ["2-young"]


def test_an_owner_is_named_where_files_cannot_be_linked(tmp_path, monkeypatch):
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    take(LocalFolder(tmp_path), "out", MINE, None)
    assert owner_of(LocalFolder(tmp_path)) == MINE
    assert names(tmp_path) == [OWNER_FILE]


def test_epochs_of_a_future_that_was_rolled_back_are_deleted_and_told(tmp_path, caplog):
    folder = LocalFolder(tmp_path)
    take(folder, "out", MINE, None)
    epochs(tmp_path, 0, 1, 2, 10)
    (tmp_path / "notes.txt").write_text("of a user")
    caplog.set_level(logging.WARNING, "tidegate")
    take(folder, "out", MINE, 1)
    assert names(tmp_path) == [OWNER_FILE, "emit_epoch=0", "emit_epoch=1", "notes.txt"]
    assert "out: deleted epochs 2, 10: the checkpoint ends at epoch 1" in caplog.text


def test_a_crash_in_the_first_epoch_leaves_nothing(tmp_path, caplog):
    folder = LocalFolder(tmp_path)
    take(folder, "out", MINE, None)
    epochs(tmp_path, 0)
    take(folder, "out", MINE, None)
    assert names(tmp_path) == [OWNER_FILE]
    assert "deleted epochs 0: the checkpoint ends at its start" in caplog.text


def test_of_two_that_come_at_once_the_first_is_the_owner(tmp_path):
    class Late(LocalFolder):
        """A folder whose owner file appears between the look and the write."""

        def put_if_absent(self, name: str, text: str) -> bool:
            take(LocalFolder(tmp_path), "out", OTHER, None)
            return super().put_if_absent(name, text)

    with pytest.raises(ConfigError, match="its owner is checkpoint /checkpoints/other"):
        take(Late(tmp_path), "out", MINE, None)


def test_an_owner_file_that_cannot_be_read_is_not_taken_over(tmp_path):
    (tmp_path / OWNER_FILE).write_text("{")
    with pytest.raises(ConfigError, match="its owner is checkpoint unknown"):
        take(LocalFolder(tmp_path), "out", MINE, 3)
