"""The rows of shards as metrics: a time series for each of some shards, and one for all others.

A transform may have very many shards, and each would be a time series. A shard that has one keeps
it, because the numbers of a counter must not move from one series to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidegate.metrics.report import BatchReport

# How many shards of a transform have a time series of their own.
MOST_SHARDS = 100

# The name of the series of all others.
OTHER = "other"

# The fates of rows that are counted by shard, and all that is counted; names of ``Counts``.
UNUSED = ("late", "error", "duplicate", "evicted")
_COUNTED = ("rows_in", "partial", *UNUSED)


class CountedShard(Protocol):
    """What is known of a shard; ``Shard`` of the state is such a one."""

    @property
    def name(self) -> str | None:
        """The value of the shard expression as text; None for NULL."""

    @property
    def event_time_us(self) -> int:
        """The greatest event time."""

    @property
    def rows(self) -> int:
        """How many rows it has had."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many of them were late and so on, by the names of ``Counts``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShards:
    """The shards of a query by their ids: before a step, and after it."""

    before: Mapping[str, CountedShard]
    after: Mapping[str, CountedShard]

    def times(self) -> list[tuple[str, int]]:
        """Return the name of each shard and its greatest event time, microseconds."""
        return [(name_of(shard), shard.event_time_us) for shard in self.after.values()]

    def rows_of(self, id: str) -> dict[str, int]:
        """Return the rows that a shard had in the step, by the names of ``Counts``."""
        before, after = self.before.get(id), self.after.get(id)
        if after is None or after == before:
            return {}
        if before is not None and after.rows < before.rows:
            before = None  # It was forgotten and came back in the same step.
        found = {"rows_in": after.rows - (0 if before is None else before.rows)}
        if after.counts:
            known = {} if before is None else before.counts
            found |= {name: number - known.get(name, 0) for name, number in after.counts.items()}
        return found


def name_of(shard: CountedShard) -> str:
    """Return the name of a shard in metrics."""
    return "NULL" if shard.name is None else shard.name


@dataclass(slots=True)
class ShardSeries:
    """The rows of the shards of a transform, added up."""

    _names: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, shards: StepShards, report: BatchReport) -> None:
        """Add a step. What is not told by shard counts as that of others."""
        room = MOST_SHARDS - len(self._names)
        if room:
            new = (id for id, shard in shards.after.items() if id not in self._names)
            rows = {id: each["rows_in"] for id in new if (each := shards.rows_of(id))}
            for id in nlargest(room, rows, key=lambda id: rows[id]):
                self._names[id] = name_of(shards.after[id])
        left = Counter({counted: getattr(report, counted) for counted in _COUNTED})
        # Others may have very many shards, so they are what is left.
        for id, name in self._names.items():
            rows = shards.rows_of(id)
            if rows:
                self._rows.setdefault(name, Counter()).update(rows)
                left.subtract(rows)
        self._rows.setdefault(OTHER, Counter()).update(+left)

    def values(self, counted: str) -> Iterator[tuple[str, int]]:
        """Yield the name of each series that counts something, and how much."""
        for name, rows in self._rows.items():
            if rows[counted]:
                yield name, rows[counted]
