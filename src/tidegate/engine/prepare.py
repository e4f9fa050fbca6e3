"""Preparing rows: from a source's own columns to the few that a query needs, and each row's fate.

``prepare`` runs before ``foreachBatch``, on the streaming DataFrame, so that only these columns
cross into the batch:

    _t      BIGINT    the row's event time in microseconds, NULL when it has none
    _clock  BIGINT    the batch's clock: one instant for all rows of a batch, the same on replay
    _pass   BOOLEAN   the WHERE clause (only when there is one)
    _k0 ..            group keys          _x0 ..   arguments and filters of aggregates
    _row    STRUCT    the source's columns (only when side output wants the original row)

``classify`` adds, inside the batch, ``_class`` (a ``Fate``) and ``_pane``; both and the keys are
NULL-free only for rows that are accumulated, so that all late rows of a batch are one group and so
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from uuid import uuid4

from pyspark.sql import DataFrame

from tidegate.engine.panes import PANE, PaneGrid
from tidegate.plan.accumulators import ORDER, TIME
from tidegate.plan.logical import FilterStage
from tidegate.plan.physical import (
    PhysicalFilter,
    PhysicalPlan,
    PhysicalStreamingAggregation,
)

CLOCK = "_clock"
PASS = "_pass"
FATE = "_class"
ROW = "_row"

# The batch's timestamp from Spark's offset log: the same for a replay of the batch.
BATCH_CLOCK = "unix_micros(current_timestamp())"

# Years 1 to 9999, the range in which Spark prints and reads times; arithmetic on it cannot
# overflow.
LEAST_TIME_US = -62_135_596_800_000_000
GREATEST_TIME_US = 253_402_300_799_999_999


class Fate(IntEnum):
    """What becomes of a row; the number is the value of ``_class``."""

    ACCUMULATED = 0
    LATE = 1
    NULL_EVENT_TIME = 2
    FUTURE_EVENT_TIME = 3
    FILTERED = 4
    OUTSIDE_WINDOWS = 5
    EVENT_TIME_OUT_OF_RANGE = 6


# Rows of these fates have no event time that the watermark may follow.
UNTIMED = (Fate.NULL_EVENT_TIME, Fate.FUTURE_EVENT_TIME, Fate.EVENT_TIME_OUT_OF_RANGE)


def prepare(
    plan: PhysicalPlan,
    sources: Mapping[str, DataFrame],
    *,
    clock_sql: str = BATCH_CLOCK,
    keep_rows: bool = False,
) -> DataFrame:
    """Return the prepared rows of a query: the columns above.

    Args:
        plan: the plan.
        sources: the stream and the static tables, by the names that the statement uses.
        clock_sql: BIGINT microseconds, constant for a batch.
        keep_rows: whether side output needs the original rows.
    """
    columns = [f"{sql} AS {name}" for name, sql in prepared_columns(plan).items()]
    columns.insert(1, f"{clock_sql} AS {CLOCK}")
    statement = plan.query.statement
    # Behind a WITH clause or a subquery the stream's own columns are gone: there the row that is
    # kept is the one of the FROM clause.
    behind = bool(statement.ctes) or statement.relation.lstrip().startswith("(")
    if keep_rows:
        columns.append(f"struct(*) AS {ROW}" if behind else ROW)
    views = {name: f"_tidegate_{uuid4().hex}" for name in sources}
    named = [
        f"`{name}` AS (SELECT *"
        + (
            f", struct(*) AS {ROW}"
            if keep_rows and not behind and name == plan.query.source.name
            else ""
        )
        + f" FROM {view})"
        for name, view in views.items()
    ]
    if statement.ctes:
        named.append(statement.ctes.strip()[len("WITH ") :])
    spark = next(iter(sources.values())).sparkSession
    try:
        for name, view in views.items():
            sources[name].createOrReplaceTempView(view)
        return spark.sql(
            f"WITH {', '.join(named)} SELECT {', '.join(columns)} FROM {statement.relation}"
        )
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStart:
    """What a batch's rows are judged by; all of it is fixed before the batch.

    ``clock_us`` is the clock of the batch before (None: there was none), ``closed_us`` the end up
    to which windows had closed: watermark less allowed lateness (None: no watermark yet).
    """

    epoch: int
    clock_us: int | None
    closed_us: int | None


def prepared_columns(plan: PhysicalPlan) -> dict[str, str]:
    """The prepared columns that come from expressions over the source: name to Spark SQL text."""
    aggregation = plan.find(PhysicalStreamingAggregation)
    assert aggregation is not None, "only plans with accumulators are prepared"
    spec = plan.watermark.spec
    columns = {TIME: f"CAST({spec.event_time.sql} AS BIGINT)"}
    where = _where(plan)
    if where is not None:
        columns[PASS] = where
    columns |= {key.name: key.expression.sql for key in aggregation.keys}
    columns |= {argument.name: argument.expression.sql for argument in aggregation.arguments}
    return columns


def classify(rows: DataFrame, plan: PhysicalPlan, grid: PaneGrid, before: BatchStart) -> DataFrame:
    """Return prepared rows with ``_class``, ``_pane`` and, where aggregates need it, ``_order``.

    ``_pane`` and the keys are NULL for rows that are not accumulated.
    """
    aggregation = plan.find(PhysicalStreamingAggregation)
    assert aggregation is not None, "only plans with accumulators are classified"
    fate = fate_sql(plan, grid, before)
    accumulated = f"{FATE} = {Fate.ACCUMULATED.value}"
    keys = [
        f"CASE WHEN {accumulated} THEN {key.name} END AS {key.name}" for key in aggregation.keys
    ]
    updates = " ".join(column.update for column in aggregation.partial_columns)
    others = [argument.name for argument in aggregation.arguments]
    if ORDER in updates:
        # Arrival: epoch, source partition, position; monotonically_increasing_id holds the last
        # two.
        others.append(
            f"named_struct('t', {TIME}, 'b', {before.epoch}L, 'i', monotonically_increasing_id())"
            f" AS {ORDER}"
        )
    return rows.selectExpr("*", f"{fate} AS {FATE}").selectExpr(
        TIME,
        CLOCK,
        FATE,
        f"CASE WHEN {accumulated} THEN {grid.pane_sql(TIME)} END AS {PANE}",
        *keys,
        *others,
    )


def fate_sql(plan: PhysicalPlan, grid: PaneGrid, before: BatchStart) -> str:
    """The CASE expression that decides the fate of a prepared row; its order is the precedence."""
    # The clock never goes back, whatever the machine's clock does.
    clock = CLOCK if before.clock_us is None else f"greatest({CLOCK}, {before.clock_us}L)"
    branches = [
        (f"{TIME} IS NULL", Fate.NULL_EVENT_TIME),
        (f"{TIME} > {clock} + {plan.watermark.spec.max_future_skew_us}L", Fate.FUTURE_EVENT_TIME),
        (
            f"{TIME} < {LEAST_TIME_US}L OR {TIME} > {GREATEST_TIME_US}L",
            Fate.EVENT_TIME_OUT_OF_RANGE,
        ),
    ]
    if _where(plan) is not None:
        branches.append((f"NOT coalesce({PASS}, false)", Fate.FILTERED))
    last_end = grid.last_end_sql(grid.pane_sql(TIME))
    if grid.has_gaps:
        branches.append((f"{last_end} <= {TIME}", Fate.OUTSIDE_WINDOWS))
    if before.closed_us is not None:
        branches.append((f"{last_end} <= {before.closed_us}L", Fate.LATE))
    cases = " ".join(f"WHEN {condition} THEN {fate.value}" for condition, fate in branches)
    return f"CASE {cases} ELSE {Fate.ACCUMULATED.value} END"


def _where(plan: PhysicalPlan) -> str | None:
    filters = (node for node in plan.nodes() if isinstance(node, PhysicalFilter))
    return next((node.predicate for node in filters if node.stage is FilterStage.WHERE), None)
