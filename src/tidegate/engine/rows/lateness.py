"""Lateness exact to the record: each row is judged by the watermark at its place in its shard.

    shard 1      t = 10   31   12   40        lag 0, lateness 0, windows of 10 s
    W before it      -    10   31   31        the row at 12 is late: [10, 20) had closed

A row is *behind* if a window of it had closed when it came: by the greatest event time of its shard
up to the row before it, or by the watermark before the batch. Most batches have no such row, and
job 1 runs as if all rows were judged by the watermark before the batch. Then, until it is certain:

1. what it has observed: the batch closes no window that a row of it is in;
2. for partials of panes, the places that it has written beside them (``panes/places.py``);
3. for others, a job that cuts the rows of a shard into chunks, in order of arrival. A chunk whose
   least time is not behind the greatest time up to its end has no row that is behind.

If there are such rows, a job writes their places, and job 1 is run again over rows that are marked
with ``_behind``: the watermark less the allowed lateness when they came; NULL for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StructField, StructType

from tidegate.engine.rows.fates import UNTIMED, BatchStart, Fate, fate_case, judged_sql
from tidegate.engine.rows.rejoin import Marks, rejoined
from tidegate.plan.columns import BEHIND, FATE, OWN_TIME, PLACE, SHARD, TIME
from tidegate.plan.time_columns import LEAST_TIME_US
from tidegate.spark.observe import observed
from tidegate.spark.statements import ROW_NUMBER, by_reference, over, over_all
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival, Ingested, Operator
    from tidegate.plan.physical import PhysicalPlan

# BIGINT: the number of a chunk of rows, in order of arrival.
CHUNK = "_chunk"
# BIGINT: the time of a row that can be late; the time by which a row moves the watermark.
JUDGED_TIME, SEEN = "_judged_t", "_seen"
# Of a chunk: the least time of rows that can be late, the greatest time that moves the watermark,
# and that of all that was before it.
LEAST, GREATEST, BEFORE = "_lo", "_hi", "_before"

# A chunk has 2**bits rows: few, so that hardly a chunk is looked at in which no row is behind.
CHUNK_BITS = 6

_PLACES = StructType([StructField(PLACE, LongType()), StructField(BEHIND, LongType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLateness:
    """Finds the rows of a batch that are behind.

    Attributes:
        plan: a plan with ``lateness = "record"``.
        operator: says which windows of a row have closed.
    """

    plan: PhysicalPlan
    operator: Operator

    def exact(
        self, ingested: Ingested, arrival: Arrival, seen: SeenBefore, io: StateIO
    ) -> tuple[Ingested, Arrival]:
        """Return what job 1 did, and the batch; job 1 is run again if some rows are behind.

        Args:
            ingested: what it did with all rows judged by the watermark before the batch.
            arrival: the rows.
            seen: the greatest event times before the batch and in it.
            io: the state.
        """
        told = bool(ingested.counts.late or ingested.counts.partial or ingested.some_behind)
        if not told and not self._may_be_behind(ingested, seen):
            return ingested, arrival
        if not told and ingested.any_behind is not None and not ingested.any_behind():
            return ingested, arrival
        numbered = self._numbered(arrival.rows, arrival.start)
        io.tasks.set(1)
        suspicious = self._suspicious(numbered, arrival.start, seen)
        if not told and ingested.any_behind is None and suspicious.isEmpty():
            return ingested, arrival
        io.tasks.set()
        rows = self._behind(numbered, suspicious, arrival.start)
        behind = io.write_counted(
            arrival.start.epoch, "behind", rows, (f"min({BEHIND})", f"max({BEHIND})")
        )
        if behind is None:
            return ingested, arrival
        start = replace(arrival.start, behind_us=behind.last_us)
        marked = replace(arrival, rows=_marked(arrival.rows, behind, io), start=start)
        return self.operator.ingest(marked, io), marked

    def watched(
        self, rows: DataFrame, seen: SeenBefore, start: BatchStart
    ) -> tuple[DataFrame, Callable[[], int | None]]:
        """Return rows and, to be called after a job over them, the latest bound of one of them."""
        time = OWN_TIME if self.plan.watermark.falls_back else TIME
        valid = f"{time} >= {LEAST_TIME_US}L"
        if start.clock_us is not None:
            limit_us = start.clock_us + self.plan.watermark.max_future_skew_us
            valid += f" AND {time} <= {by_reference(limit_us, time)}"
        watched, numbers = observed(rows, {"greatest": f"max(IF({valid}, {time}, NULL))"})

        def latest_bound() -> int | None:
            times = (numbers()["greatest"], seen.greatest_us)
            bounds = [us - self.plan.watermark.slack_us for us in times if us is not None]
            return max(
                bounds if start.bound_us is None else [*bounds, start.bound_us], default=None
            )

        return watched, latest_bound

    def bounds(self, wanted: DataFrame, arrival: Arrival, seen: SeenBefore) -> DataFrame:
        """Return the ends up to which windows had closed for some rows of a batch.

        Args:
            wanted: the rows: ``_i`` and, where there are shards, ``_shard``.
            arrival: the batch.
            seen: the greatest event times before the batch.

        Returns:
            ``_i`` and ``_behind`` of the rows and of others.
        """
        numbered = self._numbered(arrival.rows, arrival.start)
        by = [*self._shard, CHUNK]
        same = " AND ".join(f"chunks.{name} <=> wanted.{name}" for name in by)
        shard = "".join(f"{name}, " for name in self._shard)
        chunk = f"SELECT DISTINCT {shard}{PLACE} >> {CHUNK_BITS} AS {CHUNK} FROM {{wanted}}"
        of_wanted = over_all(
            {"chunks": self._chunks(numbered, seen), "wanted": wanted},
            f"SELECT chunks.* FROM {{chunks}} AS chunks "
            f"LEFT SEMI JOIN ({chunk}) AS wanted ON {same}",
        )
        return self._judged(numbered, of_wanted, arrival.start).select(PLACE, BEHIND)

    def _may_be_behind(self, ingested: Ingested, seen: SeenBefore) -> bool:
        """Whether the batch may close a window that one of its rows is in, by what job 1 saw."""
        if seen.greatest_us is None:
            return False
        bound_us = seen.greatest_us - self.plan.watermark.slack_us
        return any(self.operator.may_close(each, bound_us) for each in ingested.segments)

    @property
    def _shard(self) -> list[str]:
        return [SHARD] if self.plan.watermark.shard is not None else []

    def _numbered(self, rows: DataFrame, start: BatchStart) -> DataFrame:
        """Return the place, the chunk and the times of each row, and its shard."""
        fate = fate_case(self.plan, start, late=None)
        judged = judged_sql(rows.columns, self.plan, start, fate)
        untimed = ", ".join(str(each.value) for each in UNTIMED)
        seen = OWN_TIME if self.plan.watermark.falls_back else TIME
        columns = [
            *self._shard,
            f"{ROW_NUMBER} AS {PLACE}",
            f"IF({FATE} = {Fate.ACCUMULATED.value}, {TIME}, NULL) AS {JUDGED_TIME}",
            f"IF({FATE} IN ({untimed}), NULL, {seen}) AS {SEEN}",
        ]
        placed = f"SELECT {', '.join(columns)} FROM ({judged})"
        return over(rows, f"SELECT *, {PLACE} >> {CHUNK_BITS} AS {CHUNK} FROM ({placed})")

    def _suspicious(self, numbered: DataFrame, start: BatchStart, seen: SeenBefore) -> DataFrame:
        """Return the chunks in which a row may be behind, with the greatest time before them."""
        bound = self._bound_sql(f"greatest({BEFORE}, {GREATEST})", start, CHUNK)
        return self._chunks(numbered, seen).where(self.operator.closed_before(LEAST, bound))

    def _chunks(self, numbered: DataFrame, seen: SeenBefore) -> DataFrame:
        """Return the chunks of a batch, with the times of each and the greatest time before it."""
        by = ", ".join([*self._shard, CHUNK])
        chunks = (
            f"SELECT {by}, min({JUDGED_TIME}) AS {LEAST}, max({SEEN}) AS {GREATEST} "
            f"FROM {{frame}} GROUP BY {by}"
        )
        shard = f"{SHARD}" if self._shard else f"{CHUNK} & 0L"
        so_far = (
            f"max({GREATEST}) OVER (PARTITION BY {shard} ORDER BY {CHUNK} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        )
        known = seen.known_sql(CHUNK)
        before = f"greatest({so_far}, {known})" if known else so_far
        return over(numbered, f"SELECT *, {before} AS {BEFORE} FROM ({chunks})")

    def _behind(self, numbered: DataFrame, suspicious: DataFrame, start: BatchStart) -> DataFrame:
        """Return the places of the rows that are behind, with their ``_behind``."""
        behind = self.operator.closed_before(JUDGED_TIME, BEHIND)
        return self._judged(numbered, suspicious, start).where(behind).select(PLACE, BEHIND)

    def _judged(self, numbered: DataFrame, chunks: DataFrame, start: BatchStart) -> DataFrame:
        """Return the rows of chunks with their ``_behind``."""
        by = [*self._shard, CHUNK]
        same = " AND ".join(f"rows.{name} <=> chunks.{name}" for name in by)
        of_chunk = ", ".join(f"rows.{name}" for name in by)
        so_far = (
            f"max({SEEN}) OVER (PARTITION BY {of_chunk} ORDER BY {PLACE} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        )
        looked_at = (
            f"SELECT /*+ BROADCAST(chunks) */ {PLACE}, {JUDGED_TIME}, "
            f"greatest({BEFORE}, {so_far}) AS {BEFORE} "
            f"FROM {{rows}} AS rows JOIN {{chunks}} AS chunks ON {same}"
        )
        bound = self._bound_sql(BEFORE, start, PLACE)
        return over_all(
            {"rows": numbered, "chunks": chunks},
            f"SELECT {PLACE}, {JUDGED_TIME}, {bound} AS {BEHIND} FROM ({looked_at})",
        )

    def _bound_sql(self, greatest: str, start: BatchStart, beside: str) -> str:
        """The end up to which windows have closed for a row, from the greatest time before it."""
        own = f"{greatest} - {self.plan.watermark.slack_us}L"
        if start.bound_us is None:
            return own
        return f"greatest({own}, {by_reference(start.bound_us, beside)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBefore:
    """The greatest event times of the shards.

    Attributes:
        known: those before the batch, by the name of the shard; None is the name of NULL. Without a
            shard expression the one shard has the name ''.
        greatest_us: the greatest of all, the batch's among them; None: there is none.
        sharded: whether there is a shard expression.
    """

    known: Mapping[str | None, int]
    greatest_us: int | None
    sharded: bool = False

    def known_sql(self, beside: str) -> str | None:
        """The greatest time of a row's shard before the batch, as Spark SQL; None: unknown."""
        if not self.known:
            return None
        if not self.sharded:
            (only,) = self.known.values()
            return by_reference(only, beside)
        pairs = ", ".join(
            f"{_text(name)}, {us}L" for name, us in self.known.items() if name is not None
        )
        named = f"try_element_at(map({pairs}), CAST({SHARD} AS STRING))" if pairs else "NULL"
        unnamed = self.known.get(None)
        return f"IF({SHARD} IS NULL, {'NULL' if unnamed is None else f'{unnamed}L'}, {named})"


def _text(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _marked(rows: DataFrame, behind: Segment, io: StateIO) -> DataFrame:
    """Return the rows of a batch with ``_behind``, in their order: the places go to the rows."""
    marks = Marks(
        frame=io.store.read_segments([behind], _PLACES),
        same=f"rows.{PLACE} = marks.{PLACE}",
    )
    numbered = rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")
    columns = (*(f"rows.{name}" for name in rows.columns), f"marks.{BEHIND}")
    return rejoined(numbered, marks, columns)
