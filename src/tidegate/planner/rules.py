"""The rules of the planner: plain functions from a physical node to the node that takes its place.

``RULES`` is the whole of them, in the order they are tried; ``runnable`` says what the engine does
not do yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tidegate.plan.aggregates.planned import has_merge, plan_accumulator
from tidegate.plan.physical import (
    PhysicalAggregation,
    PhysicalNode,
    PhysicalPlan,
    PhysicalStreamingAggregation,
    PhysicalWatermark,
)
from tidegate.plan.settings import RowPath, Settings
from tidegate.plan.statement import Aggregate
from tidegate.plan.windows import (
    WINDOW_KINDS,
    Count,
    State,
    Window,
)

Rule: TypeAlias = Callable[[PhysicalNode, Settings], PhysicalNode]


def apply_rules(node: PhysicalNode, settings: Settings) -> PhysicalNode:
    """Return the tree with every rule applied to every node, leaves first."""
    node = replace(node, children=tuple(apply_rules(child, settings) for child in node.children))
    for rule in RULES:
        node = rule(node, settings)
    return node


def streaming_aggregation_rewrite(node: PhysicalNode, settings: Settings) -> PhysicalNode:
    """Turn ``Window -> Aggregation`` into a streaming aggregation, or tell the aggregation why not.

    The node that takes their place holds the window, and its only child is the watermark.
    """
    if not isinstance(node, PhysicalAggregation):
        return node
    (window_node,) = node.children
    (watermark,) = window_node.children
    assert isinstance(watermark, PhysicalWatermark), "a window's only child is a watermark"
    reason = _why_rows_are_kept(node, watermark.window, settings)
    if reason is not None:
        return replace(node, reason=reason)
    return PhysicalStreamingAggregation(
        index=node.index,
        children=(watermark,),
        window=watermark.window,
        keys=node.keys,
        arguments=node.arguments,
        accumulators=tuple(
            plan_accumulator(aggregate, node.arguments) for aggregate in node.aggregates
        ),
        reason="every aggregate has a merge"
        if node.aggregates
        else "distinct keys need no aggregate",
    )


RULES: tuple[Rule, ...] = (streaming_aggregation_rewrite,)


def _why_rows_are_kept(node: PhysicalAggregation, window: Window, settings: Settings) -> str | None:
    if isinstance(window, State | Count):
        return f"{WINDOW_KINDS[type(window)]} windows keep their rows"
    if not node.keys and not node.aggregates:
        return "the statement asks for the rows themselves"
    if settings.streaming_aggregation is RowPath.OFF:
        return "streaming_aggregation is off"
    without_merge = next((a for a in node.aggregates if not has_merge(a, node.arguments)), None)
    return None if without_merge is None else f"{_called(without_merge)} has no merge"


def _called(aggregate: Aggregate) -> str:
    return f"{aggregate.function}(DISTINCT)" if aggregate.distinct else aggregate.function


def runnable(plan: PhysicalPlan) -> str | None:
    """Return None when the engine runs this plan today, else a sentence why it does not."""
    for check in NOT_YET_RUN:
        subject = check(plan)
        if subject is not None:
            return f"{subject} planned and not yet run."
    return None


# The settings that the engine does not follow yet.
SETTINGS_NOT_YET_RUN: tuple[tuple[str, Callable[[Settings], object]], ...] = (
    ("shard", lambda settings: settings.shard),
    ("dedup_key", lambda settings: settings.dedup_key),
    ("dedup_horizon", lambda settings: settings.dedup_horizon_us),
    ("max_groups", lambda settings: settings.max_groups),
    ("max_rows_per_group", lambda settings: settings.max_rows_per_group),
)


def _setting(plan: PhysicalPlan) -> str | None:
    for name, value in SETTINGS_NOT_YET_RUN:
        if value(plan.settings) is not None:
            return f"The setting {name} is"
    return None


# Each returns the start of the sentence, or None. An entry goes when the engine can do it.
NOT_YET_RUN: tuple[Callable[[PhysicalPlan], str | None], ...] = (_setting,)
