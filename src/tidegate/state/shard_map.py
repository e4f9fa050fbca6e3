"""The shards of a stream, in columns: a batch changes thousands of them.

An object for each shard and batch would cost a batch of 10,000 shards some 12 ms, and Python's
garbage collector, which looks through all objects of the process now and then, as much again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from operator import eq, ne
from typing import NamedTuple, TypeAlias

# Its id, greatest event time, clock, name, rows and counts: see ``Shard``.
Entry: TypeAlias = tuple[str, int, int, str | None, int, Mapping[str, int]]

# What is counted of the rows of a shard besides how many it had, by the names of ``Counts``.
SHARD_COUNTS = ("late", "partial", "error", "duplicate", "evicted")

_INT64 = "q"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What is known of a shard.

    Attributes:
        event_time_us: the greatest event time seen.
        clock_us: the clock of its last row.
        name: the value of the shard expression as text; None for NULL, and for the single shard of
            a query without a shard expression.
        rows: how many rows it has had; 0 in a query without a shard expression.
        counts: how many of them were late and so on, by the names of ``SHARD_COUNTS``. As the
            other rows, these are counted as far as the batch told them by shard.
    """

    event_time_us: int
    clock_us: int
    name: str | None = None
    rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenShards:
    """What a batch has seen.

    Attributes:
        times: the greatest valid event time of each shard that had one, microseconds, by its id.
        names: the names of shards, those that the state does not know yet among them.
        rows, counts: as those of ``Shard``, of this batch alone, by the id of the shard.
    """

    times: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str | None] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class ShardColumns(NamedTuple):
    """Shards in columns of the same length, and by their ids the counts of those that have some."""

    ids: Sequence[str]
    event_times_us: array[int]
    clocks_us: array[int]
    names: Sequence[str | None]
    rows: array[int]
    counts: Mapping[str, Mapping[str, int]]


class ShardMap(Mapping[str, Shard]):
    """Shards by their ids; never changed once made.

    Args:
        entries: the shards.
    """

    __slots__ = ("_clocks_us", "_counts", "_names", "_places", "_rows", "_times_us")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        columns = list(zip(*entries, strict=True)) or [()] * 6
        ids, times_us, clocks_us, names, rows, counts = columns
        # Maps that differ in numbers only have the same places.
        self._places: dict[str, int] = {id: place for place, id in enumerate(ids)}
        self._names: Sequence[str | None] = names
        self._times_us: array[int] = array(_INT64, times_us)
        self._clocks_us: array[int] = array(_INT64, clocks_us)
        self._rows: array[int] = array(_INT64, rows)
        # Those that have had something to count.
        self._counts = {id: each for id, each in zip(ids, counts, strict=True) if each}

    @classmethod
    def of(cls, shards: Mapping[str, Shard]) -> ShardMap:
        """Return the same shards in columns."""
        return shards if isinstance(shards, ShardMap) else cls(entries_of(shards))

    def __getitem__(self, id: str) -> Shard:
        place = self._places[id]
        return Shard(
            event_time_us=self._times_us[place],
            clock_us=self._clocks_us[place],
            name=self._names[place],
            rows=self._rows[place],
            counts=self._counts.get(id, {}),
        )

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> KeysView[str]:
        """Return the ids."""
        return self._places.keys()

    def least_time(self, clock_us: int | None = None) -> int | None:
        """Return the least of their event times.

        Args:
            clock_us: only of those whose last row came after it; None: of all.
        """
        if clock_us is None:
            return min(self._times_us, default=None)
        columns = zip(self._times_us, self._clocks_us, strict=True)
        return min((time_us for time_us, clock in columns if clock > clock_us), default=None)

    @property
    def greatest_time_us(self) -> int | None:
        """The greatest of their event times."""
        return max(self._times_us, default=None)

    def entries(self) -> Iterator[Entry]:
        """Yield all shards."""
        columns = (self._times_us, self._clocks_us, self._names, self._rows)
        for id, time_us, clock_us, name, rows in zip(self._places, *columns, strict=True):
            yield id, time_us, clock_us, name, rows, self._counts.get(id, {})

    def columns(self) -> ShardColumns:
        """Return all shards, which the caller must not change."""
        return ShardColumns(
            ids=list(self._places),
            event_times_us=self._times_us,
            clocks_us=self._clocks_us,
            names=self._names,
            rows=self._rows,
            counts=self._counts,
        )

    def after(self, seen: SeenShards, clock_us: int) -> ShardMap:
        """Return the shards after a batch.

        Args:
            seen: the shards of the batch.
            clock_us: the batch's clock.
        """
        is_known = seen.times.keys() <= self._places.keys()
        new = [] if is_known else [id for id in seen.times if id not in self._places]
        after = self._copy(new, seen)
        places, rows = after._places, after._rows
        times_us, clocks_us = after._times_us, after._clocks_us
        seen_at = map(places.__getitem__, seen.times)
        for place, time_us in zip(seen_at, seen.times.values(), strict=True):
            clocks_us[place] = clock_us
            if times_us[place] < time_us:  # noqa: PLR1730 - thousands of calls of max
                times_us[place] = time_us
        for at, number in zip(map(places.get, seen.rows), seen.rows.values(), strict=True):
            if at is not None:
                rows[at] += number
        counted = ((id, counts) for id, counts in seen.counts.items() if id in places and counts)
        for id, counts in counted:
            after._counts[id] = _sum(self._counts.get(id, {}), counts)
        return after

    def nameless(self) -> set[str]:
        """Return the ids of those without a name."""
        known = zip(self._places, self._names, strict=True)
        return {id for id, name in known if name is None}

    def is_new_without_name(self, before: ShardMap) -> bool:
        """Whether one of them was not there before, and has no name."""
        if self._places is before._places:
            return False
        return any(id not in before._places for id in self.nameless())

    def named(self, names: Mapping[str, str | None]) -> ShardMap:
        """Return the shards, those without a name with that of ``names``."""
        found = self.nameless() & names.keys() if names else set()
        if all(names[id] is None for id in found):
            return self
        named = self._copy((), SeenShards())
        known = zip(self._places, self._names, strict=True)
        named._names = tuple(names[id] if id in found else name for id, name in known)
        return named

    def active_since(self, clock_us: int) -> ShardMap:
        """Return those whose last row came after a clock."""
        if min(self._clocks_us, default=clock_us + 1) > clock_us:
            return self
        return ShardMap(entry for entry in self.entries() if entry[2] > clock_us)

    def only(self, ids: Iterable[str]) -> ShardMap:
        """Return some of them, in their order."""
        places = self._places
        return ShardMap(
            (
                id,
                self._times_us[place],
                self._clocks_us[place],
                self._names[place],
                self._rows[place],
                self._counts.get(id, {}),
            )
            for id, place in sorted(((id, places[id]) for id in ids), key=lambda each: each[1])
        )

    def touched_since(self, before: ShardMap) -> int:
        """Return how many have had rows since; 0 where only ``changed_since`` can tell."""
        if self._places is not before._places:
            return 0
        return sum(map(ne, self._clocks_us, before._clocks_us))

    def changed_since(self, before: ShardMap) -> set[str]:
        """Return the ids of those that are new, or not what they were."""
        now, then = self._counts, before._counts
        changed = {id for id in now if now[id] != then.get(id)}
        if not self._begins_as(before):
            numbers = dict(zip(before._places, before._numbers(), strict=True))
            names = dict(zip(before._places, before._names, strict=True))
            for id, name, each in zip(self._places, self._names, self._numbers(), strict=True):
                if numbers.get(id) != each or names[id] != name:
                    changed.add(id)
            return changed
        changed.update(islice(self._places, len(before), None))
        changed.update(compress(self._places, map(ne, self._numbers(), before._numbers())))
        if self._names is not before._names:
            changed.update(compress(self._places, map(ne, self._names, before._names)))
        return changed

    def _begins_as(self, before: ShardMap) -> bool:
        """Whether these are the shards of another map in their order, and perhaps more."""
        if self._places is before._places:
            return True
        return len(before) <= len(self) and all(map(eq, before._places, self._places))

    def _numbers(self) -> Iterator[tuple[int, int, int]]:
        return zip(self._times_us, self._clocks_us, self._rows, strict=True)

    def _copy(self, new: Sequence[str], seen: SeenShards) -> ShardMap:
        """Return these shards and new ones of a batch, without its rows."""
        same = ShardMap()
        same._places, same._names, same._counts = self._places, self._names, dict(self._counts)
        same._times_us = self._times_us + array(_INT64, map(seen.times.__getitem__, new))
        same._clocks_us = self._clocks_us + array(_INT64, [0] * len(new))
        same._rows = self._rows + array(_INT64, [0] * len(new))
        if new:
            same._places = self._places | {id: n for n, id in enumerate(new, len(self))}
            same._names = (*self._names, *map(seen.names.get, new))
        return same


def entries_of(shards: Mapping[str, Shard]) -> Iterator[Entry]:
    """Yield shards as entries."""
    for id, shard in shards.items():
        yield id, shard.event_time_us, shard.clock_us, shard.name, shard.rows, shard.counts


def _sum(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The counts of a shard, those that are not 0, in the order of ``SHARD_COUNTS``."""
    added = {name: before.get(name, 0) + more.get(name, 0) for name in SHARD_COUNTS}
    return {name: number for name, number in added.items() if number}
