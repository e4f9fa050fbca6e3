"""The shards of a batch: the greatest event time of each, observed by job 1.

Rows are not grouped by their shard as well: there would be as many more partials. Where partials
cannot tell the shards, rows are watched as Spark hands them over, below all that an operator does
with them. What is observed is a *tuple sketch*, an aggregate of Spark that keeps a value for each
distinct hash: here the greatest event time for the hash of a shard. It is exact as long as it has
room for all of them.

A sketch has no names, and its values are DOUBLEs. So a batch that has a shard which the state does
not know reads its rows once more and groups them by shard; so does one that has more shards than
there is room for, or a greatest time that a DOUBLE rounds (before 1684, after 2255).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.plan.columns import (
    GREATEST_SHARD,
    LEAST_SHARD,
    OWN_TIME,
    SEEN_TIME,
    SHARD,
    TIME,
)
from tidegate.plan.time_columns import GREATEST_TIME_US, LEAST_TIME_US
from tidegate.spark.observe import observed
from tidegate.spark.statements import over
from tidegate.state.watermark import SeenShards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.rows.prepare import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested, Operator
    from tidegate.plan.physical import PhysicalPlan

# A sketch has room for 2**bits shards.
_BITS = 20

_HASH = f"xxhash64({SHARD})"

# Integers beyond this are no longer all DOUBLEs.
_EXACT = 1 << 53

# Of a sketch: the most words before its entries when all had room, and an entry.
_WORDS_OF_ALL = 2
_ENTRY = struct.Struct("<8sdB")


class ShardWatch:
    """Observes the shards of one batch after another.

    Where the shard follows from the group keys, as the partition of a keyed topic does, each
    partial is of one shard, and telling it costs next to nothing. Once a batch had a partial of
    several shards, the rows of later ones are watched.

    Args:
        plan: a plan with shards.
        has_partials: whether job 1 makes partials of rows.
    """

    def __init__(self, plan: PhysicalPlan, *, has_partials: bool) -> None:
        self._plan = plan
        self._by_partial = has_partials

    def ingest(
        self, arrival: Arrival, operator: Operator, known: Collection[str], io: StateIO
    ) -> tuple[Ingested, SeenShards]:
        """Run job 1 over prepared rows; return what it did, and the shards that it saw.

        Args:
            arrival: the rows, with ``_shard``.
            operator: runs job 1.
            known: the ids of the shards that the state knows.
            io: the state.
        """
        time = _valid_time(self._plan, arrival.start)
        if self._by_partial:
            start = replace(arrival.start, tells_shards=True)
            ingested = operator.ingest(replace(arrival, start=start), io)
            told = ingested.shards
            assert told is not None, "partials tell their shards where they are asked"
            self._by_partial = not told.mixed
            times = None if told.mixed else read_sketch(told.sketch)
        else:
            sketch = _sketch_sql(_HASH, f"CAST({time} AS DOUBLE)", _BITS)
            watched, numbers = observed(arrival.rows, {"sketch": sketch})
            ingested = operator.ingest(replace(arrival, rows=watched), io)
            times = read_sketch(numbers()["sketch"])
        if times is not None and all(id in known for id in times):
            return ingested, SeenShards(times=times)
        return ingested, _by_job(arrival.rows, time)


def shards_of_partials(timed: str) -> dict[str, str]:
    """Return what to observe of partials: a sketch of their shards, and how many are mixed.

    Args:
        timed: the condition (Spark SQL) that the rows of a partial have valid times.
    """
    time = f"IF({timed} AND {LEAST_SHARD} = {GREATEST_SHARD}, {SEEN_TIME}, NULL)"
    return {
        "shards": _sketch_sql(LEAST_SHARD, f"CAST({time} AS DOUBLE)", _BITS),
        "mixed": f"count_if({timed} AND {LEAST_SHARD} <> {GREATEST_SHARD})",
    }


def _valid_time(plan: PhysicalPlan, start: BatchStart) -> str:
    """The event time of a row, NULL where it is none that the watermark may follow."""
    time = OWN_TIME if plan.watermark.falls_back else TIME
    limit_us = GREATEST_TIME_US
    if start.clock_us is not None:
        limit_us = min(limit_us, start.clock_us + plan.watermark.max_future_skew_us)
    return f"IF({time} >= {LEAST_TIME_US}L AND {time} <= {limit_us}L, {time}, NULL)"


def _sketch_sql(hash: str, value: str, bits: int) -> str:
    return f"tuple_sketch_agg_double({hash}, {value}, {bits}, 'max')"


def _by_job(rows: DataFrame, time: str) -> SeenShards:
    """Return the shards of rows, grouped by a job of their own.

    A sketch of one shard says which id it has in a sketch of several.
    """
    timed = f"SELECT {SHARD}, {time} AS t FROM {{frame}}"
    shards = f"SELECT {SHARD}, max(t) AS t FROM ({timed}) WHERE t IS NOT NULL GROUP BY {SHARD}"
    id = _sketch_sql(_HASH, "0D", 4)
    named = over(
        rows,
        f"SELECT max(t) AS time, CAST({SHARD} AS STRING) AS name, {id} AS sketch "
        f"FROM ({shards}) GROUP BY {SHARD}",
    )
    times, names = {}, {}
    for shard in named.collect():
        id = _only(read_sketch(shard["sketch"]))
        times[id], names[id] = shard["time"], shard["name"]
    return SeenShards(times=times, names=names)


def _only(entries: Mapping[str, int] | None) -> str:
    assert entries is not None, "there is room for one"
    (id,) = entries
    return id


def read_sketch(sketch: bytes | None) -> dict[str, int] | None:
    """Return the values of a tuple sketch of DOUBLEs by the hex of their hash.

    None if they are not exact: some had no room, or one is beyond the integers of a DOUBLE. The
    format is that of a compact tuple sketch of Apache DataSketches. Its first byte says how many
    words of 8 bytes precede the entries: one if there is at most one entry, two with their number,
    three if some had no room. An entry is a hash of 8 bytes, a DOUBLE, and a byte that says "max".
    """
    if sketch is None:
        return {}
    words = sketch[0]
    if words > _WORDS_OF_ALL:
        return None
    entries = [
        (hash.hex(), time) for hash, time, _ in _ENTRY.iter_unpack(memoryview(sketch)[8 * words :])
    ]
    if any(abs(time) >= _EXACT for _, time in entries):
        return None
    return {hash: int(time) for hash, time in entries}
