"""A checkpoint costs the same after many epochs: its files, its listings, what is read of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.state.files import LocalFiles
from tidegate.state.intents import Intent, StepKind
from tidegate.state.manifest import Manifest, Tables
from tidegate.state.plan_file import PlanFile
from tidegate.state.store import StateStore

from .manifests import manifest, put_part, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCHS = 100
PLAN = PlanFile(plan_id="p", fingerprint={"window": "tumbling"})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls that reach the file system, and the entries that listings return."""
    counted: Counter[str] = Counter()

    def counting(name: str):
        original = getattr(LocalFiles, name)

        def call(self: LocalFiles, *arguments: object):
            counted[name] += 1
            found = original(self, *arguments)
            if isinstance(found, list):
                counted["listed"] += len(found)
            return found

        return call

    for name in ("entries", "unfinished", "read", "make_folder", "put_if_absent", "delete"):
        monkeypatch.setattr(LocalFiles, name, counting(name))
    return counted


class Day:
    """Takes the calls of a step for each epoch, without rows; every fifth one has results."""

    def __init__(self, store: StateStore, files: LocalFiles) -> None:
        self.store, self.files = store, files
        store.claim(-1 if (newest := store.newest()) is None else newest.epoch)
        self.state = newest or manifest(-1)

    def step(self) -> None:
        store, before = self.store, self.state
        epoch = before.epoch + 1
        names = [f"{epoch}-{store.writer.id}-{what}" for what in ("batch", "merged")]
        for name in names:
            put_part(self.files, name)
            store.disown(name)
        if epoch % 5 == 0:
            store.intent(epoch)
            store.check_claim()
            store.put_intent(Intent(epoch=epoch, kind=StepKind.BATCH, batch_id=epoch))
            store.check_turn(epoch)
        after: Manifest = replace(
            manifest(epoch),
            checkpoint_id=store.checkpoint_id,
            writer=store.writer,
            tables=Tables(windows=(segment(names[1]),)),
        )
        store.check_claim()
        store.commit(after)
        assert store.clean_up(after) == 0
        self.state = after


def test_later_epochs_leave_as_many_files_and_take_as_many_calls_as_earlier_ones(
    spark: SparkSession, tmp_path: Path, calls: Counter[str]
) -> None:
    files = LocalFiles(str(tmp_path / "tidegate"))

    def there() -> Counter[str]:
        paths = (path for path in tmp_path.rglob("*") if path.is_file())
        return Counter(path.relative_to(tmp_path).parts[1] for path in paths)

    def passed(day: Day) -> tuple[Counter[str], Counter[str]]:
        calls.clear()
        for _ in range(EPOCHS):
            day.step()
        return Counter(calls), there()

    day = Day(StateStore(spark, str(tmp_path), PLAN), files)
    passed(day)
    first, later = passed(day), passed(day)
    assert later == first
    assert sum(later[1].values()) < 40
    # A restart adds what it writes of itself, and reads what is kept, however old the query is.
    calls.clear()
    restarted = Day(StateStore(spark, str(tmp_path), PLAN), files)
    restarted.step()
    early = Counter(calls)
    passed(restarted)
    calls.clear()
    Day(StateStore(spark, str(tmp_path), PLAN), files).step()
    assert calls["read"] <= early["read"]
    assert calls["entries"] <= early["entries"]
