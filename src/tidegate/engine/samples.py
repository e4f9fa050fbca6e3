"""Samples of what a step writes: a few rows as JSON in its manifest, for those who look on.

The job that writes the rows collects them on the side, so they cost no job of their own: the first
rows of each task, which the driver cuts down to so many. Which rows these are may differ when a
batch is run again; nothing depends on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from tidegate.names import in_backticks
from tidegate.plan.columns import PLACE_IN_TASK
from tidegate.spark.observe import observed, observed_soon
from tidegate.spark.statements import ROW_NUMBER, number_in_task, selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.physical import PhysicalPlan

# Known once the rows have been written.
Count: TypeAlias = Callable[[], int]
Numbers: TypeAlias = Callable[[], Mapping[str, Any]]
Sample: TypeAlias = Callable[[], tuple[str, ...]]

# A step of every second keeps samples.
EVERY_US = 1_000_000

# A row has at most so many characters of JSON.
MOST_CHARACTERS = 1_000

_ROWS, _SAMPLE = "rows", "sample"

_NUMBER_IN_TASK = number_in_task(PLACE_IN_TASK)


def samples_due(before_us: int | None, clock_us: int | None, plan: PhysicalPlan) -> int:
    """Return how many rows of its output a step keeps.

    Only the first step of a second keeps some, so that short steps do not pay for it, and a drain
    or flush, whose clock is that of the step before.

    Args:
        before_us: the clock of the step before, None where there was none.
        clock_us: the clock of the step.
        plan: the plan.
    """
    if before_us is not None and clock_us is not None and before_us != clock_us:
        if before_us // EVERY_US == clock_us // EVERY_US:
            return 0
    return plan.settings.monitor_samples


def counted_results(
    results: DataFrame, plan: PhysicalPlan, known: Count | None, most: int
) -> tuple[DataFrame, Count, Sample]:
    """Return results that are counted and sampled while they are written.

    Args:
        results: the final results of a step.
        plan: the plan.
        known: returns how many they are, if that is known without counting them.
        most: how many a sample has.
    """
    names = [item.name for item in plan.finish.items]
    if known is None:
        counting = {_ROWS: "count(1)"}
        watched, numbers, sample = with_sample(results, names, most, counting, patient=True)
        return watched, lambda: int(numbers()[_ROWS]), sample
    watched, _, sample = with_sample(results, names, most)
    return watched, known, sample


def with_sample(
    rows: DataFrame,
    columns: Sequence[str],
    most: int,
    expressions: Mapping[str, str] | None = None,
    *,
    patient: bool = False,
) -> tuple[DataFrame, Numbers, Sample]:
    """Return rows that are sampled while they are written.

    Args:
        rows: any frame.
        columns: those of its columns that a sample shows, as far as they become JSON.
        most: how many rows a sample has.
        expressions: what else is to be observed, see ``observed``.
        patient: whether it is a failure if nothing was observed.
    """
    watch = observed if patient else observed_soon
    expressions = dict(expressions or {})
    shown = ", ".join(map(in_backticks, _shown(rows, columns))) if most else ""
    if not shown:
        if not expressions:
            return rows, dict, tuple
        watched, numbers = watch(rows, expressions)
        return watched, numbers, tuple
    row = f"left(to_json(struct({shown}), map('ignoreNullFields', 'false')), {MOST_CHARACTERS})"
    # NULLs are not collected, and a row beyond the first ones does not become JSON.
    expressions[_SAMPLE] = f"collect_list(CASE WHEN {_NUMBER_IN_TASK} < {most} THEN {row} END)"
    placed = selected(rows, "*", f"{ROW_NUMBER} AS {PLACE_IN_TASK}")
    watched, numbers = watch(placed, expressions)
    return watched.drop(PLACE_IN_TASK), numbers, lambda: tuple(numbers().get(_SAMPLE, ())[:most])


# What ``to_json`` takes; it fails on some other types only when it meets a value, and a sample
# must not stop a query.
_SIMPLE = (
    BinaryType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)


def _shown(rows: DataFrame, columns: Sequence[str]) -> list[str]:
    """The columns that can be shown; a name that two columns have says neither."""
    times = Counter(name.lower() for name in rows.columns)
    return [
        field.name
        for field in rows.schema
        if field.name in columns and times[field.name.lower()] == 1 and _is_json(field.dataType)
    ]


def _is_json(type_: DataType) -> bool:
    match type_:
        case ArrayType():
            return _is_json(type_.elementType)
        case MapType():
            return isinstance(type_.keyType, StringType) and _is_json(type_.valueType)
        case StructType():
            return all(_is_json(field.dataType) for field in type_)
    return isinstance(type_, _SIMPLE)
