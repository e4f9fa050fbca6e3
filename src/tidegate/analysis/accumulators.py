"""Checks the accumulators that users registered with Spark's analyzer, when a query starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from tidegate.errors import ConfigError
from tidegate.plan.aggregates.planned import has_merge, plan_accumulator
from tidegate.plan.aggregates.registry import REGISTERED
from tidegate.plan.columns import ORDER
from tidegate.spark.statements import empty_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.statement import Aggregate

# A value of the type of ``_order``: time, epoch, place in the batch.
EXAMPLE_ORDER = "named_struct('t', 0L, 'b', 0L, 'i', 0L)"


def check_definitions(plan: PhysicalPlan, rows: DataFrame) -> None:
    """Refuse a registered accumulator of a plan whose texts Spark cannot resolve.

    Args:
        plan: the plan; one without such accumulators is not looked at.
        rows: prepared rows, asked for their types only.

    Raises:
        ConfigError: names the text and what Spark says about it.
    """
    own = [aggregate for aggregate in plan.ingest.aggregates if aggregate.function in REGISTERED]
    if not own:
        return
    empty = empty_frame(rows.sparkSession, rows.schema)
    ordered = empty.selectExpr("*", f"{EXAMPLE_ORDER} AS {ORDER}")
    for aggregate in own:
        _check(aggregate, plan, ordered)


def _check(aggregate: Aggregate, plan: PhysicalPlan, rows: DataFrame) -> None:
    name, defined = aggregate.function, REGISTERED[aggregate.function]
    if not has_merge(aggregate):
        count = defined.arity[0]
        raise ConfigError(
            f"{aggregate.text} is not a valid call of {name}\n\n"
            f"It takes {count} argument{'' if count == 1 else 's'} and no DISTINCT."
        )
    planned = plan_accumulator(aggregate, plan.ingest.arguments)
    (column,), (part,) = planned.columns, defined.parts
    partials = _aggregated(rows, functions.expr(column.update), column.name, (name, part.update))
    # The state keeps the first type of a column, but that anything in it may be NULL.
    type_ = partials.schema.toNullable()[column.name].dataType
    merge = functions.expr(column.merge).cast(type_)
    merged = _aggregated(partials, merge, column.name, (name, part.merge))
    try:
        merged.selectExpr(planned.evaluate)
    except AnalysisException as error:
        raise _refused((name, defined.evaluate), error) from None


def _aggregated(
    rows: DataFrame, call: Column, column: str, definition: tuple[str, str]
) -> DataFrame:
    try:
        return rows.groupBy().agg(call.alias(column))
    except AnalysisException as error:
        raise _refused(definition, error) from None


def _refused(definition: tuple[str, str], error: AnalysisException) -> ConfigError:
    name, text = definition
    message = str(error).split("\n")[0].split("; line ")[0]
    return ConfigError(f"accumulator {name}: Spark refuses this text\n\n  {text}\n\n{message}")
