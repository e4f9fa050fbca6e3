"""The fate of a row: accumulated, late, filtered, an error, and so on.

``classify`` adds to prepared rows, inside the batch, ``_class`` (a ``Fate``) and ``_pane``. For
rows that are not accumulated ``_pane`` and the keys are NULL, so that, for example, all late rows
of a batch are one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pyspark.sql import DataFrame

from tidegate.engine.rows.prepare import has_row_errors
from tidegate.engine.windows.panes.grid import PaneGrid
from tidegate.plan.columns import (
    AFTER,
    BEHIND,
    DUPLICATE,
    ERROR,
    EVICTED,
    FATE,
    ORDER,
    OWN_TIME,
    PANE,
    PASS,
    PLACE,
    SEQUENCE,
    SHARD,
    SHARD_HASH,
    TIME,
)
from tidegate.plan.guarded import is_malformed
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import TimeMode
from tidegate.plan.stages import Ingest
from tidegate.plan.time_columns import GREATEST_TIME_US, LEAST_TIME_US
from tidegate.spark.statements import ROW_NUMBER, by_reference, over
from tidegate.time import floor_to

# Rows are first compared with the limit of the future rounded down to this, see ``_in_the_future``.
COARSE_US = 3_600_000_000


class Fate(IntEnum):
    """How a row is classified; the number is the value of ``_class``."""

    ACCUMULATED = 0
    LATE = 1
    NULL_EVENT_TIME = 2
    FUTURE_EVENT_TIME = 3
    FILTERED = 4
    OUTSIDE_WINDOWS = 5
    EVENT_TIME_OUT_OF_RANGE = 6
    ROW_ERROR = 7
    DUPLICATE = 8
    EVICTED_GROUP = 9
    EVICTED_ROW = 10


# Rows of these fates have no event time that the watermark may follow.
UNTIMED = (
    Fate.NULL_EVENT_TIME,
    Fate.FUTURE_EVENT_TIME,
    Fate.EVENT_TIME_OUT_OF_RANGE,
)


# Rows beyond a quota.
EVICTED_FATES = (Fate.EVICTED_GROUP, Fate.EVICTED_ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStart:
    """What the rows of a batch are classified by, all of it known before the batch.

    Attributes:
        epoch: the step.
        clock_us: the clock of the batch, the same for all its rows; None if only types are needed.
        bound_us: windows with an end up to here had closed (the watermark less the allowed
            lateness); None: no watermark yet.
        has_duplicates: whether some rows are duplicates; all of them then have ``_dup``.
        behind_us: if the rows have ``_behind``, the greatest; it then decides instead of
            ``bound_us`` for which windows a row is late.
        is_followed: whether the rows have ``_sequence`` and ``_is_late``, which then decides.
        tells_places: whether job 1 tells at which places of the batch the rows of a partial are.
        has_evictions: whether a quota evicts some rows; all of them then have ``_evicted``.
        tells_shards: whether placed rows tell their shards.
        shard_of_keys: the shard (Spark SQL over the group keys) if it follows from them; partials
            then tell it without a look at their rows.
        counted: what is counted of the rows of a shard then, see ``engine/rows/shard_rows.py``.
    """

    epoch: int
    clock_us: int | None = None
    bound_us: int | None = None
    has_duplicates: bool = False
    has_evictions: bool = False
    behind_us: int | None = None
    is_followed: bool = False
    tells_places: bool = False
    tells_shards: bool = False
    shard_of_keys: str | None = None
    counted: tuple[str, ...] = ()

    @property
    def marks_behind(self) -> bool:
        """Whether the rows have ``_behind``."""
        return self.behind_us is not None

    def bound_sql(self) -> str | None:
        """The end up to which windows had closed for a row, NULL or None: none had."""
        if self.marks_behind:
            return BEHIND
        return None if self.bound_us is None else by_reference(self.bound_us, TIME)


def classify(
    rows: DataFrame,
    plan: PhysicalPlan,
    grid: PaneGrid,
    start: BatchStart,
    aggregation: Ingest,
) -> DataFrame:
    """Return prepared rows with ``_class``, ``_pane`` and, where it is needed, ``_order``.

    ``_pane`` and the keys are NULL for rows that are not accumulated.
    """
    fate = fate_sql(plan, grid, start)
    return over(
        rows,
        classify_sql(judged_sql(rows.columns, plan, start, fate), plan, grid, start, aggregation),
    )


def classify_sql(
    judged: str,
    plan: PhysicalPlan,
    grid: PaneGrid,
    start: BatchStart,
    aggregation: Ingest,
) -> str:
    """``classify`` as text, over a statement that gives judged rows.

    If rows tell their shards, it adds ``_shard_hash``, which rows that are not accumulated have as
    their pane. If rows are marked as behind, it adds ``_after``. If their places are told, it adds
    ``_i``, and all rows with a valid time have a pane.
    """
    accumulated = f"{FATE} = {Fate.ACCUMULATED.value}"
    untimed = ", ".join(str(fate.value) for fate in UNTIMED)
    placed = f"{FATE} NOT IN ({untimed})" if start.tells_places else accumulated
    # So rows that are not accumulated are grouped by their shard, without one more group key.
    apart = f" ELSE {shard_hash_sql()}" if start.tells_shards and not start.tells_places else ""
    columns = [
        TIME,
        *([OWN_TIME] if plan.watermark.falls_back else []),
        FATE,
        f"CASE WHEN {placed} THEN {grid.pane_sql(TIME)}{apart} END AS {PANE}",
        *(f"CASE WHEN {accumulated} THEN {k.name} END AS {k.name}" for k in aggregation.keys),
        *(argument.name for argument in aggregation.arguments),
        *([f"{shard_hash_sql()} AS {SHARD_HASH}"] if start.tells_shards else []),
    ]
    if start.is_followed:
        columns.append(f"CASE WHEN {accumulated} THEN {BEHIND} END AS {AFTER}")
        columns.append(f"CASE WHEN {accumulated} THEN {SEQUENCE} END AS {SEQUENCE}")
    elif start.marks_behind:
        columns.append(f"CASE WHEN {accumulated} THEN {after_sql(grid)} END AS {AFTER}")
    if start.tells_places:
        columns.append(f"{ROW_NUMBER} AS {PLACE}")
    if aggregation.needs_order:
        columns.append(f"{order_sql(start)} AS {ORDER}")
    return f"SELECT {', '.join(columns)} FROM ({judged})"


def shard_hash_sql() -> str:
    """The hash of a prepared row's shard, a BIGINT that is never NULL."""
    return f"xxhash64({SHARD})"


def after_sql(grid: PaneGrid) -> str:
    """The end of the last window of a row that had closed when it came, NULL if none had."""
    closed = f"{grid.first_end_sql(grid.pane_sql(TIME))} <= {BEHIND}"
    return f"IF({closed}, {grid.end_sql(BEHIND)}, NULL)"


def judge(rows: DataFrame, plan: PhysicalPlan, start: BatchStart, fate: str) -> DataFrame:
    """Return prepared rows with their fate; in processing time, with the clock as their time."""
    return over(rows, judged_sql(rows.columns, plan, start, fate))


def judged_sql(columns: list[str], plan: PhysicalPlan, start: BatchStart, fate: str) -> str:
    """``judge`` as text, over ``{frame}`` with the given columns."""
    time = TIME
    if plan.watermark.mode is TimeMode.PROCESSING:
        time = clock_sql(start)
    elif plan.watermark.falls_back:
        time = f"coalesce({TIME}, {clock_sql(start)})"
    if time == TIME:
        return f"SELECT *, {fate} AS {FATE} FROM {{frame}}"
    timed = [f"{time} AS {name}" if name == TIME else name for name in columns]
    return f"SELECT *, {fate} AS {FATE} FROM (SELECT {', '.join(timed)} FROM {{frame}})"


def clock_sql(start: BatchStart) -> str:
    """The clock of the batch as a BIGINT, NULL if only types are needed."""
    if start.clock_us is None:
        return "CAST(NULL AS BIGINT)"
    return by_reference(start.clock_us, ROW_NUMBER)


def order_sql(start: BatchStart) -> str:
    """A STRUCT that orders rows by time, then by arrival: epoch, source partition, position."""
    # The row number combines the partition and the position in it.
    epoch = by_reference(start.epoch, ROW_NUMBER)
    return f"named_struct('t', {TIME}, 'b', {epoch}, 'i', {ROW_NUMBER})"


def fate_sql(plan: PhysicalPlan, grid: PaneGrid, start: BatchStart) -> str:
    """The CASE expression that decides the fate of a row on panes.

    Without a bound in ``start`` lateness is left out, so that the code is the same for all batches.
    """
    last_end = grid.last_end_sql(grid.pane_sql(TIME))
    bound = start.bound_sql()
    late = None if bound is None else f"{last_end} <= {bound}"
    outside = f"{last_end} <= {TIME}" if grid.has_gaps else None
    return fate_case(plan, start, late=late, outside=outside)


def fate_case(
    plan: PhysicalPlan, start: BatchStart, *, late: str | None, outside: str | None = None
) -> str:
    """The CASE expression of fates, for any kind of window.

    Args:
        plan: the plan.
        start: its clock says which event times are in the future.
        late: the condition under which a row is late for all its windows; None: never.
        outside: the condition under which a row is in no window; None: never.
    """
    out_of_range = f"{TIME} < {LEAST_TIME_US}L OR {TIME} > {GREATEST_TIME_US}L"
    branches: list[tuple[str | None, Fate]] = [
        (_malformed(plan), Fate.ROW_ERROR),
        (f"{TIME} IS NULL", Fate.NULL_EVENT_TIME),
        (out_of_range, Fate.EVENT_TIME_OUT_OF_RANGE),
        (_in_the_future(plan, start), Fate.FUTURE_EVENT_TIME),
        (f"{ERROR} IS NOT NULL" if has_row_errors(plan) else None, Fate.ROW_ERROR),
        (f"NOT coalesce({PASS}, false)" if plan.prepare.where is not None else None, Fate.FILTERED),
        (DUPLICATE if start.has_duplicates else None, Fate.DUPLICATE),
        (outside, Fate.OUTSIDE_WINDOWS),
        (late, Fate.LATE),
        *((_evicted(start, fate), fate) for fate in EVICTED_FATES),
    ]
    cases = " ".join(f"WHEN {when} THEN {fate.value}" for when, fate in branches if when)
    return f"CASE {cases} ELSE {Fate.ACCUMULATED.value} END"


def _evicted(start: BatchStart, fate: Fate) -> str | None:
    return f"{EVICTED} = {fate.value}" if start.has_evictions else None


def _malformed(plan: PhysicalPlan) -> str | None:
    """The condition under which a row has no event time because its record is malformed."""
    if not (plan.prepare.tells_malformed and has_row_errors(plan)):
        return None
    return f"{TIME} IS NULL AND {is_malformed(ERROR)}"


def _in_the_future(plan: PhysicalPlan, start: BatchStart) -> str | None:
    """The condition under which an event time is too far ahead of the batch's clock.

    A BIGINT that changes from batch to batch would make Spark compile the code again each time, and
    run it cold (130 ms of a batch of 4 M rows). So rows are compared with the last full hour before
    the limit, and only those after it with the exact limit (see ``by_reference``).
    """
    spec = plan.watermark
    if start.clock_us is None or spec.mode is TimeMode.PROCESSING or spec.follows is not None:
        # Times that move no watermark may be any: a window that is drained ends in the future.
        return None
    limit_us = start.clock_us + spec.max_future_skew_us
    exact = f"{TIME} > {by_reference(limit_us, TIME)}"
    return f"{TIME} > {floor_to(limit_us, COARSE_US, 0)}L AND {exact}"
