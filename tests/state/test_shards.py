"""The table of shards: a step writes what it has changed, and all of it can be read."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from tidegate.errors import StateError
from tidegate.state.files import LocalFiles
from tidegate.state.manifest import MOST_SHARDS, Manifest, Tables
from tidegate.state.reader import StateReader
from tidegate.state.shard_map import Shard
from tidegate.state.shards import ShardTable
from tidegate.state.watermark import WatermarkState

from .manifests import local_files, manifest

MANY = 10_000


@dataclass
class Log:
    """Writes manifests with shards, as steps do."""

    folder: Path
    files: LocalFiles
    newest: Manifest

    def step(self, changes: dict[str, Shard | None]) -> int:
        """Commit a step that changes shards; return how many bytes it has written."""
        epoch = self.newest.epoch + 1
        all_ = {**self.newest.watermark.shards, **changes}
        shards = {id: shard for id, shard in all_.items() if shard is not None}
        numbers = count()
        table = ShardTable(self.files, lambda: f"{epoch}-aa-shards{next(numbers)}")
        before = set((self.folder / "tidegate").rglob("*.json"))
        after = manifest(
            epoch,
            tables=Tables(shards=table.after(self.newest, shards)),
            watermark=WatermarkState(shards=shards, watermark_us=1, by="device: string"),
        )
        self.files.put_if_absent(f"manifests/{epoch}.json", after.to_json())
        self.newest = after
        written = set((self.folder / "tidegate").rglob("*.json")) - before
        return sum(file.stat().st_size for file in written)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path, local_files(tmp_path), manifest(-1))


def id_of(number: int) -> str:
    return f"{number:016x}"


def shard(number: int, clock: int = 0) -> Shard:
    return Shard(event_time_us=1_767_225_600_000_000 + number, clock_us=clock, name=f"d{number}")


def test_a_few_shards_are_in_the_manifest_itself(log: Log) -> None:
    log.step({id_of(number): shard(number) for number in range(MOST_SHARDS)})
    assert log.newest.tables.shards == ()
    assert StateReader(log.folder).manifest() == log.newest
    assert list((log.folder / "tidegate" / "segments").iterdir()) == []


def test_a_step_that_changes_ten_of_ten_thousand_shards_writes_little(log: Log) -> None:
    all_of_them = log.step({id_of(number): shard(number) for number in range(MANY)})
    for clock in range(1, 40):
        written = log.step({id_of(number): shard(number, clock) for number in range(10)})
        assert written < all_of_them / 40
        assert len(log.newest.to_json()) < 6_000
    assert StateReader(log.folder).manifest() == log.newest
    assert log.step({}) < 6_000


def test_all_shards_are_written_again_when_half_of_them_have_changed(log: Log) -> None:
    log.step({id_of(number): shard(number) for number in range(100)})
    log.step({id_of(number): shard(number, 1) for number in range(50)})
    assert [segment.rows for segment in log.newest.tables.shards] == [100, 50]
    log.step({id_of(0): None})
    assert [segment.rows for segment in log.newest.tables.shards] == [99]
    assert StateReader(log.folder).manifest() == log.newest


@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_is_what_was_written_after_any_steps(log: Log, seed: int) -> None:
    dice = random.Random(seed)
    for clock in range(60):
        numbers = dice.sample(range(200), dice.choice([0, 1, 3, 90]))
        gone = dice.random() < 0.2
        log.step({id_of(each): None if gone else shard(each, clock) for each in numbers})
        reader = StateReader(log.folder)
        assert reader.manifest() == log.newest
        earlier = dice.randint(0, clock)
        assert reader.manifest(earlier).epoch == earlier


def test_a_name_may_be_any_text_or_null(log: Log) -> None:
    names = [None, "", "null", "a\nb", '"', "Köln"]
    shards = {id_of(number): shard(number) for number in range(100)}
    shards |= {id_of(n): replace(shard(n), name=name) for n, name in enumerate(names)}
    log.step(shards)
    assert StateReader(log.folder).manifest().watermark.shards == shards


def test_a_damaged_file_is_told_with_what_it_holds(log: Log) -> None:
    log.step({id_of(number): shard(number) for number in range(100)})
    (file,) = (log.folder / "tidegate" / "segments").rglob("shards.json")
    text = file.read_text()
    file.write_text(text[:-9])
    mend = (
        "\n\nIt holds shards of the watermark, without which rows would be late that are not. Put "
        "the file back, or restore the whole checkpoint from one copy, or start with a new "
        "checkpoint."
    )
    size = len(text)
    with pytest.raises(StateError) as error:
        StateReader(log.folder).manifest()
    assert str(error.value) == f"{file} has {size - 9:,} bytes instead of {size:,}{mend}"
    file.unlink()
    with pytest.raises(StateError) as error:
        StateReader(log.folder).manifest()
    assert str(error.value) == f"{file} cannot be read: No such file or directory{mend}"


def test_the_file_is_open_to_any_reader(log: Log) -> None:
    log.step({id_of(number): shard(number) for number in range(100)})
    log.step({id_of(1): None, id_of(2): shard(2, 7)})
    *_, newest = sorted((log.folder / "tidegate" / "segments").rglob("shards.json"))
    assert json.loads(newest.read_text()) == {
        "version": 4,
        "ids": [id_of(2)],
        "event_times_us": [1_767_225_600_000_002],
        "clocks_us": 7,
        "names": ["d2"],
        "rows": [0],
        "counts": {},
        "forgotten": [id_of(1)],
    }
    log.step({id_of(3): shard(3, 8), id_of(4): shard(4, 9)})
    *_, newest = sorted((log.folder / "tidegate" / "segments").rglob("shards.json"))
    assert json.loads(newest.read_text())["clocks_us"] == [8, 9]


def test_a_file_with_an_entry_for_each_shard_is_still_read(log: Log) -> None:
    shards = {id_of(number): shard(number) for number in range(100)}
    log.step(shards)
    entries: list[list[object]] = [
        [id, each.event_time_us, each.clock_us, each.name] for id, each in shards.items()
    ]
    entries[1] = [id_of(1)]
    entries[7] = [id_of(7), 5, 6, None, 3, {"late": 2}]
    text = json.dumps({"version": 3, "shards": entries})
    (log.folder / "tidegate" / "segments" / "0-aa-shards0" / "shards.json").write_text(text)
    (segment,) = log.newest.tables.shards
    table = (replace(segment, files=(replace(segment.files[0], bytes=len(text)),)),)
    earlier = manifest(1, tables=Tables(shards=table), watermark=log.newest.watermark)
    log.files.put_if_absent("manifests/1.json", earlier.to_json())

    del shards[id_of(1)]
    shards[id_of(7)] = Shard(event_time_us=5, clock_us=6, rows=3, counts={"late": 2})
    assert StateReader(log.folder).manifest().watermark.shards == shards
