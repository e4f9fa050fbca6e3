"""Sessions with lateness exact to the record: which rows are late, and which sessions part.

Where a row is behind, the rows of its key are followed in order of arrival, together with the
sessions of the key that were open before the batch:

    gap 10, lag and lateness 0     W before the row    sessions of the key after it
    a row of the key at 30                        -    [30]
    a row of another key at 45                   30    [30]
    a row of the key at 38                       45    [30] has ended, [38]: parted
    a row of the key at 31                       45    [31 38]: it joins a session that is open
    a row of the key at 20                       45    late: [20] would have ended

A row that finds no open session within the gap, and whose own would have ended, is late. A session
that has ended before a row of its key comes is *parted*: that row does not join it, though it may
be within the gap. Its rows have a ``_part``, which tells them from other sessions of their key at
the same time; it ends with this batch, so no part outlives it. All others are as if every row of
the batch had come at once.

Rows between two that are behind cannot part or be late. So they are followed as spans, not one by
one, and a key is followed only if it has a row that is behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tidegate.engine.rows.prepare import Fate, clock_sql, fate_case, judged_sql
from tidegate.engine.rows.rejoin import Marks, memory, rejoined
from tidegate.engine.windows.sessions.spans import FIRST, LAST, buckets
from tidegate.plan.columns import BEHIND, FATE, IS_LATE, PART, PLACE, TIME
from tidegate.spark.statements import ROW_NUMBER, over_all
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival
    from tidegate.plan.physical import PhysicalPlan

# Of a key: its parted sessions, each with its times and the place of the row that found it ended;
# the places of its late rows.
PARTED, LATE_PLACES = "_parted", "_late"

_SESSION = "STRUCT<f: BIGINT, l: BIGINT>"
_PARTED_SESSION = "STRUCT<f: BIGINT, l: BIGINT, c: BIGINT>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Follows the rows of keys.

    Attributes:
        plan: the plan.
        gap_us: the gap of sessions.
        keys: the columns of the keys.
        schema: the columns of the state.
    """

    plan: PhysicalPlan
    gap_us: int
    keys: Sequence[str]
    schema: StructType

    def verdicts(self, arrival: Arrival, spans: DataFrame | None, io: StateIO) -> Segment:
        """Follow the rows of a batch; write, for each key where it matters, what became of them.

        Args:
            arrival: rows, those behind marked.
            spans: the spans of sessions that were open before the batch; None: there are none.
            io: the state.
        """
        io.tasks.set()
        fate = fate_case(self.plan, arrival.start, late=None)
        rows = arrival.rows
        judged = judged_sql(rows.columns, self.plan, arrival.start, fate)
        names = ", ".join([*self.keys, BEHIND])
        good = (
            f"SELECT {names}, {TIME} AS t, {PLACE} AS i FROM "
            f"(SELECT *, {ROW_NUMBER} AS {PLACE} FROM ({judged})) "
            f"WHERE {FATE} = {Fate.ACCUMULATED.value}"
        )
        # A column of the rows, because Spark warns of a window function without a partition.
        by = [*self.keys, "i & 0L"]
        of_key = f"max({BEHIND}) OVER (PARTITION BY {', '.join(by)})"
        run = f"count({BEHIND}) OVER (PARTITION BY {', '.join(by)} ORDER BY i)"
        touched = (
            f"SELECT * FROM (SELECT *, {of_key} AS _touched, {run} AS _run FROM ({good})) "
            "WHERE _touched IS NOT NULL"
        )
        bucket = buckets(self.gap_us).pane_sql("t")
        pieces = ", ".join([*self.keys, "_run", BEHIND, "_bucket"])
        elements = (
            f"SELECT {_list(self.keys)}min(i) AS i, min(t) AS f, max(t) AS l, {BEHIND} AS b FROM "
            f"(SELECT *, IF({BEHIND} IS NULL, {bucket}, NULL) AS _bucket FROM ({touched})) "
            f"GROUP BY {pieces}"
        )
        frames = {"frame": rows}
        if spans is not None:
            frames["spans"] = spans
            before = f"SELECT {_list(self.keys)}-1L, {FIRST}, {LAST}, CAST(NULL AS BIGINT) FROM"
            elements = f"{elements} UNION ALL {before} {{spans}}"
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        followed = (
            f"SELECT {_list(self.keys)}aggregate(sort_array(collect_list(struct(i, f, l, b))), "
            f"{_NOTHING}, {self._follow()}) AS _end, count(b) AS _behind_rows FROM ({elements})"
            f"{group}"
        )
        told = (
            f"SELECT {_list(self.keys)}_end.done AS {PARTED}, _end.late AS {LATE_PLACES} "
            f"FROM ({followed}) WHERE _behind_rows > 0"
        )
        name, files = io.write(arrival.start.epoch, "verdicts", over_all(frames, told))
        return Segment(name=name, first_us=0, last_us=0, rows=0, files=files)

    def _follow(self) -> str:
        """One step of following: ``acc`` is what is known of a key, ``x`` its next rows."""
        gap = f"{self.gap_us}L"
        opened = f"filter(acc.live, s -> x.b IS NULL OR s.l + {gap} >= x.b)"
        ended = f"filter(acc.live, s -> x.b IS NOT NULL AND s.l + {gap} < x.b)"
        touches = f"x.f <= s.l + {gap} AND x.l >= s.f - {gap}"
        late = f"(x.b IS NOT NULL AND x.l + {gap} < x.b AND NOT exists({opened}, s -> {touches}))"
        joined = f"filter({opened}, s -> {touches})"
        others = f"filter({opened}, s -> NOT ({touches}))"
        first = f"least(x.f, array_min(transform({joined}, s -> s.f)))"
        last = f"greatest(x.l, array_max(transform({joined}, s -> s.l)))"
        live = f"array_append({others}, named_struct('f', {first}, 'l', {last}))"
        done = f"transform({ended}, s -> named_struct('f', s.f, 'l', s.l, 'c', x.i))"
        return (
            f"(acc, x) -> named_struct('live', IF({late}, {opened}, {live}), "
            f"'done', concat(acc.done, {done}), "
            f"'late', IF({late}, array_append(acc.late, x.i), acc.late))"
        )

    def read(self, verdicts: Segment, io: StateIO) -> DataFrame:
        """Return what ``verdicts`` wrote, the keys with a prefix."""
        fields = [StructField(name, self.schema[name].dataType) for name in self.keys]
        session = StructType([StructField(name, LongType()) for name in "flc"])
        fields += [
            StructField(PARTED, ArrayType(session)),
            StructField(LATE_PLACES, ArrayType(LongType())),
        ]
        found = io.store.read_segments([verdicts], StructType(fields))
        return found.withColumnsRenamed({name: f"_of{name}" for name in self.keys})

    def marked(self, arrival: Arrival, verdicts: Segment, io: StateIO) -> DataFrame:
        """Return the rows of a batch with ``_is_late`` and ``_part``, in their order."""
        rows = arrival.rows
        others = [f"rows.{name}" for name in rows.columns]
        time = f"rows.{TIME}"
        if self.plan.watermark.falls_back:
            time = f"coalesce({time}, {clock_sql(arrival.start)})"
        part = _part(f"d.f <= {time} AND {time} <= d.l AND d.c > rows.{PLACE}")
        is_late = f"coalesce(array_contains({LATE_PLACES}, rows.{PLACE}), false) AS {IS_LATE}"
        numbered = rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")
        marks = self._marks(verdicts, io)
        return rejoined(numbered, PLACE, marks, [*others, f"{part} AS {PART}", is_late])

    def parted(self, spans: DataFrame, verdicts: Segment, io: StateIO) -> DataFrame:
        """Return spans from before the batch, those of parted sessions with their ``_part``."""
        part = _part(f"d.f <= rows.{FIRST} AND rows.{LAST} <= d.l")
        columns = (f"rows.{name}" for name in spans.columns if name != PART)
        marks = self._marks(verdicts, io)
        return over_all(
            {"rows": spans, "marks": marks.frame},
            f"SELECT {marks.hint} {', '.join(columns)}, {part} AS {PART} "
            f"FROM {{rows}} AS rows LEFT JOIN {{marks}} AS marks ON {marks.same}",
        )

    def _marks(self, verdicts: Segment, io: StateIO) -> Marks:
        # Their keys may be large.
        size = memory(0, verdicts.bytes)
        return Marks(frame=self.read(verdicts, io), same=self._same("rows"), size=size)

    def _same(self, rows: str) -> str:
        return " AND ".join(f"{rows}.{name} <=> _of{name}" for name in self.keys) or "true"


_NOTHING = (
    f"named_struct('live', CAST(array() AS ARRAY<{_SESSION}>), "
    f"'done', CAST(array() AS ARRAY<{_PARTED_SESSION}>), 'late', CAST(array() AS ARRAY<BIGINT>))"
)


def _part(is_in: str) -> str:
    """The part of rows that came before their session ended: of several, the first to end."""
    return f"array_min(transform(filter({PARTED}, d -> {is_in}), d -> d.c))"


def _list(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names)
