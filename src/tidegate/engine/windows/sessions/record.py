"""Sessions with lateness exact to the record: which rows are late, and which sessions part.

A row joins the sessions of its key that are within the gap and have not ended by the watermark at
its place. So sessions of a key can be *parted*: within the gap of each other, and yet two.

    gap 10, lag and lateness 0     W before the row    sessions of the key after it
    a row of the key at 30                        -    [30]
    a row of another key at 45                   30    [30]
    a row of the key at 38                       45    [30], which has ended; [38]
    a row of the key at 31                       45    [30]; [31 38]: it joins one that is open
    a row of the key at 20                       45    late: [20] would have ended

Each shard has a watermark of its own, so what has ended for a row of one may still be open for a
row of another, and a row for which both are open makes one of two.

Without rows that came *behind*, sessions follow from the times of rows alone. So a row that is
behind is a span by itself, with the bound that it was judged by (``_after``), and spans have a
place in the order of arrival (``_came``). A key with such spans is *followed*: its spans are taken
one after the other, and sessions become what they became row by row. That is done when rows come,
to find those that are late, and when sessions are due. Once the bound of all shards has passed
``_after``, sessions that have parted are closed, and the span is one like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tidegate.engine.rows.fates import Fate, fate_case, judged_sql
from tidegate.engine.rows.rejoin import Marks, rejoined
from tidegate.engine.windows.sessions.spans import ENDS, NUMBER, OPENS, SessionShape, buckets
from tidegate.plan.columns import AFTER, BEHIND, FATE, IS_LATE, PLACE, SEQUENCE, TIME
from tidegate.spark.statements import ROW_NUMBER, by_reference, over, over_all
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival
    from tidegate.plan.physical import PhysicalPlan

# Of a key: the places of its rows that are behind, in order, and of those that are late.
BEHIND_PLACES, LATE_PLACES = "_behind_places", "_late_places"
# Spans that are followed as one: they are of one run (those between two that are behind) and of one
# bucket, so they are of one session.
_RUN, _BUCKET = "_run", "_bucket"

_SESSION = "STRUCT<f: BIGINT, l: BIGINT, of: ARRAY<STRUCT<r: BIGINT, k: BIGINT>>>"
_NOTHING = (
    f"named_struct('sessions', CAST(array() AS ARRAY<{_SESSION}>), "
    "'late', CAST(array() AS ARRAY<BIGINT>))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Follows the spans of keys.

    Attributes:
        plan: the plan.
        gap_us: the gap of sessions.
        shape: what a span is.
        schema: the columns of the state.
    """

    plan: PhysicalPlan
    gap_us: int
    shape: SessionShape
    schema: StructType

    def verdicts(
        self, arrival: Arrival, open_spans: DataFrame | None, bound_us: int | None, io: StateIO
    ) -> Segment:
        """Follow the keys of a batch that have rows behind; write which of these rows are late.

        Args:
            arrival: rows, those behind marked.
            open_spans: the spans of sessions that were open before the batch; None: there are none.
            bound_us: the bound before the batch.
            io: the state.
        """
        io.tasks.set()
        fate = fate_case(self.plan, arrival.start, late=None)
        judged = judged_sql(arrival.rows.columns, self.plan, arrival.start, fate)
        good = (
            f"SELECT {self._keys}{BEHIND} AS a, {TIME} AS f, {TIME} AS l, "
            f"{by_reference(arrival.start.epoch, TIME)} AS b, {PLACE} AS i "
            f"FROM (SELECT *, {ROW_NUMBER} AS {PLACE} FROM ({judged})) "
            f"WHERE {FATE} = {Fate.ACCUMULATED.value}"
        )
        behind = f"SELECT DISTINCT {self._of_keys}1 AS _of FROM ({good}) WHERE a IS NOT NULL"
        spans = self._semi_join(good, behind)
        frames = {"frame": arrival.rows}
        if open_spans is not None:
            frames["spans"] = open_spans
            known = self._spans("{spans}", bound_us)
            spans = f"{spans} UNION ALL {self._semi_join(known, behind)}"
        followed = self._followed(spans)
        told = (
            f"SELECT {self._keys}_behind AS {BEHIND_PLACES}, _end.late AS {LATE_PLACES} "
            f"FROM ({followed})"
        )
        name, files = io.write(arrival.start.epoch, "verdicts", over_all(frames, told))
        return Segment(name=name, first_us=0, last_us=0, rows=0, files=files)

    def marked(self, rows: DataFrame, verdicts: Segment, io: StateIO) -> DataFrame:
        """Return the rows of a batch with ``_is_late`` and ``_sequence``, in their order."""
        fields = [StructField(name, self.schema[name].dataType) for name in self.shape.keys]
        places = ArrayType(LongType())
        fields += [StructField(name, places) for name in (BEHIND_PLACES, LATE_PLACES)]
        found = io.store.read_segments([verdicts], StructType(fields))
        found = found.withColumnsRenamed({name: f"_of{name}" for name in self.shape.keys})
        others = [f"rows.{name}" for name in rows.columns]
        before = f"size(filter({BEHIND_PLACES}, place -> place <= rows.{PLACE}))"
        sequence = f"2L * {before} - IF(rows.{BEHIND} IS NULL, 0L, 1L)"
        told = [
            f"IF({BEHIND_PLACES} IS NULL, 0L, {sequence}) AS {SEQUENCE}",
            f"coalesce(array_contains({LATE_PLACES}, rows.{PLACE}), false) AS {IS_LATE}",
        ]
        numbered = rows.selectExpr("*", f"{ROW_NUMBER} AS {PLACE}")
        marks = Marks(frame=found, same=self._same("rows"))
        return rejoined(numbered, marks, [*others, *told])

    def keys_behind(self, spans: DataFrame, bound_us: int | None) -> DataFrame:
        """Return the keys of spans that came behind, with a prefix: sessions may have parted."""
        behind = f"{AFTER} IS NOT NULL"
        if bound_us is not None:
            behind = f"{AFTER} > {by_reference(bound_us, AFTER)}"
        return over(spans, f"SELECT DISTINCT {self._of_keys}1 AS _of FROM {{frame}} WHERE {behind}")

    def with_keys(self, spans: DataFrame, keys: DataFrame, how: str) -> DataFrame:
        """Return the spans that have one of the keys (``SEMI``), or none of them (``ANTI``)."""
        return over_all(
            {"spans": spans, "found": keys},
            f"SELECT spans.* FROM {{spans}} AS spans "
            f"LEFT {how} JOIN {{found}} AS found ON {self._same('spans')}",
        )

    def sessions(self, spans: DataFrame, bound_us: int | None) -> DataFrame:
        """Return spans with ``_number``, ``_opens`` and ``_ends``: they are all of their keys.

        Args:
            spans: spans of the state that are not of closed sessions.
            bound_us: the bound by which sessions were closed so far.
        """
        placed = self._placed(self._spans("{spans}", bound_us, more="*, "))
        followed = self._followed(self._spans("{spans}", bound_us))
        numbered = (
            f"SELECT {self._keys}posexplode(_end.sessions) AS ({NUMBER}, s) FROM ({followed})"
        )
        pieces = (
            f"SELECT {self._of_keys}{NUMBER}, s.f AS {OPENS}, s.l AS {ENDS}, "
            f"explode(s.of) AS _piece FROM ({numbered})"
        )
        columns = ", ".join(f"spans.{name}" for name in self.schema.names)
        return over_all(
            {"spans": spans},
            f"SELECT {columns}, {NUMBER}, {OPENS}, {ENDS} FROM ({placed}) AS spans "
            f"JOIN ({pieces}) AS found ON {self._same('spans')} "
            f"AND {_RUN} = _piece.r AND {_BUCKET} = _piece.k",
        )

    def _spans(self, spans: str, bound_us: int | None, more: str = "") -> str:
        """The statement of spans of the state as they are followed.

        Columns: the keys, and BIGINTs: ``a``, the bound by which a span was behind; ``f`` and
        ``l``, its times; ``b`` and ``i``, its epoch and its place in that.
        """
        behind = AFTER
        if bound_us is not None:
            behind = f"IF({AFTER} > {by_reference(bound_us, AFTER)}, {AFTER}, NULL)"
        came = self.shape.came
        columns = f"{behind} AS a, {came['f']} AS f, {came['l']} AS l"
        order = f"{came['b']} AS b, {came['i']} AS i"
        return f"SELECT {more or self._keys}{columns}, {order} FROM {spans}"

    def _placed(self, spans: str) -> str:
        """The statement of spans with their run and their bucket."""
        # A column of the spans, because Spark warns of a window function without a partition.
        by = ", ".join([*self.shape.keys, "b & 0L"])
        order = f"PARTITION BY {by} ORDER BY b, i"
        # A span that is behind has a run of its own, and those after it have another.
        run = f"2L * count(a) OVER ({order} ROWS UNBOUNDED PRECEDING) - IF(a IS NULL, 0L, 1L)"
        bucket = buckets(self.gap_us).pane_sql("f")
        return f"SELECT *, {run} AS {_RUN}, {bucket} AS {_BUCKET} FROM ({spans})"

    def _followed(self, spans: str) -> str:
        """The statement of keys with ``_end``, what became of their spans."""
        named = ", ".join([*self.shape.keys, _RUN, _BUCKET])
        pieces = (
            f"SELECT {named}, min(f) AS f, max(l) AS l, max(a) AS a, min(i) AS i "
            f"FROM ({self._placed(spans)}) GROUP BY {named}"
        )
        group = f" GROUP BY {', '.join(self.shape.keys)}" if self.shape.keys else ""
        piece = f"struct({_RUN} AS r, {_BUCKET} AS k, f, l, a, i)"
        return (
            f"SELECT {self._keys}aggregate(sort_array(collect_list({piece})), {_NOTHING}, "
            f"{self._follow()}) AS _end, sort_array(collect_list(IF(a IS NULL, NULL, i))) AS "
            f"_behind FROM ({pieces}){group}"
        )

    def _follow(self) -> str:
        """One step of following: ``acc`` is what is known of a key, ``x`` its next spans."""
        gap = f"{self.gap_us}L"
        joins = (
            f"(x.f <= s.l + {gap} AND x.l >= s.f - {gap} AND (x.a IS NULL OR s.l + {gap} >= x.a))"
        )
        late = f"(x.a IS NOT NULL AND x.l + {gap} < x.a AND NOT exists(acc.sessions, s -> {joins}))"
        joined = f"filter(acc.sessions, s -> {joins})"
        others = f"filter(acc.sessions, s -> NOT {joins})"
        first = f"least(x.f, array_min(transform({joined}, s -> s.f)))"
        last = f"greatest(x.l, array_max(transform({joined}, s -> s.l)))"
        piece = "named_struct('r', x.r, 'k', x.k)"
        of = f"array_append(flatten(transform({joined}, s -> s.of)), {piece})"
        session = f"named_struct('f', {first}, 'l', {last}, 'of', {of})"
        return (
            f"(acc, x) -> named_struct('sessions', IF({late}, acc.sessions, "
            f"array_append({others}, {session})), "
            f"'late', IF({late}, array_append(acc.late, x.i), acc.late))"
        )

    def _semi_join(self, spans: str, keys: str) -> str:
        return (
            f"SELECT spans.* FROM ({spans}) AS spans "
            f"LEFT SEMI JOIN ({keys}) AS found ON {self._same('spans')}"
        )

    @property
    def _keys(self) -> str:
        return "".join(f"{name}, " for name in self.shape.keys)

    @property
    def _of_keys(self) -> str:
        return "".join(f"{name} AS _of{name}, " for name in self.shape.keys)

    def _same(self, spans: str) -> str:
        return " AND ".join(f"{spans}.{name} <=> _of{name}" for name in self.shape.keys) or "true"
