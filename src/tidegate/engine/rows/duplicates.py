"""Duplicates: rows whose key was first seen at most the horizon ago.

    horizon 60      time   0      40     60     61     100
    rows of a key          first  dup.   dup.   first  dup. (of 61)

The state has, for each key, the time at which it was first seen. A job before ingest brings the
rows of a batch together with the state by key, and writes a segment with the keys that are new and
the places of the rows that are duplicates. Only a batch with duplicates has these joined to its
rows; any other is taken in as if there were no ``dedup_key``.

Of each key the job looks at the time that the state has, else at that of its first row in the
batch. A row *beyond* the horizon of it is rare, and may be the first of others: the rows beyond are
judged one by one, in a second job that reads only them.

Keys are kept as they are, no hash of them: two keys are the same if Spark says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StructField, StructType

from tidegate.engine.rows.prepare import BatchStart, Fate, fate_case, judge
from tidegate.errors import ExecutionError
from tidegate.plan.columns import DEDUP_KEY, DUPLICATE, FATE, TIME
from tidegate.plan.time_columns import LEAST_TIME_US
from tidegate.spark.observe import observed
from tidegate.spark.statements import ROW_NUMBER, by_reference, over, over_all
from tidegate.state.manifest import Segment, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested
    from tidegate.plan.physical import PhysicalPlan

# BIGINT: the place of a row in its batch, in order of arrival; NULL for a row that is the first of
# its key. A key of the state comes before all rows.
PLACE = "_place"
KNOWN = "-1L"
# BIGINT: the time of a row beyond the horizon; NULL for other rows.
BEYOND = "_beyond"

# By how many times a batch may have more keys than the one before without being short of tasks.
GROWTH = 2

# A merged segment spans at most this part of the horizon, so that hardly any of it is forgotten
# long before the rest; if segments span more, only many are merged.
MERGED_SPAN = 8
MANY_SEGMENTS = 64

# Keys that hardly repeat: a dictionary of them costs a third of writing them.
WRITE_OPTIONS = {"parquet.enable.dictionary": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """A batch whose duplicates are known.

    Attributes:
        arrival: what ingest takes in.
        segments: the segments of the table ``duplicates`` that the batch has brought.
        count: how many duplicates there are.
    """

    arrival: Arrival
    segments: tuple[Segment, ...] = ()
    count: int = 0

    def taken_in(self, ingested: Ingested) -> Tables:
        """Return the state with what ingest wrote, if it has met the duplicates that were found.

        Raises:
            ExecutionError: the rows came in another order when they were read again.
        """
        found = ingested.counts.duplicate
        if found != self.count:
            raise ExecutionError(
                f"dedup_key found {self.count:,} duplicates in epoch {self.arrival.start.epoch}, "
                f"but {found:,} when the rows were read again\n\nThe source must give the rows of "
                "a batch in the same order each time. Remove what shuffles them before this query."
            )
        tables = self.arrival.tables
        return replace(
            tables,
            windows=(*tables.windows, *ingested.segments),
            duplicates=(*tables.duplicates, *self.segments),
            quotas=(*tables.quotas, *ingested.quotas),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """Finds the duplicates of a batch.

    Attributes:
        plan: a plan with ``dedup_key``.
        horizon_us: a row up to so much after the first of its key is a duplicate.
        schema: the columns of the table ``duplicates``: the key, and ``_t``, the time at which it
            was first seen. The segment of a batch has others beside them, for its own step.
    """

    plan: PhysicalPlan
    horizon_us: int
    schema: StructType

    def sort(self, arrival: Arrival, io: StateIO) -> Sorted:
        """Find the duplicates of a batch, and write the keys that are new."""
        start = arrival.start
        known = self.remembered(arrival.tables.duplicates, start.bound_us)
        numbered = _numbered(arrival.rows)
        _set_tasks(known, io)
        keys = self._known(known, start.bound_us, io) if known else None
        written = [_write("keys", self.sorted_keys(numbered, keys, start), start, io)]
        if written[0].beyond:
            rows = self._read([written[0].segment], io).where(f"{BEYOND} IS NOT NULL")
            rows = rows.selectExpr(DEDUP_KEY, f"{BEYOND} AS {TIME}", PLACE)
            written.append(_write("more-keys", self._one_by_one(rows), start, io))
        segments = tuple(each.segment for each in written)
        left = tuple(segment for segment in segments if segment.rows)
        count = sum(each.duplicates for each in written)
        if not count:
            return Sorted(arrival=arrival, segments=left)
        found = self._read(segments, io).where(f"{PLACE} IS NOT NULL AND {BEYOND} IS NULL")
        judged = replace(start, has_duplicates=True)
        marked = replace(arrival, rows=_marked(numbered, found), start=judged)
        return Sorted(arrival=marked, segments=left, count=count)

    def of_table(self, rows: DataFrame, start: BatchStart) -> tuple[DataFrame, BatchStart]:
        """Return the rows of a table with its duplicates marked, and what they are judged by."""
        numbered = _numbered(rows)
        judged = self._one_by_one(self._eligible(numbered, start))
        found = judged.where(f"{PLACE} IS NOT NULL")
        return _marked(numbered, found), replace(start, has_duplicates=True)

    def remembered(self, segments: Sequence[Segment], bound_us: int | None) -> tuple[Segment, ...]:
        """Return the segments with keys that are not forgotten."""
        least_us = self._least(bound_us)
        return tuple(segment for segment in segments if segment.last_us >= least_us)

    def is_worth_merging(self, segments: Sequence[Segment]) -> bool:
        """Whether segments of one level, of which there are enough, are merged into one."""
        first_us = min(segment.first_us for segment in segments)
        span_us = max(segment.last_us for segment in segments) - first_us
        return MERGED_SPAN * span_us <= self.horizon_us or len(segments) >= MANY_SEGMENTS

    def merged(
        self, segments: Sequence[Segment], epoch: int, bound_us: int | None, io: StateIO
    ) -> Segment | None:
        """Write the keys of segments as one, without those that are forgotten."""
        keys = self._known(segments, bound_us, io).coalesce(1)
        return io.write_counted(epoch, "merged-keys", keys, (f"min({TIME})", f"max({TIME})"))

    def _least(self, bound_us: int | None) -> int:
        """The least time at which a key that is not forgotten was first seen.

        It is forgotten once W > time + horizon + lateness, and the bound is W - lateness.
        """
        if bound_us is None:
            return LEAST_TIME_US
        return max(LEAST_TIME_US, bound_us - self.horizon_us)

    def _known(self, segments: Sequence[Segment], bound_us: int | None, io: StateIO) -> DataFrame:
        keys = io.store.read_segments(segments, self.schema)
        least = by_reference(self._least(bound_us), TIME)
        return keys.where(f"{TIME} IS NOT NULL AND {TIME} >= {least}")

    def _read(self, segments: Sequence[Segment], io: StateIO) -> DataFrame:
        """The segments of a batch, with what only its own step needs."""
        more = [StructField(name, LongType()) for name in (PLACE, BEYOND)]
        return io.store.read_segments(segments, StructType([*self.schema, *more]))

    def _eligible(self, numbered: DataFrame, start: BatchStart) -> DataFrame:
        """The key, time and place of each row that is a duplicate if its key is known."""
        fate = fate_case(self.plan, start, late=None)
        good = f"{FATE} = {Fate.ACCUMULATED.value} AND {DEDUP_KEY} IS NOT NULL"
        return judge(numbered, self.plan, start, fate).where(good).select(DEDUP_KEY, TIME, PLACE)

    def sorted_keys(
        self, numbered: DataFrame, known: DataFrame | None, start: BatchStart
    ) -> DataFrame:
        """The rows of a batch: ``_t`` of those that are the first of their key, else ``_place``."""
        frames = {"rows": self._eligible(numbered, start)}
        rows = "TABLE {rows}"
        if known is not None:
            frames["known"] = known
            rows += f" UNION ALL SELECT {DEDUP_KEY}, {TIME}, {KNOWN} AS {PLACE} FROM {{known}}"
        # In a sort, long texts that begin alike take longer than their hashes.
        is_text = self.schema[DEDUP_KEY].dataType.typeName() in ("string", "binary")
        by = f"xxhash64({DEDUP_KEY}), {DEDUP_KEY}" if is_text else DEDUP_KEY
        # A key that was seen anew may be in the state twice; its later time counts.
        order = f"OVER (PARTITION BY {by} ORDER BY {PLACE}, {TIME} DESC ROWS UNBOUNDED PRECEDING)"
        since = f"first_value({TIME}) {order} AS _since, first_value({PLACE}) {order} AS _first"
        seen = f"SELECT *, {since} FROM ({rows})"
        is_first, is_beyond = f"{PLACE} = _first", f"{TIME} - _since > {self.horizon_us}L"
        return over_all(
            frames,
            f"SELECT {DEDUP_KEY}, IF({is_first}, {TIME}, NULL) AS {TIME}, "
            f"IF({is_first}, NULL, {PLACE}) AS {PLACE}, IF({is_beyond}, {TIME}, NULL) AS {BEYOND} "
            f"FROM ({seen}) WHERE {PLACE} > {KNOWN}",
        )

    def _one_by_one(self, rows: DataFrame) -> DataFrame:
        """The same of rows whose keys are not known, in whatever time they are."""
        is_new = f"(seen.t IS NULL OR row.t - seen.t > {self.horizon_us}L)"
        follow = (
            f"(seen, row) -> IF({is_new}, named_struct('t', row.t, 'places', "
            "array_append(seen.places, row.i)), seen)"
        )
        nothing = (
            "named_struct('t', CAST(NULL AS BIGINT), 'places', CAST(array() AS ARRAY<BIGINT>))"
        )
        listed = (
            f"SELECT {DEDUP_KEY}, sort_array(collect_list(struct({PLACE} AS i, {TIME} AS t))) "
            f"AS _rows FROM {{frame}} GROUP BY {DEDUP_KEY}"
        )
        judged = (
            f"SELECT {DEDUP_KEY}, aggregate(_rows, {nothing}, {follow}).places AS _kept, "
            f"inline(_rows) FROM ({listed})"
        )
        is_first = "array_contains(_kept, i)"
        return over(
            rows,
            f"SELECT {DEDUP_KEY}, IF({is_first}, t, NULL) AS {TIME}, "
            f"IF({is_first}, NULL, i) AS {PLACE}, CAST(NULL AS BIGINT) AS {BEYOND} FROM ({judged})",
        )


def sort_out(arrival: Arrival, job: Job, io: StateIO) -> Sorted:
    """Return a batch with its duplicates marked; as it is without ``dedup_key``."""
    return Sorted(arrival=arrival) if job.duplicates is None else job.duplicates.sort(arrival, io)


def duplicates_of(plan: PhysicalPlan, empty: DataFrame) -> Duplicates | None:
    """Return what finds the duplicates of a plan; None if it has no ``dedup_key``.

    Args:
        plan: the plan.
        empty: a static frame without rows, of the prepared columns.
    """
    settings = plan.settings
    if settings.dedup_key is None:
        return None
    assert settings.dedup_horizon_us is not None, "the settings have been checked"
    key = StructField(DEDUP_KEY, empty.schema[DEDUP_KEY].dataType)
    duplicates = Duplicates(
        plan=plan,
        horizon_us=settings.dedup_horizon_us,
        schema=StructType([key, StructField(TIME, LongType())]),
    )
    # Keys without an order are refused here, not by the first batch.
    duplicates.sorted_keys(_numbered(empty), None, BatchStart(epoch=0))
    return duplicates


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A segment of a batch; its rows are the keys that are new."""

    segment: Segment
    duplicates: int
    beyond: int


def _write(what: str, rows: DataFrame, start: BatchStart, io: StateIO) -> _Written:
    """Write sorted rows as a segment, and count them on the way."""
    watched, seen = observed(
        rows,
        {
            "new": f"count({TIME})",
            "first": f"min({TIME})",
            "last": f"max({TIME})",
            "others": f"count({PLACE})",
            "beyond": f"count({BEYOND})",
        },
    )
    name, files = io.store.write_segment(start.epoch, what, watched, WRITE_OPTIONS)
    found = seen()
    segment = Segment(
        name=name,
        first_us=found["first"] or 0,
        last_us=found["last"] or 0,
        rows=found["new"],
        files=files,
    )
    beyond = found["beyond"]
    return _Written(segment=segment, duplicates=found["others"] - beyond, beyond=beyond)


def _numbered(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")


def _marked(numbered: DataFrame, found: DataFrame) -> DataFrame:
    """The rows of a batch with ``_dup``, in their order, which a broadcast join keeps."""
    others = ", ".join(f"rows.{name}" for name in numbered.columns if name != PLACE)
    same = (f"rows.{name} = found.{name}" for name in (PLACE, DEDUP_KEY))
    return over_all(
        {"rows": numbered, "found": found.select(DEDUP_KEY, PLACE)},
        f"SELECT /*+ BROADCAST(found) */ {others}, found.{PLACE} IS NOT NULL AS {DUPLICATE} "
        f"FROM {{rows}} AS rows LEFT JOIN {{found}} AS found ON {' AND '.join(same)}",
    )


def _set_tasks(known: Sequence[Segment], io: StateIO) -> None:
    """Set the tasks of a batch's keys: what is known, and as many as the batch before brought."""
    if known:
        io.tasks.set_for([*known, *[known[-1]] * GROWTH])
    else:
        io.tasks.set()
