"""The table of shards: those of the watermark, where they are too many for the manifest.

A manifest itself holds a few dozen shards. More of them are in JSON files that it names: the
first file has all shards, each later one those that a step has changed. Small files are merged when
there are many of them, and all shards are written again when what has changed since is half of
them. So a step writes about as much as it changes, and a start reads at most twice the shards.

    segments/7-3f9a1c02-shards/shards.json

    {"version": 4,
    "ids": ["0d5ee8e6d7194048", "57b1c2f0a4d3e896"],
    "event_times_us": [1767225605000000, 1767225604000000],
    "clocks_us": 1767225610000000,
    "names": ["berlin", null],
    "rows": [42, 7],
    "counts": {"0d5ee8e6d7194048": {"late": 1}},
    "forgotten": ["c397fc1281709d1e"]}

A shard has an id, its greatest event time, the clock of its last row (microseconds), its name,
which is null for NULL, how many rows it has had, and how many of them were late and so on, if there
were such. One clock is that of all. Of shards that have been forgotten there are the ids alone.

Files of version 3 have an entry for each shard. To write them took twice as long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tidegate.errors import StateError
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.files import Files
from tidegate.state.manifest import (
    MOST_SHARDS,
    Manifest,
    Segment,
    StateFile,
    check_version,
    reading,
)
from tidegate.state.manifest_log import reason
from tidegate.state.shard_map import Shard, ShardMap

# None is a shard that has been forgotten.
Changes: TypeAlias = Mapping[str, Shard | None]

_FILE = "shards.json"

# The version of a file in columns. A release that only reads those before refuses it.
_VERSION = 4

# With more files than this, all but the first are merged.
_MOST_FILES = 8

# All shards are written again when this share of them has changed.
_REWRITTEN = 0.5


@dataclass(frozen=True, slots=True)
class ShardTable:
    """Writes the table of a step.

    Attributes:
        files: the checkpoint.
        new_name: gives a name for a segment that is not in use.
    """

    files: Files
    new_name: Callable[[], str]

    def after(self, before: Manifest, shards: Mapping[str, Shard]) -> tuple[Segment, ...]:
        """Return the table after a step; empty where the manifest holds the shards.

        Args:
            before: the state before the step.
            shards: all shards after it.

        Raises:
            OSError: a file cannot be written.
            StateError: one cannot be read.
        """
        table = before.tables.shards
        if len(shards) <= MOST_SHARDS:
            return ()
        now, then = ShardMap.of(shards), ShardMap.of(before.watermark.shards)
        if now.touched_since(then) > _REWRITTEN * len(shards):
            return (self._write(now),)
        changes = now.changed_since(then) | (then.keys() - now.keys())
        if table and not changes:
            return table
        changed = sum(segment.rows for segment in table[1:]) + len(changes)
        if not table or changed > _REWRITTEN * len(shards):
            return (self._write(now),)
        if len(table) < _MOST_FILES:
            return (*table, self._write(now.only(changes & now.keys()), changes - now.keys()))
        ids = {id for segment in table[1:] for id in _read(self.files, segment)} | changes
        return (table[0], self._write(now.only(ids & now.keys()), ids - now.keys()))

    def _write(self, shards: ShardMap, forgotten: Collection[str] = ()) -> Segment:
        name = self.new_name()
        text = _to_json(shards, forgotten)
        self.files.make_folder(f"{SEGMENTS}/{name}")
        self.files.put_if_absent(f"{SEGMENTS}/{name}/{_FILE}", text)
        return Segment(
            name=name,
            first_us=shards.least_time() or 0,
            last_us=shards.greatest_time_us or 0,
            rows=len(shards) + len(forgotten),
            files=(StateFile(name=_FILE, bytes=len(text.encode())),),
        )


def with_shards(files: Files, manifest: Manifest) -> Manifest:
    """Return a manifest with the shards of its table.

    Raises:
        StateError: a file is missing or damaged.
    """
    table = manifest.tables.shards
    if not table:
        return manifest
    shards = _merged(_read(files, segment) for segment in table)
    return replace(manifest, watermark=replace(manifest.watermark, shards=shards))


def _merged(files: Iterable[Changes]) -> dict[str, Shard]:
    shards: dict[str, Shard | None] = {}
    for changes in files:
        shards |= changes
    return {id: shard for id, shard in shards.items() if shard is not None}


def _to_json(shards: ShardMap, forgotten: Collection[str]) -> str:
    columns = shards.columns()
    clocks_us = columns.clocks_us
    are_same = bool(clocks_us) and clocks_us.count(clocks_us[0]) == len(clocks_us)
    data = {
        "version": _VERSION,
        "ids": columns.ids,
        "event_times_us": columns.event_times_us.tolist(),
        "clocks_us": clocks_us[0] if are_same else clocks_us.tolist(),
        "names": columns.names,
        "rows": columns.rows.tolist(),
        "counts": columns.counts,
        "forgotten": sorted(forgotten),
    }
    # Each column by itself: one call for all of them takes half as long again.
    members = (f'"{name}": {json.dumps(each, ensure_ascii=False)}' for name, each in data.items())
    return "{" + ",\n".join(members) + "}\n"


def _read(files: Files, segment: Segment) -> Changes:
    (file,) = segment.files
    name = f"{SEGMENTS}/{segment.name}/{file.name}"
    path = files.where(name)
    try:
        text = files.read(name)
    except OSError as error:
        raise _damaged(path, f"cannot be read: {reason(error)}") from error
    found = len(text.encode())
    if found != file.bytes:
        raise _damaged(path, f"has {found:,} bytes instead of {file.bytes:,}")
    with reading(path, "list of shards"):
        data = json.loads(text)
        if data["version"] != _VERSION:
            check_version(data["version"], path)
            return {entry[0]: _shard(entry[1:]) for entry in data["shards"]}
        return _of_columns(data)


def _of_columns(data: Mapping[str, Any]) -> Changes:
    ids, clocks_us, counts = data["ids"], data["clocks_us"], data["counts"]
    if isinstance(clocks_us, int):
        clocks_us = [clocks_us] * len(ids)
    columns = (data["event_times_us"], clocks_us, data["names"], data["rows"])
    shards: dict[str, Shard | None] = {
        id: Shard(
            event_time_us=time_us,
            clock_us=clock_us,
            name=name,
            rows=rows,
            counts=counts.get(id, {}),
        )
        for id, time_us, clock_us, name, rows in zip(ids, *columns, strict=True)
    }
    return shards | dict.fromkeys(data["forgotten"])


def _shard(facts: Sequence[Any]) -> Shard | None:
    if not facts:
        return None
    # Without counts if there are none, and without rows if they were not counted yet.
    missing: list[Any] = [0, {}][len(facts) - 3 :]
    event_time_us, clock_us, name, rows, counts = [*facts, *missing]
    return Shard(
        event_time_us=event_time_us, clock_us=clock_us, name=name, rows=rows, counts=counts
    )


def _damaged(path: str, what: str) -> StateError:
    return StateError(
        f"{path} {what}\n\nIt holds shards of the watermark, without which rows would be late "
        "that are not. Put the file back, or restore the whole checkpoint from one copy, or start "
        "with a new checkpoint."
    )
