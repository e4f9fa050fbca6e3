"""Values of open windows that only Spark can evaluate, such as those of sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.names import in_backticks
from tidegate.spark.session import local_session
from tidegate.state.plan_file import PlanFile

_GROUP = "_group"


def values_by_spark(
    groups: Sequence[Sequence[Mapping[str, Any]]], plan: PlanFile, schema: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the values of groups, by the text of the call.

    Args:
        groups: the partials of each group.
        plan: how they are merged, and the values that are wanted.
        schema: their types (DDL).
    """
    spark = local_session()
    types = {name: schema[name] for name in plan.merges}
    ddl = ", ".join(f"{in_backticks(name)} {type_}" for name, type_ in types.items())
    rows = [
        (number, *(partial[name] for name in types))
        for number, partials in enumerate(groups)
        for partial in partials
    ]
    partials = spark.createDataFrame(rows, f"{_GROUP} INT, {ddl}")
    merged = partials.groupBy(_GROUP).agg(
        *(_expression(text, name) for name, text in plan.merges.items())
    )
    calls = list(plan.values)
    evaluated = merged.selectExpr(
        _GROUP, *(f"{plan.values[call]} AS _{number}" for number, call in enumerate(calls))
    )
    found = {row[0]: dict(zip(calls, row[1:], strict=True)) for row in evaluated.collect()}
    return [found[number] for number in range(len(groups))]


def _expression(text: str, name: str) -> Any:  # noqa: ANN401 - a Column
    from pyspark.sql import functions

    return functions.expr(text).alias(name)
