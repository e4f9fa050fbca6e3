"""The columns of a prepared row, as Spark SQL over its source (``engine/rows/prepare.py``)."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.plan.columns import DEDUP_KEY, OWN_TIME, PASS, SHARD, TIME
from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.statement import Argument, Key
from tidegate.plan.windows import Window


def prepared_columns(
    spec: WatermarkSpec,
    where: str | None,
    values: Iterable[Key | Argument],
    window: Window,
    dedup_key: str | None = None,
) -> dict[str, str]:
    """Return the prepared columns that are expressions over FROM, as Spark SQL by name.

    Args:
        spec: gives a row its time and its shard.
        where: the WHERE clause.
        values: group keys and arguments of aggregates.
        window: its conditions and partition keys.
        dedup_key: the expression by which a row is a duplicate.
    """
    columns = _time_columns(spec)
    if where is not None:
        columns[PASS] = where
    if spec.shard is not None:
        columns[SHARD] = spec.shard
    columns |= {value.name: value.expression.sql for value in values}
    columns |= window.conditions | window.partition_keys
    if dedup_key is not None:
        columns[DEDUP_KEY] = dedup_key
    return columns


def _time_columns(spec: WatermarkSpec) -> dict[str, str]:
    """The row's times; in processing time NULL, until ``judge`` sets the batch's clock."""
    event_time = spec.event_time
    if event_time.sql is None:
        return {TIME: "CAST(NULL AS BIGINT)"}
    own = f"CAST({event_time.sql} AS BIGINT)"
    if not spec.falls_back:
        return {TIME: own}
    if event_time.fallback_sql is None:
        return {TIME: own, OWN_TIME: own}
    return {TIME: f"coalesce({own}, CAST({event_time.fallback_sql} AS BIGINT))", OWN_TIME: own}
