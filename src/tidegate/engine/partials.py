"""The two shapes of state: partials (accumulators per group) and rows kept whole.

A *placed* row has a fate and, when it is accumulated, the columns that place it in the state
(``_pane``) and its keys. ``Partials`` aggregates placed rows in job 1; ``WholeRows`` keeps them and
aggregates at the close. Both answer the same questions, so an operator does not care which one it
has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions

from tidegate.engine.operator import END, START
from tidegate.engine.panes import PANE, PaneGrid
from tidegate.engine.prepare import CLOCK, FATE, Fate, classify
from tidegate.plan.accumulators import ORDER, TIME, row_aggregate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.engine.prepare import BatchStart
    from tidegate.plan.physical import (
        PhysicalAggregation,
        PhysicalPlan,
        PhysicalStreamingAggregation,
    )

# Columns that only the numbers of a batch need; they do not reach the state.
ROWS, LAST_TIME, LAST_CLOCK = "_rows", "_last_t", "_last_clock"
KEPT = f"{FATE} = {Fate.ACCUMULATED.value}"


class Shape(Protocol):
    """What a row of the state is."""

    @property
    def aggregated(self) -> bool:
        """Whether a state row stands for many rows."""

    def place(
        self, rows: DataFrame, plan: PhysicalPlan, grid: PaneGrid, start: BatchStart
    ) -> DataFrame:
        """Return the state rows of a batch with ``_class``, ``_rows``, ``_last_t`` and
        ``_last_clock``."""

    def kept(self, placed: DataFrame) -> DataFrame:
        """Return what the state keeps of placed rows."""

    def merge(self, state: DataFrame) -> DataFrame:
        """Return fewer rows of the same meaning and schema, where there are fewer."""

    def groups(self, windows: DataFrame, grid: PaneGrid) -> DataFrame:
        """Return one row for each window and group of state rows with ``_end_us``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """A state row is a pane (or window) and group with the columns of its accumulators."""

    aggregation: PhysicalStreamingAggregation

    @property
    def aggregated(self) -> bool:
        return True

    def place(
        self, rows: DataFrame, plan: PhysicalPlan, grid: PaneGrid, start: BatchStart
    ) -> DataFrame:
        # Rows of a fate other than accumulated have no pane and no keys: one partial for each fate.
        updates = {column.name: column.update for column in self.aggregation.partial_columns}
        updates |= {ROWS: "count(1)", LAST_TIME: f"max({TIME})", LAST_CLOCK: f"max({CLOCK})"}
        classified = classify(rows, plan, grid, start, self.aggregation)
        return classified.groupBy(FATE, PANE, *self.keys).agg(*_aliased(updates))

    def kept(self, placed: DataFrame) -> DataFrame:
        columns = (column.name for column in self.aggregation.partial_columns)
        return placed.where(KEPT).select(PANE, *self.keys, *columns)

    def merge(self, state: DataFrame) -> DataFrame:
        merged = state.groupBy(PANE, *self.keys).agg(*self.merges())
        # Merging may widen a type (a sum of decimals); in the state a column keeps its first type.
        return merged.select(*(merged[f.name].cast(f.dataType) for f in state.schema))

    def groups(self, windows: DataFrame, grid: PaneGrid) -> DataFrame:
        merged = windows.groupBy(END, *self.keys).agg(*self.merges())
        return merged.withColumn(START, functions.expr(grid.start_of_end_sql(END)))

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]

    def merges(self) -> list[Column]:
        """The merge of every state column; without accumulators (distinct keys) the group is
        all."""
        columns = {column.name: column.merge for column in self.aggregation.partial_columns}
        return _aliased(columns) or [functions.lit(1).alias(ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRows:
    """A state row is a row: its time and order, its keys, and the values that the query asks
    for."""

    aggregation: PhysicalAggregation

    @property
    def aggregated(self) -> bool:
        return False

    def place(
        self, rows: DataFrame, plan: PhysicalPlan, grid: PaneGrid, start: BatchStart
    ) -> DataFrame:
        classified = classify(rows, plan, grid, start, self.aggregation)
        return classified.selectExpr(
            "*", f"1 AS {ROWS}", f"{TIME} AS {LAST_TIME}", f"{CLOCK} AS {LAST_CLOCK}"
        )

    def kept(self, placed: DataFrame) -> DataFrame:
        arguments = (argument.name for argument in self.aggregation.arguments)
        return placed.where(KEPT).select(PANE, TIME, ORDER, *self.keys, *arguments)

    def merge(self, state: DataFrame) -> DataFrame:
        return state.coalesce(1)

    def groups(self, windows: DataFrame, grid: PaneGrid) -> DataFrame:
        return whole_groups(windows, self.aggregation, [END]).withColumn(
            START, functions.expr(grid.start_of_end_sql(END))
        )

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]


def whole_groups(
    rows: DataFrame, aggregation: PhysicalAggregation, windows: list[str]
) -> DataFrame:
    """Return groups of whole rows: aggregated by Spark itself, or as they are for a row query.

    Args:
        rows: state rows with the columns that make a window.
        aggregation: keys and aggregates.
        windows: the columns that make a window, the first one its end.
    """
    keys = [key.name for key in aggregation.keys]
    if not keys and not aggregation.aggregates:
        # The rows of a window together and in order: event time, then arrival.
        return rows.repartition(*windows).sortWithinPartitions(*windows, ORDER)
    values = {a.name: row_aggregate(a) for a in aggregation.aggregates}
    columns = _aliased(values) or [functions.lit(1).alias(ROWS)]
    return rows.groupBy(*windows, *keys).agg(*columns)


def _aliased(expressions: dict[str, str]) -> list[Column]:
    return [functions.expr(sql).alias(name) for name, sql in expressions.items()]
