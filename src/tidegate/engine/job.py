"""A job: everything about a started query that stays the same from batch to batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import DataFrame

from tidegate.engine.finish import Finisher, native_types
from tidegate.engine.panes import PaneGrid, pane_grid
from tidegate.engine.partials import accumulated, update
from tidegate.engine.prepare import BatchStart, classify
from tidegate.plan.physical import PhysicalPlan, PhysicalStreamingAggregation
from tidegate.plan.windows import Cumulate, Hopping, Tumbling

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Writes the rows of an epoch; a second call for the same epoch replaces the first.
Write: TypeAlias = Callable[[DataFrame, int], None]

# What the analyzer is shown when it is asked for types.
FIRST = BatchStart(epoch=0, clock_us=None, closed_us=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where rows go: results, and side output by kind (a kind without an outlet is only
    counted)."""

    results: Write
    side: Mapping[str, Write] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan made ready to run: its geometry, the schema of its state, and where its rows go.

    Attributes:
        partitions: how many tasks a shuffle may have; small batches use fewer.
    """

    plan: PhysicalPlan
    aggregation: PhysicalStreamingAggregation
    grid: PaneGrid
    state_schema: StructType
    finisher: Finisher
    outlets: Outlets
    partitions: int


def make_job(plan: PhysicalPlan, rows: DataFrame, outlets: Outlets, partitions: int) -> Job:
    """Return the job of a plan.

    Args:
        plan: a plan that ``runnable`` accepts.
        rows: prepared rows, asked for their types only.
        outlets: where results and side output go.
        partitions: tasks of a large shuffle.
    """
    aggregation = plan.find(PhysicalStreamingAggregation)
    assert aggregation is not None, "the planner keeps other plans out"
    window = aggregation.window
    assert isinstance(window, Tumbling | Hopping | Cumulate), "the planner keeps other windows out"
    grid = pane_grid(window)
    # The analyzer needs a relation that is not a stream, and no rows.
    empty = rows.sparkSession.createDataFrame([], rows.schema)
    partials = accumulated(update(classify(empty, plan, grid, FIRST), aggregation), aggregation)
    return Job(
        plan=plan,
        aggregation=aggregation,
        grid=grid,
        state_schema=partials.schema,
        finisher=Finisher(
            plan=plan,
            aggregation=aggregation,
            types=native_types(classify(empty, plan, grid, FIRST), aggregation),
        ),
        outlets=outlets,
        partitions=partitions,
    )
