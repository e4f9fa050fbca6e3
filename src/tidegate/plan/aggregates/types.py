"""The types of aggregates, as far as they are known without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.plan.aggregates.table import ACCUMULATORS
from tidegate.plan.statement import Aggregate


def aggregate_type(aggregate: Aggregate, types: Mapping[str, str | None]) -> str | None:
    """Return the type of an aggregate as DDL; None if unknown.

    Args:
        aggregate: the aggregate.
        types: the types of its arguments, by name.
    """
    entry = ACCUMULATORS.get(aggregate.function)
    if entry is None:
        return None
    return entry.result.of(types.get(aggregate.args[0]) if aggregate.args else None)
