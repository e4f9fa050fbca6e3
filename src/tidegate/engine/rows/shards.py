"""The shards of a batch: the greatest event time of each and its rows, observed by job 1.

Rows are not grouped by their shard as well: there would be as many more partials. Placed rows tell
their shard: a row its own, a partial that of its group keys, if the shard is computed from them,
else that of its rows, if they are of one shard. Where partials are of several shards, rows are
watched as Spark hands them over, below all that an operator does with them. What is observed are
sketches for the hash of a shard, see ``shard_rows.py``.

A sketch has no names. So a batch that has a shard which the state does not know reads the partials
that it has just written, if they tell their shards by group keys. It does so when its step is
finished, if all of its rows are in them, and at once if not. If partials do not tell their shards,
the batch reads once more the first rows of each partition. If these do not name all new shards, it
groups all of its rows by shard. It does so too if it has more shards than there is room for, or a
greatest time that a DOUBLE, as the values of a sketch are, rounds (before 1684, after 2255).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import ceil, log
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as of_spark

from tidegate.engine.rows.fates import fate_case, judged_sql, shard_hash_sql
from tidegate.engine.rows.shard_rows import (
    counted_of,
    fate_conditions,
    read_counts,
    read_times,
    shard_sketches,
    within,
)
from tidegate.engine.rows.sketches import MOST_BITS, read_sketch, sketch_sql
from tidegate.plan.columns import OWN_TIME, SHARD, SHARD_HASH, TIME
from tidegate.plan.time_columns import GREATEST_TIME_US, LEAST_TIME_US
from tidegate.spark.observe import observed
from tidegate.spark.statements import ROW_NUMBER, first_of_each, over
from tidegate.state.shard_map import SeenShards, ShardMap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested, Operator
    from tidegate.metrics.report import Counts
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.state.manifest import Segment
    from tidegate.state.watermark import WatermarkState

# No event time: NULL, and in a list, which has none, a time before all that there are.
_NO_TIME = "CAST(NULL AS BIGINT)"
_NEVER = LEAST_TIME_US - 1

# Names of shards are looked for in at least so many rows of each partition.
LEAST_ROWS = 1_000


class ShardWatch:
    """Observes the shards of one batch after another.

    Where the shard is computed from the group keys, a partial tells it and rows cost nothing. Where
    it follows from them in another way, as the partition of a keyed topic does, each partial is of
    one shard, and telling it costs a hash of each row. Once a batch had a partial of several
    shards, the rows of later ones are watched.

    Args:
        plan: a plan with shards.
        empty: a static frame without rows, of the prepared columns.
    """

    def __init__(self, plan: PhysicalPlan, empty: DataFrame) -> None:
        self._plan = plan
        self._of_keys = shard_of_keys(plan, empty)
        self._as_placed = True
        # Shards without a name in the state at the start: NULL, and those that a process had left
        # for later which ended before. None: not known yet.
        self._nameless: set[str] | None = None

    def ingest(
        self,
        arrival: Arrival,
        operator: Operator,
        known: ShardMap,
        totals: Counts,
        io: StateIO,
    ) -> tuple[Ingested, SeenShards]:
        """Run job 1 over prepared rows; return what it did, and the shards that it saw.

        Args:
            arrival: the rows, with ``_shard``.
            operator: runs job 1.
            known: the shards that the state knows.
            totals: the rows of the query so far.
            io: the state.
        """
        counted = counted_of(totals, may_be_late=arrival.start.bound_us is not None)
        if self._as_placed:
            start = replace(
                arrival.start, tells_shards=True, shard_of_keys=self._of_keys, counted=counted
            )
            ingested = operator.ingest(replace(arrival, start=start), io)
            told = ingested.shards
            assert told is not None, "placed rows tell their shards where they are asked"
            self._as_placed = not told.mixed
            seen = told.seen
            if told.mixed:
                return ingested, _by_job(arrival.rows, _valid_time(self._plan, arrival.start))
        else:
            watched, numbers = _watched(arrival, operator, self._plan, counted)
            ingested = operator.ingest(replace(arrival, rows=watched), io)
            seen = numbers()
        times = read_times(seen)
        valid = _valid_time(self._plan, arrival.start)
        if times is None:
            return ingested, _by_job(arrival.rows, valid)
        shards = replace(within(read_counts(seen, counted), ingested.counts), times=times)
        if self._nameless is None:
            self._nameless = known.nameless()
        new = {id for id in times if id not in known}
        found_nameless = self._nameless & times.keys()
        if not new and not found_nameless:
            return ingested, shards
        if not found_nameless and self._are_named_later(ingested):
            return ingested, shards
        names = self._names(new | found_nameless, arrival, ingested, io)
        self._nameless -= names.keys()
        return ingested, replace(shards, names=names)

    def _are_named_later(self, ingested: Ingested) -> bool:
        """Whether ``named`` will find the names of all new shards of a batch.

        Not where a row is not in the state, or a quota may take it out again. With lateness exact
        to the record, names are needed at once.
        """
        plan, counts = self._plan, ingested.counts
        has_quotas = plan.max_groups is not None or plan.max_rows is not None
        is_whole = counts.accumulated == counts.rows_in > 0
        by_record = plan.watermark.by_record
        return self._of_keys is not None and is_whole and not has_quotas and not by_record

    def named(
        self, before: WatermarkState, after: WatermarkState, fresh: Sequence[Segment], io: StateIO
    ) -> ShardMap | None:
        """Return the shards after a batch with the names that ``ingest`` has left for later.

        That costs a job, which may run beside the next batch. None if it has left none.

        Args:
            before: the state before the batch.
            after: the state with its rows.
            fresh: the segments of the batch.
            io: the state.
        """
        if self._of_keys is None or not fresh:
            return None
        shards = ShardMap.of(after.shards)
        known = ShardMap.of(before.shards if before.by == after.by else {})
        if not shards.is_new_without_name(known):
            return None
        return shards.named(self._names_in_state(fresh, io))

    def _names_in_state(self, segments: Sequence[Segment], io: StateIO) -> Mapping[str, str | None]:
        io.tasks.set_for(segments)
        rows = io.read(segments).selectExpr(f"{self._of_keys} AS {SHARD}")
        return _by_job(rows, _NO_TIME).names

    def _names(
        self, new: Set[str], arrival: Arrival, ingested: Ingested, io: StateIO
    ) -> Mapping[str, str | None]:
        """Return the names of new shards, and perhaps of others, by their ids."""

        def sources() -> Iterator[Mapping[str, str | None]]:
            if self._of_keys is not None and ingested.segments:
                yield self._names_in_state(ingested.segments, io)
            rows = arrival.rows.select(SHARD)
            yield _by_job(first_of_each(rows, _enough(len(new))), _NO_TIME).names
            yield _by_job(rows, _NO_TIME).names

        names: Mapping[str, str | None] = {}
        for names in sources():
            if new <= names.keys():
                break
        return names


# Types of which equal values, as GROUP BY sees them, are the same value. Not so 0 and -0 as DOUBLE,
# nor texts with a collation.
_PLAIN = (
    of_spark.BooleanType,
    of_spark.BinaryType,
    of_spark.IntegralType,
    of_spark.DecimalType,
    of_spark.DateType,
    of_spark.TimestampType,
    of_spark.TimestampNTZType,
)


def shard_of_keys(plan: PhysicalPlan, empty: DataFrame) -> str | None:
    """Return the shard over the group keys, None if it is not certain that it follows from them.

    Args:
        plan: a plan with shards.
        empty: a static frame without rows, of the prepared columns.
    """
    shard = plan.watermark.shard_of_keys
    if shard is None:
        return None
    keys = {key.name: empty.schema[key.name].dataType for key in plan.ingest.keys}
    used = [kind for name, kind in keys.items() if re.search(rf"\b{name}\b", shard)]
    if shard not in keys and not all(_is_plain(kind) for kind in used):
        return None
    # Hashes of a value depend on its type.
    told = empty.selectExpr(f"{shard} AS {SHARD}").schema[SHARD].dataType
    return shard if told == empty.schema[SHARD].dataType else None


def _is_plain(kind: of_spark.DataType) -> bool:
    return isinstance(kind, _PLAIN) or kind == of_spark.StringType()


def _watched(
    arrival: Arrival, operator: Operator, plan: PhysicalPlan, counted: tuple[str, ...]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Return prepared rows that are observed, and what returns the numbers after a job."""
    rows, start = arrival.rows, arrival.start
    bound = start.bound_sql()
    fate = fate_case(plan, start, late=None if bound is None else operator.is_late(bound))
    judged = judged_sql(rows.columns, plan, start, fate)
    time = OWN_TIME if plan.watermark.falls_back else TIME
    sketches = shard_sketches(counted, fate_conditions(), time, rows=None)
    columns = ", ".join([*rows.columns, SHARD_HASH, *sketches.columns.values()])
    hashed = f"SELECT *, {shard_hash_sql()} AS {SHARD_HASH} FROM ({judged})"
    return observed(
        over(rows, f"SELECT {columns} FROM ({hashed})"), {"rows": "count(1)"}, sketches.observed
    )


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

    A sketch of their places says which id each has in other sketches. All shards come in one row,
    in lists: a row for each of thousands takes PySpark several times as long. Lists have no NULLs.
    """
    timed = f"SELECT {SHARD}, {time} AS t FROM {{frame}}"
    shards = f"SELECT {SHARD}, max(t) AS t, count(1) AS n FROM ({timed}) GROUP BY {SHARD}"
    placed = f"SELECT *, {ROW_NUMBER} AS place FROM ({shards})"
    places = sketch_sql(shard_hash_sql(), "CAST(place AS DOUBLE)", MOST_BITS)
    columns = ("place", f"coalesce(t, {_NEVER})", "n", f"coalesce(CAST({SHARD} AS STRING), '')")
    lists = ", ".join(f"collect_list({column})" for column in columns)
    nameless = f"max(IF({SHARD} IS NULL, place, NULL))"
    [found] = over(rows, f"SELECT {nameless}, {places}, {lists} FROM ({placed})").collect()
    without_name, sketch, *in_lists = found
    by_id = read_sketch(sketch)
    assert by_id is not None, "a row has no room for more shards than a sketch has"
    # Of shards with the same hash, which are one in other sketches, this has the last one.
    ids = {place: id for id, place in by_id.items()}
    all_ = [
        (ids[place], time, number, None if place == without_name else name)
        for place, time, number, name in zip(*in_lists, strict=True)
        if place in ids
    ]
    return SeenShards(
        times={id: time for id, time, _, _ in all_ if time != _NEVER},
        names={id: name for id, _, _, name in all_},
        rows={id: number for id, _, number, _ in all_},
    )
