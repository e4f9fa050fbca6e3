"""Cleaning up: only what nobody can still need, later if not now, and never at the query's cost."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tidegate.state import cleaning
from tidegate.state.cleaning import KEPT_MANIFESTS, Cleaner
from tidegate.state.files import LocalFiles
from tidegate.state.intents import Intent, StepKind, put_intent

from .manifests import WRITER, local_files, manifest, put_part, segment


@dataclass
class Shaky:
    """Files of which deleting some fails for a while."""

    local: LocalFiles
    failing: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> object:
        return getattr(self.local, name)

    def delete(self, name: str) -> None:
        if name in self.failing:
            raise OSError("503 Slow Down")
        self.local.delete(name)


@pytest.fixture
def files(tmp_path: Path) -> Shaky:
    return Shaky(local_files(tmp_path))


@dataclass
class Query:
    """Commits a manifest for each epoch, as a query does that merges every batch into one."""

    files: Shaky
    writer = WRITER

    def __post_init__(self) -> None:
        self.cleaner = Cleaner(self.files, self.writer)

    def commit(self, epoch: int) -> None:
        name, unused = f"{epoch}-aa-merged", f"{epoch}-aa-batch"
        for each in (name, unused):
            put_part(self.files.local, each)
        put_intent(self.files, Intent(epoch=epoch, kind=StepKind.BATCH, batch_id=epoch), 1)
        self.cleaner.add_intent(epoch)
        now = manifest(epoch, segment(name))
        self.files.put_if_absent(f"manifests/{epoch}.json", now.to_json())
        self.cleaner.clean_up(now, [name, unused])

    def there(self, folder: str) -> list[str]:
        return sorted(entry.name for entry in self.files.entries(folder))


def test_what_the_kept_manifests_name_stays_and_the_rest_goes(files: Shaky) -> None:
    query = Query(files)
    for epoch in range(KEPT_MANIFESTS + 3):
        query.commit(epoch)
    kept = range(3, KEPT_MANIFESTS + 3)
    assert query.there("manifests") == sorted(f"{epoch}.json" for epoch in kept)
    assert query.there("segments") == sorted(f"{epoch}-aa-merged" for epoch in kept)
    assert query.there("intents") == sorted(f"{epoch}-1.json" for epoch in kept)


def test_a_restart_goes_on_where_the_process_before_was(files: Shaky) -> None:
    for epoch in range(KEPT_MANIFESTS):
        Query(files).commit(epoch)
    query = Query(files)
    query.commit(KEPT_MANIFESTS)
    assert len(query.there("segments")) == KEPT_MANIFESTS
    assert "0-aa-merged" not in query.there("segments")
    assert "0-1.json" not in query.there("intents")


def test_a_call_that_fails_is_tried_again_told_once_and_stops_nothing(
    files: Shaky, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(files)
    files.failing = {"segments/0-aa-batch", "segments/2-aa-batch"}
    with caplog.at_level(logging.WARNING, "tidegate"):
        for epoch in range(4):
            query.commit(epoch)
    assert query.there("segments") == [
        "0-aa-batch",
        "0-aa-merged",
        "1-aa-merged",
        "2-aa-batch",
        "2-aa-merged",
        "3-aa-merged",
    ]
    assert query.cleaner.failures == 4 + 2
    (told,) = caplog.messages
    assert "will be retried in later batches: 503 Slow Down" in told
    files.failing = set()
    query.commit(4)
    assert [name for name in query.there("segments") if name.endswith("batch")] == []


def test_what_crashed_attempts_left_is_swept_when_it_is_old(
    files: Shaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, young = "0-bb-batch", "1-cc-batch"
    for name in (old, young):
        put_part(files.local, name)
    long_ago = time.time() - cleaning.GRACE_SECONDS - 1
    os.utime(f"{files.root}/segments/{old}", (long_ago, long_ago))
    query = Query(files)
    query.commit(0)
    assert query.there("segments") == ["0-aa-merged", young]

    # A query that runs on looks again when the rest may have come of age.
    monkeypatch.setattr(cleaning, "GRACE_SECONDS", -1)
    query.cleaner._next_sweep = 0.0
    query.commit(1)
    assert query.there("segments") == ["0-aa-merged", "1-aa-merged"]


def test_a_writer_that_has_been_displaced_sweeps_nothing(
    files: Shaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "GRACE_SECONDS", -1)
    put_part(files.local, "1-dd-batch")
    files.put_if_absent("writers/2.json", "{}")
    query = Query(files)
    query.commit(0)
    assert query.there("segments") == ["0-aa-merged", "1-dd-batch"]


def test_files_that_a_killed_process_was_about_to_put_in_place_are_swept_when_old(
    files: Shaky,
) -> None:
    old, young = (Path(files.root, "manifests", f".{n}.json.abc.tmp") for n in (1, 2))
    for path in (old, young):
        path.write_text("{")
    long_ago = time.time() - cleaning.GRACE_SECONDS - 1
    os.utime(old, (long_ago, long_ago))
    Query(files).commit(0)
    assert not old.exists()
    assert young.exists()


def test_a_manifest_that_cannot_be_read_once_does_not_cost_what_the_kept_ones_name(
    files: Shaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "GRACE_SECONDS", -1)
    for epoch in range(KEPT_MANIFESTS):
        name = f"{epoch}-zz-merged"
        put_part(files.local, name)
        files.put_if_absent(f"manifests/{epoch}.json", manifest(epoch, segment(name)).to_json())
    query = Query(files)
    read, failing = files.local.read, iter([5])

    class Once:
        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def read(self, name: str) -> str:
            if name == "manifests/5.json" and next(failing, None):
                raise OSError("503 Slow Down")
            return read(name)

    query.cleaner = cleaning.Cleaner(Once(), query.writer)
    query.commit(KEPT_MANIFESTS)
    query.commit(KEPT_MANIFESTS + 1)
    kept = [f"{epoch}-zz-merged" for epoch in range(2, KEPT_MANIFESTS)]
    assert [name for name in query.there("segments") if "-zz-" in name] == sorted(kept)
