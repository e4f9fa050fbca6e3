"""Preparing rows: from a source's own columns to the few that a query needs, and each row's fate.

``prepare`` runs before ``foreachBatch``, on the streaming DataFrame, so that only these columns
cross into the batch:

    _t      BIGINT    the row's event time in microseconds, NULL when it has none
    _clock  BIGINT    the batch's clock: one instant for all rows of a batch, the same on replay
    _pass   BOOLEAN   the WHERE clause (only when there is one)
    _k0 ..            group keys          _x0 ..   arguments and filters of aggregates
    _p0 ..            partition keys of the window (OVER)
    _open, _emit, _when   the window's conditions
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

from tidegate.engine.clock import TICK, needs_ticks
from tidegate.engine.frames import over
from tidegate.engine.panes import PANE, PaneGrid
from tidegate.errors import QueryError, Span
from tidegate.plan.accumulators import ORDER, TIME
from tidegate.plan.logical import FilterStage
from tidegate.plan.physical import (
    PhysicalAggregation,
    PhysicalFilter,
    PhysicalPlan,
    PhysicalStreamingAggregation,
)
from tidegate.plan.settings import TimeMode
from tidegate.plan.windows import WINDOW_KINDS, Count, Sliding, State, Window

CLOCK = "_clock"
PASS = "_pass"
FATE = "_class"
ROW = "_row"
# The conditions of a window, BOOLEAN.
OPEN, EMIT, WHEN = "_open", "_emit", "_when"

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
    TICK = 7


# Rows of these fates have no event time that the watermark may follow.
UNTIMED = (
    Fate.NULL_EVENT_TIME,
    Fate.FUTURE_EVENT_TIME,
    Fate.EVENT_TIME_OUT_OF_RANGE,
    Fate.TICK,
)


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
    columns = [f"{sql} AS {name}" for name, sql in prepared_columns(plan, clock_sql).items()]
    columns.append(f"{clock_sql} AS {CLOCK}")
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
            f"WITH {', '.join(named)} SELECT {statement.hint} {', '.join(columns)} "
            f"FROM {statement.relation}"
        )
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStart:
    """What a batch's rows are judged by; all of it is fixed before the batch.

    Attributes:
        epoch: the step.
        clock_us: the clock of the batch before; None: there was none.
        bound_us: the end up to which windows had closed, the watermark less the allowed lateness;
            None: no watermark yet.
    """

    epoch: int
    clock_us: int | None = None
    bound_us: int | None = None


def prepared_columns(plan: PhysicalPlan, clock_sql: str) -> dict[str, str]:
    """The prepared columns that come from expressions over the source: name to Spark SQL text."""
    columns = {TIME: _time_sql(plan, clock_sql)}
    where = _where(plan)
    if where is not None:
        columns[PASS] = where
    columns |= {key.name: key.expression.sql for key in plan.query.keys}
    columns |= {argument.name: argument.expression.sql for argument in plan.query.arguments}
    return columns | window_columns(plan.watermark.window)


def window_columns(window: Window) -> dict[str, str]:
    """The prepared columns that a window's own expressions give: conditions and partition keys."""
    match window:
        case State():
            conditions = {OPEN: window.open, EMIT: window.emit}
        case Sliding(when=str(when)):
            conditions = {WHEN: when}
        case _:
            conditions = {}
    return conditions | dict(zip(partition_keys(window), _partition_by(window), strict=True))


def partition_keys(window: Window) -> tuple[str, ...]:
    """The columns of a window's partition keys, ``_p0`` and so on; none without OVER."""
    return tuple(f"_p{i}" for i in range(len(_partition_by(window))))


def check_conditions(plan: PhysicalPlan, rows: DataFrame) -> None:
    """Refuse conditions of the plan's window that are no conditions, by the types Spark gives them.

    Raises:
        QueryError: one is not BOOLEAN.
    """
    window, statement = plan.watermark.window, plan.query.statement
    for name, sql in window_columns(window).items():
        kind = rows.schema[name].dataType
        if name in (OPEN, EMIT, WHEN) and kind.typeName() != "boolean":
            raise QueryError(
                f"the condition {sql} of a {WINDOW_KINDS[type(window)]} window is "
                f"{kind.simpleString().upper()}, it must be BOOLEAN",
                sql=statement.text,
                span=statement.window_span or Span(0, len(statement.text)),
                mend=f"Write a comparison, e.g. ({sql}) > 0 or ({sql}) IS NOT NULL.",
                origin=statement.origin,
            )


def _partition_by(window: Window) -> tuple[str, ...]:
    return window.partition_by if isinstance(window, Sliding | State | Count) else ()


def _time_sql(plan: PhysicalPlan, clock_sql: str) -> str:
    """The row's time; in processing time it is NULL here and the batch's clock in ``classify``."""
    event_time = plan.watermark.spec.event_time
    if event_time.sql is None:
        return "CAST(NULL AS BIGINT)"
    candidates = [event_time.sql]
    if plan.watermark.spec.null_event_time_fallback:
        candidates += [event_time.fallback_sql] if event_time.fallback_sql else []
        candidates.append(clock_sql)
    joined = ", ".join(candidates)
    return f"CAST({joined if len(candidates) == 1 else f'coalesce({joined})'} AS BIGINT)"


def classify(
    rows: DataFrame,
    plan: PhysicalPlan,
    grid: PaneGrid,
    start: BatchStart,
    aggregation: PhysicalAggregation | PhysicalStreamingAggregation,
) -> DataFrame:
    """Return prepared rows with ``_class``, ``_pane`` and, where it is needed, ``_order``.

    ``_pane`` and the keys are NULL for rows that are not accumulated.
    """
    fate = fate_sql(plan, grid, start)
    return over(
        rows, classify_sql(judged_sql(rows.columns, plan, start, fate), grid, start, aggregation)
    )


def classify_sql(
    judged: str,
    grid: PaneGrid,
    start: BatchStart,
    aggregation: PhysicalAggregation | PhysicalStreamingAggregation,
) -> str:
    """``classify`` as text, over a statement that gives judged rows."""
    accumulated = f"{FATE} = {Fate.ACCUMULATED.value}"
    columns = [
        TIME,
        CLOCK,
        FATE,
        f"CASE WHEN {accumulated} THEN {grid.pane_sql(TIME)} END AS {PANE}",
        *(f"CASE WHEN {accumulated} THEN {k.name} END AS {k.name}" for k in aggregation.keys),
        *(argument.name for argument in aggregation.arguments),
    ]
    if _needs_order(aggregation):
        columns.append(f"{order_sql(start)} AS {ORDER}")
    return f"SELECT {', '.join(columns)} FROM ({judged})"


def judge(rows: DataFrame, plan: PhysicalPlan, start: BatchStart, fate: str) -> DataFrame:
    """Return prepared rows with their fate; in processing time their time is set to the clock."""
    return over(rows, judged_sql(rows.columns, plan, start, fate))


def judged_sql(columns: list[str], plan: PhysicalPlan, start: BatchStart, fate: str) -> str:
    """``judge`` as text, over ``{frame}`` with the given columns."""
    clock = CLOCK if start.clock_us is None else f"greatest({CLOCK}, {start.clock_us}L)"
    times = {CLOCK: clock} if start.clock_us is not None else {}
    if plan.watermark.spec.mode is TimeMode.PROCESSING:
        times[TIME] = clock
    moved = [f"{times[name]} AS {name}" if name in times else name for name in columns]
    rows = f"(SELECT {', '.join(moved)} FROM {{frame}})" if times else "{frame}"
    return f"SELECT *, {fate} AS {FATE} FROM {rows}"


def order_sql(start: BatchStart) -> str:
    """A STRUCT that orders rows by time, then by arrival: epoch, source partition, position."""
    # monotonically_increasing_id holds the partition and the position in it.
    return f"named_struct('t', {TIME}, 'b', {start.epoch}L, 'i', monotonically_increasing_id())"


def fate_sql(plan: PhysicalPlan, grid: PaneGrid, start: BatchStart) -> str:
    """The CASE expression that decides the fate of a row on panes.

    A start without a bound leaves out lateness, so that the text is the same for every batch.
    """
    last_end = grid.last_end_sql(grid.pane_sql(TIME))
    late = None if start.bound_us is None else f"{last_end} <= {start.bound_us}L"
    outside = f"{last_end} <= {TIME}" if grid.has_gaps else None
    return fate_case(plan, late=late, outside=outside)


def fate_case(plan: PhysicalPlan, *, late: str | None, outside: str | None = None) -> str:
    """The CASE expression of fates, for any kind of window.

    Args:
        plan: the plan.
        late: the condition under which a row is late for all its windows; None: never.
        outside: the condition under which a row is in no window; None: never.
    """
    skew_us = plan.watermark.spec.max_future_skew_us
    out_of_range = f"{TIME} < {LEAST_TIME_US}L OR {TIME} > {GREATEST_TIME_US}L"
    branches: list[tuple[str | None, Fate]] = [
        (TICK, Fate.TICK) if needs_ticks(plan) else (None, Fate.TICK),
        (f"{TIME} IS NULL", Fate.NULL_EVENT_TIME),
        (f"{TIME} > {CLOCK} + {skew_us}L", Fate.FUTURE_EVENT_TIME),
        (out_of_range, Fate.EVENT_TIME_OUT_OF_RANGE),
        (f"NOT coalesce({PASS}, false)" if _where(plan) is not None else None, Fate.FILTERED),
        (outside, Fate.OUTSIDE_WINDOWS),
        (late, Fate.LATE),
    ]
    cases = " ".join(f"WHEN {when} THEN {fate.value}" for when, fate in branches if when)
    return f"CASE {cases} ELSE {Fate.ACCUMULATED.value} END"


def _needs_order(aggregation: PhysicalAggregation | PhysicalStreamingAggregation) -> bool:
    if isinstance(aggregation, PhysicalAggregation):
        return True
    return any(ORDER in column.update for column in aggregation.partial_columns)


def _where(plan: PhysicalPlan) -> str | None:
    filters = (node for node in plan.nodes() if isinstance(node, PhysicalFilter))
    return next((node.predicate for node in filters if node.stage is FilterStage.WHERE), None)
