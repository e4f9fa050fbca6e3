"""The spans of sessions, in the two shapes of state, and how they are chained.

``SpanPartials`` keeps a span as the accumulators of its rows; ``SpanRows`` keeps the rows, each a
span by itself. The columns of either: the keys, ``_first`` and ``_last`` (BIGINT microseconds, both
in), and what the aggregates need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions

from tidegate.engine.frames import over
from tidegate.engine.ingest import StateRow
from tidegate.engine.operator import END, START
from tidegate.engine.panes import PANE, PaneGrid
from tidegate.engine.partials import KEPT, LAST_CLOCK, LAST_TIME, ROWS, whole_groups
from tidegate.engine.prepare import CLOCK, FATE, classify
from tidegate.plan.accumulators import ORDER, TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.engine.prepare import BatchStart
    from tidegate.plan.physical import (
        PhysicalAggregation,
        PhysicalPlan,
        PhysicalStreamingAggregation,
    )

FIRST, LAST = "_first", "_last"
# Only while spans are chained: the number of a session among those of its key, whether a span is
# the first of its session, whether it is due, and how many sessions a chained row stands for.
SESSION, STARTS, DUE, SESSIONS = "_session", "_starts", "_due", "_sessions"


class SessionShape(StateRow, Protocol):
    """What a span is."""

    @property
    def keys(self) -> list[str]:
        """The columns that tell sessions at one time apart."""

    def place(self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart) -> DataFrame:
        """Return a batch's spans with ``_class``, ``_rows``, ``_last_t``, ``_last_clock``."""

    def chained(self, due: DataFrame, near: DataFrame | None) -> DataFrame:
        """Return due spans with the times of their sessions, ``_rows`` and ``_sessions``.

        Args:
            due: spans.
            near: keys, ``_first`` and ``_last`` of spans that they may touch; not given back.
        """

    def merge(self, spans: DataFrame) -> DataFrame:
        """Return fewer spans of the same meaning, where there are fewer."""

    def groups(self, sessions: DataFrame) -> DataFrame:
        """Return what the finisher takes, from the chained spans of whole sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPartials:
    """A span is the columns of the accumulators of its rows, and their number."""

    aggregation: PhysicalStreamingAggregation
    gap_us: int

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
            ROWS: "count(1)",
            LAST_TIME: f"max({TIME})",
            LAST_CLOCK: f"max({CLOCK})",
        }
        grid = _buckets(self.gap_us)
        classified = classify(rows, plan, grid, _without_bound(start), self.aggregation)
        return classified.groupBy(FATE, PANE, *self.keys).agg(*_aliased(updates))

    def kept(self, placed: DataFrame) -> DataFrame:
        return placed.where(KEPT).selectExpr(
            *self.keys, FIRST, f"{LAST_TIME} AS {LAST}", ROWS, *self._columns
        )

    def chained(self, due: DataFrame, near: DataFrame | None) -> DataFrame:
        spans = _numbered(_together(due, near), self.keys, self.gap_us)
        # What touches a due span brings no accumulators: merges pass over NULL.
        merges = {column.name: column.merge for column in self.aggregation.partial_columns}
        merges |= {
            FIRST: f"min({FIRST})",
            LAST: f"max({LAST})",
            ROWS: f"sum({ROWS})",
            DUE: f"bool_or({DUE})",
        }
        sessions = spans.groupBy(*self.keys, SESSION).agg(*_aliased(merges)).where(DUE)
        # Merging may widen a type (a sum of decimals); in the state a column keeps its first type.
        columns = (sessions[f.name].cast(f.dataType).alias(f.name) for f in due.schema)
        return sessions.select(*columns, functions.lit(1).alias(SESSIONS))

    def merge(self, spans: DataFrame) -> DataFrame:
        return self.chained(spans, None).drop(SESSIONS)

    def groups(self, sessions: DataFrame) -> DataFrame:
        return sessions.selectExpr(*_shown(self.gap_us), *self.keys, *self._columns)

    @property
    def _columns(self) -> list[str]:
        return [column.name for column in self.aggregation.partial_columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRows:
    """A span is a row: its order, its keys, and the values that the query asks for."""

    aggregation: PhysicalAggregation
    gap_us: int

    @property
    def aggregated(self) -> bool:
        return False

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]

    def place(self, rows: DataFrame, plan: PhysicalPlan, start: BatchStart) -> DataFrame:
        grid = _buckets(self.gap_us)
        classified = classify(rows, plan, grid, _without_bound(start), self.aggregation)
        return classified.selectExpr(
            "*", f"1L AS {ROWS}", f"{TIME} AS {LAST_TIME}", f"{CLOCK} AS {LAST_CLOCK}"
        )

    def kept(self, placed: DataFrame) -> DataFrame:
        arguments = (argument.name for argument in self.aggregation.arguments)
        times = (f"{TIME} AS {FIRST}", f"{TIME} AS {LAST}")
        return placed.where(KEPT).selectExpr(*self.keys, *times, ORDER, *arguments)

    def chained(self, due: DataFrame, near: DataFrame | None) -> DataFrame:
        spans = _numbered(_together(due, near), self.keys, self.gap_us)
        session = f"OVER (PARTITION BY {', '.join([*self.keys, SESSION])})"
        whole = {FIRST: f"min({FIRST}) {session}", LAST: f"max({LAST}) {session}"}
        columns = [f"{whole[c]} AS {c}" if c in whole else c for c in due.columns]
        counts = (f"IF({STARTS}, 1, 0) AS {SESSIONS}", f"1L AS {ROWS}")
        return spans.selectExpr(*columns, DUE, *counts).where(DUE).drop(DUE)

    def merge(self, spans: DataFrame) -> DataFrame:
        return spans.coalesce(1)

    def groups(self, sessions: DataFrame) -> DataFrame:
        shown = f"SELECT *, {', '.join(_shown(self.gap_us))} FROM {{frame}}"
        return over(sessions, whole_groups(shown, self.aggregation, [END, START]))


def _buckets(gap_us: int) -> PaneGrid:
    """Buckets of time as wide as the gap: two rows of a key in one of them are in one session."""
    return PaneGrid(
        pane_us=gap_us,
        stride_us=gap_us,
        size_us=gap_us,
        start_us=gap_us,
        offset_us=0,
        cumulating=False,
    )


def _without_bound(start: BatchStart) -> BatchStart:
    """No row of a session is late by itself."""
    return replace(start, bound_us=None)


def _together(due: DataFrame, near: DataFrame | None) -> DataFrame:
    marked = due.selectExpr("*", f"true AS {DUE}")
    if near is None:
        return marked
    return marked.unionByName(near.selectExpr("*", f"false AS {DUE}"), allowMissingColumns=True)


def _numbered(spans: DataFrame, keys: list[str], gap_us: int) -> DataFrame:
    """Return spans with the number of their session and whether they are the first of it.

    In order of their first time, a span starts a session when it is further than the gap from all
    that is before it.
    """
    of_key = f"PARTITION BY {', '.join(keys)} " if keys else ""
    order = f"{of_key}ORDER BY {FIRST}"
    reach = f"max({LAST}) OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    # By RANGE, so that spans with the same first time share their number in whatever order they
    # are.
    number = f"sum(IF({STARTS}, 1L, 0L)) OVER ({order} RANGE UNBOUNDED PRECEDING)"
    starting = spans.selectExpr("*", f"coalesce({FIRST} > {reach} + {gap_us}L, true) AS {STARTS}")
    return starting.selectExpr("*", f"{number} AS {SESSION}")


def _shown(gap_us: int) -> tuple[str, str]:
    return f"{FIRST} AS {START}", f"{LAST} + {gap_us}L AS {END}"


def _aliased(expressions: dict[str, str]) -> list[Column]:
    return [functions.expr(sql).alias(name) for name, sql in expressions.items()]
