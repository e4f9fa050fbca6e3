"""The shards of a batch: the greatest event time of each, observed by job 1.

Rows are not grouped by their shard as well: there would be as many more partials. Where partials
cannot tell the shards, rows are watched as Spark hands them over, below all that an operator does
with them. What is observed is a sketch of the greatest event time for the hash of a shard, see
``sketches.py``.

A sketch has no names. So a batch that has a shard which the state does not know reads once more
the first rows of each partition; if they do not name all new shards, it groups all of its rows by
shard. It does so too if it has more shards than there is room for, or a greatest time that a
DOUBLE, as the values of a sketch are, rounds (before 1684, after 2255).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import ceil, log
from typing import TYPE_CHECKING

from tidegate.engine.rows.sketches import read_sketch, sketch_sql
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
from tidegate.spark.statements import first_of_each, over
from tidegate.state.watermark import SeenShards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.rows.prepare import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested, Operator
    from tidegate.plan.physical import PhysicalPlan

# A sketch has room for 2**bits shards.
_BITS = 20

# Names of shards are looked for in at least so many rows of each partition.
LEAST_ROWS = 1_000

_HASH = f"xxhash64({SHARD})"


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
            sketch = sketch_sql(_HASH, f"CAST({time} AS DOUBLE)", _BITS)
            watched, numbers = observed(arrival.rows, {"sketch": sketch})
            ingested = operator.ingest(replace(arrival, rows=watched), io)
            times = read_sketch(numbers()["sketch"])
        if times is not None:
            new = {id for id in times if id not in known}
            if not new:
                return ingested, SeenShards(times=times)
            names = _by_job(first_of_each(arrival.rows, _enough(len(new))), time).names
            if new <= names.keys():
                return ingested, SeenShards(times=times, names=names)
        return ingested, _by_job(arrival.rows, time)


def shards_of_partials(timed: str) -> dict[str, str]:
    """Return what to observe of partials: a sketch of their shards, and how many are mixed.

    Args:
        timed: the condition (Spark SQL) that the rows of a partial have valid times.
    """
    time = f"IF({timed} AND {LEAST_SHARD} = {GREATEST_SHARD}, {SEEN_TIME}, NULL)"
    return {
        "shards": sketch_sql(LEAST_SHARD, f"CAST({time} AS DOUBLE)", _BITS),
        "mixed": f"count_if({timed} AND {LEAST_SHARD} <> {GREATEST_SHARD})",
    }


def _valid_time(plan: PhysicalPlan, start: BatchStart) -> str:
    """The event time of a row, NULL where it is none that the watermark may follow."""
    time = OWN_TIME if plan.watermark.falls_back else TIME
    limit_us = GREATEST_TIME_US
    if start.clock_us is not None:
        limit_us = min(limit_us, start.clock_us + plan.watermark.max_future_skew_us)
    return f"IF({time} >= {LEAST_TIME_US}L AND {time} <= {limit_us}L, {time}, NULL)"


def _enough(shards: int) -> int:
    """So many rows are likely to have all of some shards that are evenly mixed: 99 times of 100."""
    return max(LEAST_ROWS, ceil(shards * (log(shards) + 5)))


def _by_job(rows: DataFrame, time: str) -> SeenShards:
    """Return the shards of rows, grouped by a job of their own.

    A sketch of one shard says which id it has in a sketch of several.
    """
    timed = f"SELECT {SHARD}, {time} AS t FROM {{frame}}"
    shards = f"SELECT {SHARD}, max(t) AS t FROM ({timed}) WHERE t IS NOT NULL GROUP BY {SHARD}"
    id = sketch_sql(_HASH, "0D", 4)
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
