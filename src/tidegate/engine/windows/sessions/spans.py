"""The spans of sessions, in the two shapes of state, and how they are chained.

``SpanPartials`` keeps a span as the accumulators of its rows; ``SpanRows`` keeps the rows, each a
span by itself. Both have the columns: keys, ``_first`` and ``_last`` (BIGINT microseconds, both
inclusive), and what the aggregates need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.engine.rows.fates import classify_sql, fate_case, judged_sql
from tidegate.engine.rows.ingest import StateRow
from tidegate.engine.windows.panes.grid import PaneGrid
from tidegate.engine.windows.sessions.chains import (
    FIRST,
    LAST,
    NEAR_FIRST,
    NEAR_LAST,
    SESSION,
    STARTS,
    frames,
    numbered,
    reaching,
)
from tidegate.engine.windows.state_rows import KEPT, group_numbers, row_numbers, whole_groups
from tidegate.plan.aggregates.one_row import of_one_row
from tidegate.plan.columns import (
    AFTER,
    CAME,
    END,
    FATE,
    IS_LATE,
    ORDER,
    PANE,
    ROWS,
    SEQUENCE,
    SHARD_HASH,
    START,
    TIME,
)
from tidegate.spark.statements import by_reference, over, over_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.engine.rows.fates import BatchStart
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.stages import IngestPartials, IngestRows

# The last time of a placed span; the watermark may follow another time, see ``row_numbers``.
LAST_TIME = "_last_t"
# The number of sessions that a chained span counts as.
SESSIONS = "_sessions"
# Of a followed span (``record.py``): the number of its session within the key, and the times of
# that session.
NUMBER, OPENS, ENDS = "_number", "_opens", "_ends"


class SessionShape(StateRow, Protocol):
    """What a span is."""

    @property
    def keys(self) -> list[str]:
        """The columns that separate sessions at the same time."""

    @property
    def came(self) -> Mapping[str, str]:
        """When a span came, with lateness exact to the record, as BIGINTs.

        ``b`` and ``i`` order spans by arrival, ``f`` and ``l`` are the times of its own rows.
        """

    def place(self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart) -> DataFrame:
        """Return a batch's spans with ``_class``, ``_last_t`` and ``row_numbers``."""

    def of_rows(
        self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart, schema: StructType
    ) -> DataFrame | None:
        """``place`` with a span for each row; None if a span has to represent many.

        ``schema``: the columns of the state.
        """

    def chained(self, due: DataFrame, near: DataFrame | None) -> DataFrame:
        """Return due spans with the times of their sessions, ``_rows`` and ``_sessions``.

        Args:
            due: spans, all with a ``_last`` before some time.
            near: keys, ``_first`` and ``_last`` of spans that they may touch; these are not
                returned. All reach that time and begin less than the gap after it, so those of a
                key are one session, and a due span that touches them gets their ``_last``.
        """

    def ended(self, spans: DataFrame) -> DataFrame:
        """Return the spans of sessions that have ended as ``chained`` does, from followed ones."""

    def waiting(self, spans: DataFrame) -> DataFrame:
        """The same of sessions that are still open: as they are, but reaching their ends."""

    def merge(self, spans: DataFrame) -> DataFrame:
        """Return equivalent spans, merged if possible."""

    def groups(self, sessions: DataFrame) -> DataFrame:
        """Return the finisher's input, from the chained spans of whole sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPartials:
    """A span consists of the accumulator columns of its rows, and their number."""

    aggregation: IngestPartials
    gap_us: int
    by_record: bool = False

    @property
    def aggregated(self) -> bool:
        return True

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]

    def place(self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart) -> DataFrame:
        updates = {column.name: column.update for column in self.aggregation.partial_columns}
        updates |= {
            FIRST: f"min({TIME})",
            LAST_TIME: f"max({TIME})",
            **group_numbers(plan, start),
        }
        judged = _judged_sql(rows.columns, plan, start)
        classified = classify_sql(judged, plan, buckets(self.gap_us), start, self.aggregation)
        by = [FATE, PANE, *self.keys]
        if self.by_record:
            sequence = SEQUENCE if start.is_followed else "0L"
            epoch = by_reference(start.epoch, f"max({TIME})")
            updates[CAME] = f"named_struct('b', {epoch}, 'i', {sequence}, 'l', max({TIME}))"
        if start.is_followed:
            by += [AFTER, SEQUENCE]
        elif self.by_record:
            updates[AFTER] = "CAST(NULL AS BIGINT)"
        group = _list(*by)
        return over(rows, f"SELECT {group}, {_named(updates)} FROM ({classified}) GROUP BY {group}")

    def of_rows(
        self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart, schema: StructType
    ) -> DataFrame | None:
        columns = {each.name: of_one_row(each.update) for each in self.aggregation.partial_columns}
        if None in columns.values() or self.by_record:
            return None
        values = {
            name: f"CAST({sql} AS {schema[name].dataType.simpleString()})"
            for name, sql in columns.items()
        }
        values |= {FIRST: TIME, LAST_TIME: TIME, **row_numbers(plan), ROWS: "1L"}
        judged = _judged_sql(rows.columns, plan, start)
        classified = classify_sql(judged, plan, buckets(self.gap_us), start, self.aggregation)
        shard = [SHARD_HASH] if start.tells_shards else []
        named = _list(FATE, *self.keys, *shard, _named(values))
        return over(rows, f"SELECT {named} FROM ({classified})")

    def kept(self, placed: DataFrame) -> DataFrame:
        came = [AFTER, CAME] if self.by_record else []
        columns = (*self.keys, *came, FIRST, f"{LAST_TIME} AS {LAST}", ROWS, *self._columns)
        return placed.where(KEPT).selectExpr(*columns)

    @property
    def came(self) -> Mapping[str, str]:
        return {"f": FIRST, **{name: f"{CAME}.{name}" for name in "lbi"}}

    def chained(self, due: DataFrame, near: DataFrame | None) -> DataFrame:
        merges = {**self._merges, FIRST: f"min({FIRST})", LAST: f"max({LAST})"}
        merges |= {NEAR_FIRST: f"min({NEAR_FIRST})", NEAR_LAST: f"max({NEAR_LAST})"}
        group, spans = _list(*self.keys, SESSION), numbered(self.keys, self.gap_us, due, near)
        sessions = f"SELECT {group}, {_named(merges)} FROM ({spans}) GROUP BY {group}"
        columns = {**_cast(due.schema), LAST: reaching(LAST, self.gap_us)}
        statement = f"SELECT {_named(columns)}, 1 AS {SESSIONS} FROM ({sessions})"
        return over_all(frames(due, near), statement)

    def ended(self, spans: DataFrame) -> DataFrame:
        group = _list(*self.keys, NUMBER)
        merges = {**self._merges, FIRST: f"min({OPENS})", LAST: f"max({ENDS})"}
        merged = f"SELECT {group}, {_named(merges)} FROM {{frame}} GROUP BY {group}"
        columns = {name: cast for name, cast in _cast(spans.schema).items() if name in _own(spans)}
        return over(spans, f"SELECT {_named(columns)}, 1 AS {SESSIONS} FROM ({merged})")

    def waiting(self, spans: DataFrame) -> DataFrame:
        columns = {name: name for name in _own(spans)}
        return over(
            spans,
            f"SELECT {_named({**columns, LAST: ENDS})}, 0 AS {SESSIONS} FROM {{frame}}",
        )

    def merge(self, spans: DataFrame) -> DataFrame:
        return self.chained(spans, None).drop(SESSIONS)

    @property
    def _merges(self) -> dict[str, str]:
        """The merge of every column but the times of a span."""
        merges = {column.name: column.merge for column in self.aggregation.partial_columns}
        if self.by_record:
            # They are of one session however they came, so from now on that does not matter.
            order = f"'b', min({CAME}.b), 'i', min({CAME}.i)"
            merges |= {AFTER: "CAST(NULL AS BIGINT)"}
            merges |= {CAME: f"named_struct({order}, 'l', max({CAME}.l))"}
        return merges | {ROWS: f"sum({ROWS})"}

    def groups(self, sessions: DataFrame) -> DataFrame:
        return sessions.selectExpr(*_shown(self.gap_us), *self.keys, *self._columns)

    @property
    def _columns(self) -> list[str]:
        return [column.name for column in self.aggregation.partial_columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRows:
    """A span is a row: its order, its keys, and the values that the query needs."""

    aggregation: IngestRows
    gap_us: int
    by_record: bool = False

    @property
    def aggregated(self) -> bool:
        return False

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]

    def place(self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart) -> DataFrame:
        judged = _judged_sql(rows.columns, plan, start)
        classified = classify_sql(judged, plan, buckets(self.gap_us), start, self.aggregation)
        numbers = {LAST_TIME: TIME, **row_numbers(plan)}
        if self.by_record and not start.is_followed:
            numbers[AFTER] = "CAST(NULL AS BIGINT)"
        return over(rows, f"SELECT *, {_named(numbers)} FROM ({classified})")

    def of_rows(
        self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart, schema: StructType
    ) -> DataFrame | None:
        return self.place(rows, plan, start)

    def kept(self, placed: DataFrame) -> DataFrame:
        arguments = (argument.name for argument in self.aggregation.arguments)
        spans = (f"{TIME} AS {FIRST}", f"{TIME} AS {LAST}")
        after = [AFTER] if self.by_record else []
        return placed.where(KEPT).selectExpr(*self.keys, *after, *spans, ORDER, *arguments)

    @property
    def came(self) -> Mapping[str, str]:
        return {"f": f"{ORDER}.t", "l": f"{ORDER}.t", "b": f"{ORDER}.b", "i": f"{ORDER}.i"}

    def chained(self, due: DataFrame, near: DataFrame | None) -> DataFrame:
        session = f"OVER (PARTITION BY {_list(*self.keys, SESSION)})"
        last = f"max({LAST}) {session}"
        columns = {name: name for name in due.columns}
        columns |= {FIRST: f"min({FIRST}) {session}", LAST: reaching(last, self.gap_us)}
        columns |= {ROWS: "1L", SESSIONS: f"IF({STARTS}, 1, 0)"}
        spans = numbered(self.keys, self.gap_us, due, near)
        statement = f"SELECT {_named(columns)} FROM ({spans})"
        return over_all(frames(due, near), statement)

    def ended(self, spans: DataFrame) -> DataFrame:
        by = _list(*self.keys, NUMBER)
        columns = {name: name for name in _own(spans)} | {FIRST: OPENS, LAST: ENDS, ROWS: "1L"}
        nth = f"row_number() OVER (PARTITION BY {by} ORDER BY {ORDER})"
        columns |= {SESSIONS: f"IF({nth} = 1, 1, 0)"}
        return over(spans, f"SELECT {_named(columns)} FROM {{frame}}")

    def waiting(self, spans: DataFrame) -> DataFrame:
        columns = {name: name for name in _own(spans)} | {LAST: ENDS, ROWS: "1L", SESSIONS: "0"}
        return over(spans, f"SELECT {_named(columns)} FROM {{frame}}")

    def merge(self, spans: DataFrame) -> DataFrame:
        return spans

    def groups(self, sessions: DataFrame) -> DataFrame:
        shown = f"SELECT *, {_list(*_shown(self.gap_us))} FROM {{frame}}"
        return over(sessions, whole_groups(shown, self.aggregation, [END, START]))


def buckets(gap_us: int) -> PaneGrid:
    """Return buckets as wide as the gap: two rows of a key in one of them are in one session."""
    return PaneGrid(
        pane_us=gap_us,
        stride_us=gap_us,
        size_us=gap_us,
        start_us=gap_us,
        offset_us=0,
        cumulating=False,
    )


def _judged_sql(columns: list[str], plan: PhysicalPlan, start: BatchStart) -> str:
    """Rows with their fate; lateness depends on the whole session, unless it is marked already."""
    late = IS_LATE if start.is_followed else None
    return judged_sql(columns, plan, start, fate_case(plan, start, late=late))


def _cast(schema: StructType) -> dict[str, str]:
    """Columns with the types that they have.

    Merging may widen one (a sum of decimals); in the state a column keeps its first type.
    """
    return {f.name: f"CAST({f.name} AS {f.dataType.simpleString()})" for f in schema}


def _own(followed: DataFrame) -> list[str]:
    """The columns of followed spans that the state has."""
    return [name for name in followed.columns if name not in (NUMBER, OPENS, ENDS)]


def _shown(gap_us: int) -> tuple[str, str]:
    return f"{FIRST} AS {START}", f"{LAST} + {gap_us}L AS {END}"


def _list(*columns: str) -> str:
    return ", ".join(columns)


def _named(expressions: Mapping[str, str]) -> str:
    return _list(*(f"{sql} AS {name}" for name, sql in expressions.items()))
