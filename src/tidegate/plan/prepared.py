"""The columns that a row is prepared to, as text over its source (``engine/rows/prepare.py``)."""

from __future__ import annotations

from tidegate.plan.aggregates.planned import TIME
from tidegate.plan.logical import FilterStage
from tidegate.plan.physical import PhysicalFilter, PhysicalPlan
from tidegate.plan.windows import Count, Sliding, State, Window

OWN_TIME = "_own_t"
PASS = "_pass"
# The conditions of a window, BOOLEAN.
OPEN, EMIT, WHEN = "_open", "_emit", "_when"


def prepared_columns(plan: PhysicalPlan) -> dict[str, str]:
    """The prepared columns that come from expressions over the source: name to Spark SQL text."""
    columns = _time_columns(plan)
    where = where_clause(plan)
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


def falls_back(plan: PhysicalPlan) -> bool:
    """Whether a row without an event time takes another one, so that there is ``_own_t``."""
    spec = plan.watermark.spec
    return spec.event_time.sql is not None and spec.null_event_time_fallback


def _partition_by(window: Window) -> tuple[str, ...]:
    return window.partition_by if isinstance(window, Sliding | State | Count) else ()


def where_clause(plan: PhysicalPlan) -> str | None:
    """The WHERE clause; None: there is none."""
    filters = (node for node in plan.nodes() if isinstance(node, PhysicalFilter))
    return next((node.predicate for node in filters if node.stage is FilterStage.WHERE), None)


def _time_columns(plan: PhysicalPlan) -> dict[str, str]:
    """The row's times; in processing time it is NULL here and the batch's clock in ``judge``."""
    event_time = plan.watermark.spec.event_time
    if event_time.sql is None:
        return {TIME: "CAST(NULL AS BIGINT)"}
    own = f"CAST({event_time.sql} AS BIGINT)"
    if not falls_back(plan):
        return {TIME: own}
    if event_time.fallback_sql is None:
        return {TIME: own, OWN_TIME: own}
    return {TIME: f"coalesce({own}, CAST({event_time.fallback_sql} AS BIGINT))", OWN_TIME: own}
