"""The types of aggregates, as far as they are known before Spark is asked."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.plan.aggregates.table import ACCUMULATORS
from tidegate.plan.statement import Aggregate


def aggregate_type(aggregate: Aggregate, types: Mapping[str, str | None]) -> str | None:
    """Return the type of an aggregate as DDL; None when it is not known.

    Args:
        aggregate: the aggregate.
        types: those of the values that it is given, by their names.
    """
    entry = ACCUMULATORS.get(aggregate.function)
    if entry is None:
        return None
    return entry.result.of(types.get(aggregate.args[0]) if aggregate.args else None)
