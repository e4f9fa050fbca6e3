"""Preparing rows: selects the few columns that a query needs, and classifies each row.

``prepare`` runs before ``foreachBatch``, on the streaming DataFrame, so that only these columns
cross into the batch:

    _t      BIGINT    the row's event time in microseconds, NULL when it has none
    _own_t  BIGINT    only with null_event_time = "fallback": the row's own event time, where _t is
                      the time of the source's metadata for a row without one
    _shard  any       the shard of the watermark that the row belongs to (only where there are some)
    _pass   BOOLEAN   the WHERE clause (only when there is one)
    _err    STRING    the first error of the row's expressions (only where one can fail)
    _k0 ..            group keys          _x0 ..   arguments and filters of aggregates
    _p0 ..            partition keys of the window (OVER)
    _open, _emit, _when   the window's conditions
    _dedup            the value of dedup_key (only when it is set)
    _reinjected  BOOLEAN  whether the row has gone back to its input before (only when rows do that)
    _row    STRUCT    the source's columns (only when side output wants the original row)

``classify`` adds, inside the batch, ``_class`` (a ``Fate``) and ``_pane``. For rows that are not
accumulated ``_pane`` and the keys are NULL, so that, for example, all late rows of a batch are one
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import uuid4

from pyspark.sql import DataFrame

from tidegate.connectors.kafka_reinject import is_reinjected
from tidegate.engine.windows.panes.grid import PaneGrid
from tidegate.names import in_backticks, quoted
from tidegate.plan.columns import (
    AFTER,
    BEHIND,
    DUPLICATE,
    EMIT,
    ERROR,
    EVICTED,
    FATE,
    FILE,
    MALFORMED,
    OPEN,
    ORDER,
    OWN_TIME,
    PANE,
    PASS,
    PLACE,
    REINJECTED,
    ROW,
    SEQUENCE,
    SHARD,
    SHARD_HASH,
    TIME,
    WHEN,
)
from tidegate.plan.guarded import Guarded, first_error, is_malformed, malformed_error
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import ErrorPolicy, TimeMode
from tidegate.plan.side_output import REINJECTED_FILES
from tidegate.plan.stages import Ingest, Prepare
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


# Columns that can fail without an error for the row: an event time that fails is NULL, which is a
# separate error, and a row whose shard fails is of the shard NULL.
NO_ERRORS = (TIME, OWN_TIME, SHARD)


def prepare(
    plan: PhysicalPlan,
    sources: Mapping[str, DataFrame],
    *,
    keep_rows: bool = False,
) -> DataFrame:
    """Return the prepared rows of a query: the columns above.

    Args:
        plan: the plan.
        sources: the stream and the static tables, by the names that the statement uses.
        keep_rows: whether side output needs the original rows.
    """
    stage = plan.prepare
    own = prepared_sql(plan, sources[stage.source.name].columns, keep_rows=keep_rows)
    columns = [f"{sql} AS {name}" for name, sql in own.items()]
    if asks_for_file(own):
        # Spark does not look for it behind a view.
        stream = sources[stage.source.name].select("*", FILE)
        sources = {**sources, stage.source.name: stream}
    views = {name: f"_tidegate_{uuid4().hex}" for name in sources}
    # A subquery in FROM must not see the hidden columns.
    hides = stage.has_hidden and stage.from_clause.has_queries
    kept = {stage.source.name: _own_columns(stage, "")} if hides else {}
    named = ", ".join(
        f"{in_backticks(name)} AS (SELECT {kept.get(name, '*')} FROM {view})"
        for name, view in views.items()
    )
    from_clause = stage.safe_from or stage.from_clause
    ctes, relation = from_clause.ctes, from_clause.relation
    selected = f"SELECT {stage.hint} {', '.join(columns)} FROM {relation}"
    # The statement's own WITH clause is nested, so its names may shadow those of sources.
    text = f"WITH {named} SELECT * FROM ({ctes} {selected})" if ctes else f"WITH {named} {selected}"
    spark = next(iter(sources.values())).sparkSession
    try:
        for name, view in views.items():
            sources[name].createOrReplaceTempView(view)
        return spark.sql(text)
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


def prepared_sql(
    plan: PhysicalPlan, stream: Sequence[str], *, keep_rows: bool = False
) -> dict[str, str]:
    """Return the prepared columns of a query as Spark SQL over FROM, by their names.

    Args:
        plan: the plan.
        stream: the columns of the stream.
        keep_rows: whether side output needs the original rows.
    """
    columns = guarded_columns(plan)
    if plan.side_output.reinjects:
        back = is_reinjected(stream)
        if back is None:
            back = f"startswith({FILE}.file_name, '{REINJECTED_FILES}')"
        columns[REINJECTED] = back
    if keep_rows:
        columns[ROW] = f"struct({_original_row(plan.prepare, has_file=asks_for_file(columns))})"
    return columns


def asks_for_file(columns: Mapping[str, str]) -> bool:
    """Return whether prepared columns need Spark's hidden column with a row's file."""
    return any(f"{FILE}." in sql for sql in columns.values())


def _original_row(stage: Prepare, *, has_file: bool) -> str:
    """The columns of the stream's row, without the hidden ones."""
    if stage.from_clause.has_queries or not (stage.has_hidden or has_file):
        return stage.original_row
    return _own_columns(stage, stage.original_row.removesuffix("*"))


def _own_columns(stage: Prepare, prefix: str) -> str:
    columns = stage.source.columns
    assert columns is not None, "a stream with hidden columns is a DataFrame"
    return ", ".join(f"{prefix}{quoted(column.name)}" for column in columns)


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


def guarded_columns(plan: PhysicalPlan) -> dict[str, str]:
    """The prepared columns, guarded so that none raises, and a column for the error of the row."""
    columns, guards = plan.prepare.columns, plan.prepare.guards
    safe = {name: guards[name].safe if name in guards else sql for name, sql in columns.items()}
    if not has_row_errors(plan):
        return safe
    # Check for malformed records before WHERE, which would drop them: their values are NULL.
    malformed = malformed_error(MALFORMED) if plan.prepare.tells_malformed else None
    where = Guarded(safe=columns[PASS]) if PASS in columns else None
    others = [each for name, each in guards.items() if name not in (PASS, *NO_ERRORS)]
    error = first_error(others, guards.get(PASS, where))
    found = [each for each in (malformed, error) if each is not None]
    assert found, "a guard is kept only for what can fail"
    return {**safe, ERROR: found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"}


def has_row_errors(plan: PhysicalPlan) -> bool:
    """Whether a row can be malformed, or an expression fail for it, which makes it an error row."""
    if plan.side_output.error_policy is not ErrorPolicy.SIDE_OUTPUT:
        return False
    return plan.prepare.tells_malformed or any(
        each.error is not None and name not in NO_ERRORS
        for name, each in plan.prepare.guards.items()
    )


def are_conditions(plan: PhysicalPlan, rows: DataFrame) -> bool:
    """Whether the conditions of a plan are BOOLEAN, by the types that Spark gives them."""
    names = {PASS, OPEN, EMIT, WHEN, *(each.filter for each in plan.ingest.aggregates)}
    found = [field.dataType.typeName() for field in rows.schema.fields if field.name in names]
    return all(kind == "boolean" for kind in found)


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
