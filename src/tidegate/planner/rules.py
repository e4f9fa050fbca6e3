"""The rules of the planner: functions from a physical plan to the plan that replaces it.

``RULES`` lists them in order of application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tidegate.names import in_backticks
from tidegate.plan.aggregates.planned import has_merge, plan_accumulator
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import RowPath
from tidegate.plan.stages import IngestPartials, IngestRows, keeps_values
from tidegate.plan.statement import Aggregate
from tidegate.planner.guards import (
    guard_from_clause,
    guard_results,
    guard_rows,
    guard_shard_of_keys,
)

# Types of the columns of FROM by name, if Spark was asked for them.
Types: TypeAlias = Mapping[str, str | None]
Rule: TypeAlias = Callable[[PhysicalPlan, Types], PhysicalPlan]


def keep_partials(plan: PhysicalPlan, types: Types) -> PhysicalPlan:
    """Store partials instead of rows if every aggregate has a merge, else say why not."""
    del types
    rows = plan.ingest
    assert isinstance(rows, IngestRows), "a plan starts with stored rows"
    reason = _why_rows_are_kept(rows, plan)
    if reason is not None:
        return replace(plan, ingest=replace(rows, reason=reason))
    partials = IngestPartials(
        keys=rows.keys,
        arguments=rows.arguments,
        accumulators=tuple(plan_accumulator(each, rows.arguments) for each in rows.aggregates),
        reason="every aggregate has a merge"
        if rows.aggregates
        else "distinct keys need no aggregate",
    )
    return replace(plan, ingest=partials)


def keep_arrival_order(plan: PhysicalPlan, types: Types) -> PhysicalPlan:
    """Broadcast joined tables where the order of rows matters.

    A join that shuffles the rows of the stream loses their order of arrival. A statement that has
    hints keeps them instead.
    """
    del types
    prepare = plan.prepare
    if prepare.hint or not prepare.joined or not plan.needs_order:
        return plan
    names = ", ".join(in_backticks(name) for name in prepare.joined)
    return replace(plan, prepare=replace(prepare, hint=f"/*+ BROADCAST({names}) */"))


RULES: tuple[Rule, ...] = (
    keep_partials,
    keep_arrival_order,
    guard_rows,
    guard_from_clause,
    guard_shard_of_keys,
    guard_results,
)


def apply_rules(plan: PhysicalPlan, types: Types) -> PhysicalPlan:
    """Return the plan after every rule."""
    for rule in RULES:
        plan = rule(plan, types)
    return plan


def _why_rows_are_kept(rows: IngestRows, plan: PhysicalPlan) -> str | None:
    window = plan.close.window
    if window.keeps_rows:
        return f"{window.kind} windows keep their rows"
    if rows.is_row_query:
        return "the statement asks for the rows themselves"
    if plan.settings.streaming_aggregation is RowPath.OFF:
        return "streaming_aggregation is off"
    if plan.settings.max_rows_per_group is not None and keeps_values(rows):
        return "max_rows_per_group counts them"
    without_merge = next((a for a in rows.aggregates if not has_merge(a, rows.arguments)), None)
    return None if without_merge is None else f"{_called(without_merge)} has no merge"


def _called(aggregate: Aggregate) -> str:
    return f"{aggregate.function}(DISTINCT)" if aggregate.distinct else aggregate.function
