"""The rows of each shard: how many a batch had, and how many of them could not be used.

They are counted by the job that observes the shards, in sketches for the hash of a shard (see
``sketches.py``). A value of a sketch is a DOUBLE, which has room for two numbers of rows, so the
count of late rows costs nothing beside that of all rows. What else is counted is counted once the
query has had such a row, because each further sketch costs something for every row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.engine.rows.fates import EVICTED_FATES, UNTIMED, Fate
from tidegate.engine.rows.sketches import read_sketch, sketch_sql
from tidegate.plan.columns import FATE, ROWS, SEEN_TIME, SHARD_HASH
from tidegate.state.shard_map import SHARD_COUNTS, SeenShards

if TYPE_CHECKING:
    from tidegate.metrics.report import Counts

# A sketch has room for 2**bits shards.
BITS = 20

# Two numbers below this fit into a DOUBLE: the first one, and so many times the second.
_ROOM = 1 << 26

# Columns that are observed: the event time of placed rows as a DOUBLE, and for each sketch of
# counts the hash of the shard and the value.
_TIME, _KEY, _VALUE = "_shard_t", "_shard_k", "_shard_v"

# The sketch of times, and those of counts.
_TIMES, _COUNTS = "shard_times", "shard_counts"

_TIMED = f"{FATE} NOT IN ({', '.join(str(fate.value) for fate in UNTIMED)})"

# The fates of what is counted beside all rows of a shard.
_FATES: Mapping[str, Sequence[Fate]] = {
    "late": (Fate.LATE,),
    "error": (*UNTIMED, Fate.ROW_ERROR),
    "duplicate": (Fate.DUPLICATE,),
    "evicted": EVICTED_FATES,
}


def counted_of(totals: Counts, *, may_be_late: bool) -> tuple[str, ...]:
    """Return what is counted beside all rows of a shard in the next batch.

    Args:
        totals: the rows of the query so far.
        may_be_late: whether windows have closed.
    """
    return tuple(
        name for name in SHARD_COUNTS if getattr(totals, name) or (name == "late" and may_be_late)
    )


def fate_conditions() -> dict[str, str]:
    """Return the conditions (Spark SQL) on the fate of a row for what is counted."""
    return {
        name: f"{FATE} IN ({', '.join(str(fate.value) for fate in fates)})"
        for name, fates in _FATES.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSketches:
    """What to observe of placed rows, or of rows as they come.

    Attributes:
        columns: the columns that are observed beside ``_shard_hash``, by name: Spark SQL that
            names them. They are computed before, where code is generated for them.
        observed: the sketches over them, by the names of their results.
    """

    columns: Mapping[str, str]
    observed: Mapping[str, str]


def shard_sketches(
    counted: Sequence[str],
    conditions: Mapping[str, str],
    time: str = SEEN_TIME,
    rows: str | None = ROWS,
) -> ShardSketches:
    """Return the sketches of the times and the rows of shards.

    Args:
        counted: what is counted beside all rows.
        conditions: the condition (Spark SQL) for each; one without is not counted.
        time: the event time of a row.
        rows: how many rows a row is; None: one.
    """
    columns = {_TIME: f"CAST(IF({_TIMED}, {time}, NULL) AS DOUBLE)"}
    sketches = {_TIMES: sketch_sql(SHARD_HASH, _TIME, BITS)}
    for place, names in enumerate(_pairs(counted)):
        told = [conditions.get(name, "false") for name in names]
        weights = (f"{_ROOM}D",) if place == 0 else ("1D", f"{_ROOM}D")
        parts = ["1D"] if place == 0 else []
        parts += [f"IF({each}, {weight}, 0D)" for each, weight in zip(told, weights, strict=False)]
        value = " + ".join(parts) if rows is None else f"{rows} * ({' + '.join(parts)})"
        key = SHARD_HASH
        if place:
            key = f"{_KEY}{place}"
            columns[key] = f"IF({' OR '.join(told)}, {SHARD_HASH}, NULL)"
        if value != "1D":
            columns[f"{_VALUE}{place}"] = f"CAST({value} AS DOUBLE)"
            value = f"{_VALUE}{place}"
        sketches[f"{_COUNTS}{place}"] = sketch_sql(key, value, BITS, "sum")
    named = {name: f"{sql} AS {name}" for name, sql in columns.items()}
    return ShardSketches(columns=named, observed=sketches)


def mixed_sql() -> str:
    """Return the aggregate that counts partials of several shards; such have no hash."""
    return f"count_if({_TIMED} AND {SHARD_HASH} IS NULL)"


def read_times(seen: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the greatest event time of each shard by its id; None if they are not exact."""
    return read_sketch(seen[_TIMES])


def read_counts(seen: Mapping[str, Any], counted: Sequence[str]) -> SeenShards:
    """Return the rows of each shard by its id, without times; nothing if they are not exact."""
    rows: dict[str, int] = {}
    counts: dict[str, dict[str, int]] = {}
    for place, names in enumerate(_pairs(counted)):
        packed = read_sketch(seen[f"{_COUNTS}{place}"])
        if packed is None:
            return SeenShards()
        if place == 0:
            if max(packed.values(), default=0) < _ROOM:
                rows = packed
                continue
            rows = {id: value & (_ROOM - 1) for id, value in packed.items()}
            packed = {id: value >> 26 for id, value in packed.items() if value >= _ROOM}
        for id, value in packed.items():
            for name, number in zip(names, (value & (_ROOM - 1), value >> 26), strict=False):
                if number:
                    counts.setdefault(id, {})[name] = number
    return SeenShards(rows=rows, counts=counts)


def within(seen: SeenShards, batch: Counts) -> SeenShards:
    """Return the shards of a batch without counts of rows that the batch does not bear out.

    Job 1 may run again over rows that are judged otherwise, and a count of very many rows spills
    over into the one that it is packed with.
    """
    if batch.rows_in >= _ROOM:
        return replace(seen, rows={}, counts={})
    wrong = {
        name
        for name in SHARD_COUNTS
        if sum(of.get(name, 0) for of in seen.counts.values()) > getattr(batch, name)
    }
    return without(seen, wrong) if wrong else seen


def without(seen: SeenShards, names: Collection[str]) -> SeenShards:
    """Return the shards of a batch without some counts."""
    if not seen.counts:
        return seen
    counts = {
        id: {name: number for name, number in of.items() if name not in names}
        for id, of in seen.counts.items()
    }
    return replace(seen, counts=counts)


def _pairs(counted: Sequence[str]) -> list[Sequence[str]]:
    """What the sketches count: the first one all rows and one thing, each further one two."""
    return [counted[:1], *(counted[at : at + 2] for at in range(1, len(counted), 2))]
