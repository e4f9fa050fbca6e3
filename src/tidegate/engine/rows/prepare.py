"""Preparing rows: selects the few columns that a query needs.

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

Inside the batch each row then gets a fate, see ``fates.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

from pyspark.sql import DataFrame

from tidegate.connectors.kafka_reinject import is_reinjected
from tidegate.names import in_backticks, quoted
from tidegate.plan.columns import (
    EMIT,
    ERROR,
    FILE,
    MALFORMED,
    OPEN,
    OWN_TIME,
    PASS,
    REINJECTED,
    ROW,
    SHARD,
    TIME,
    WHEN,
)
from tidegate.plan.guarded import Guarded, first_error, malformed_error
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.side_output import REINJECTED_FILES
from tidegate.plan.stages import Prepare

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
