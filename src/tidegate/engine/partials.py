"""Partials: rows become accumulators per pane and group, partials merge, windows are evaluated.

A partial is a row of ``_pane``, the keys and the state columns of the query's accumulators. A
*group* is a row of ``_start_us``, ``_end_us``, the keys and the same columns, merged over the panes
of one window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.panes import PANE, PaneGrid
from tidegate.engine.prepare import CLOCK, FATE, Fate
from tidegate.plan.accumulators import TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.plan.physical import PhysicalStreamingAggregation

# Columns of a partial that only the numbers of its batch need; they do not reach the state.
ROWS, LAST_TIME, LAST_CLOCK = "_rows", "_last_t", "_last_clock"

START, END = "_start_us", "_end_us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The windows that close: those with an end in ``(after_us, upto_us]``; None is no bound."""

    after_us: int | None
    upto_us: int | None


def update(rows: DataFrame, aggregation: PhysicalStreamingAggregation) -> DataFrame:
    """Return the partials of classified rows.

    Besides the columns of a partial: ``_class``, ``_rows`` (how many), ``_last_t`` and
    ``_last_clock`` (their greatest time and clock). Rows of a fate other than accumulated make one
    row for each fate.
    """
    keys = [key.name for key in aggregation.keys]
    updates = {column.name: column.update for column in aggregation.partial_columns}
    updates |= {ROWS: "count(1)", LAST_TIME: f"max({TIME})", LAST_CLOCK: f"max({CLOCK})"}
    return rows.groupBy(FATE, PANE, *keys).agg(*_aliased(updates))


def accumulated(partials: DataFrame, aggregation: PhysicalStreamingAggregation) -> DataFrame:
    """Return what the state keeps of ``update``: the partials of accumulated rows."""
    return partials.where(f"{FATE} = {Fate.ACCUMULATED.value}").select(
        PANE,
        *(key.name for key in aggregation.keys),
        *(column.name for column in aggregation.partial_columns),
    )


def merge(partials: DataFrame, aggregation: PhysicalStreamingAggregation) -> DataFrame:
    """Return one partial for each pane and group, of the same schema: what compaction writes."""
    names = [key.name for key in aggregation.keys]
    merged = partials.groupBy(PANE, *names).agg(*_merges(aggregation))
    # Merging may widen a type (a sum of decimals); in the state a column keeps the type it began
    # with.
    return merged.select(*(merged[field.name].cast(field.dataType) for field in partials.schema))


def close(
    partials: DataFrame, aggregation: PhysicalStreamingAggregation, grid: PaneGrid, bounds: Bounds
) -> DataFrame:
    """Return the groups of the windows within ``bounds``."""
    keys = [key.name for key in aggregation.keys]
    due = due_windows(partials, grid, bounds)
    groups = due.groupBy(END, *keys).agg(*_merges(aggregation))
    return groups.withColumn(START, functions.expr(grid.start_of_end_sql(END)))


def due_windows(partials: DataFrame, grid: PaneGrid, bounds: Bounds) -> DataFrame:
    """Return the partials once for each window within ``bounds`` that holds them, with
    ``_end_us``."""
    first, last = grid.first_end_sql(PANE), grid.last_end_sql(PANE)
    if bounds.after_us is not None:
        first = f"greatest({first}, {grid.next_end(bounds.after_us)}L)"
        # A plain range over the column lets Parquet skip row groups.
        partials = partials.where(f"{PANE} > {bounds.after_us - grid.size_us}L")
    if bounds.upto_us is not None:
        latest = grid.next_end(bounds.upto_us) - grid.stride_us
        last = f"least({last}, {latest}L)"
        partials = partials.where(f"{PANE} <= {bounds.upto_us - grid.pane_us}L")
    if grid.single:
        return partials.withColumn(END, functions.expr(grid.first_end_sql(PANE)))
    ends = f"explode(sequence({first}, {last}, {grid.stride_us}L)) AS {END}"
    return partials.where(f"{first} <= {last}").selectExpr("*", ends)


def _merges(aggregation: PhysicalStreamingAggregation) -> list[Column]:
    # Without accumulators (distinct keys) the group alone is the answer.
    return _aliased({column.name: column.merge for column in aggregation.partial_columns}) or [
        functions.lit(1).alias(ROWS)
    ]


def _aliased(expressions: dict[str, str]) -> list[Column]:
    return [functions.expr(sql).alias(name) for name, sql in expressions.items()]
