"""From a bound statement to its plans: ``BoundQuery -> LogicalPlan -> PhysicalPlan``.

The logical plan is the chain that every statement has; the physical plan is the same chain in the
engine's nodes, with the rules of ``rules.py`` applied, numbered from the sink down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from hashlib import sha256
from itertools import count
from typing import assert_never

from tidegate.plan.logical import (
    Aggregation,
    DataSink,
    DataSource,
    Filter,
    FilterStage,
    Join,
    Limit,
    LogicalNode,
    LogicalPlan,
    Order,
    Project,
    Watermark,
    WindowNode,
)
from tidegate.plan.physical import (
    PHYSICAL_WINDOWS,
    PhysicalAggregation,
    PhysicalDataSink,
    PhysicalDataSource,
    PhysicalFilter,
    PhysicalJoin,
    PhysicalLimit,
    PhysicalNode,
    PhysicalOrder,
    PhysicalPlan,
    PhysicalProject,
    PhysicalStreamingAggregation,
    PhysicalWatermark,
)
from tidegate.plan.settings import Settings
from tidegate.plan.statement import BoundQuery
from tidegate.plan.windows import WINDOW_KINDS, Window
from tidegate.planner.event_time import resolve_watermark
from tidegate.planner.rules import apply_rules
from tidegate.time import TimeUnit, format_duration

# The version of what a checkpoint holds; a change of it makes older checkpoints unreadable.
FORMAT_VERSION = "1"


def plan_query(bound: BoundQuery, settings: Settings) -> tuple[LogicalPlan, PhysicalPlan]:
    """Return both plans of a statement.

    Raises:
        QueryError, ConfigError: the event time cannot be resolved (see ``resolve_watermark``).
    """
    logical = plan_logical(bound, settings)
    return logical, plan_physical(logical, settings)


def plan_logical(bound: BoundQuery, settings: Settings) -> LogicalPlan:
    """Return the chain of a statement, leaf first; what it does not ask for has no node."""
    statement = bound.statement
    assert statement.window is not None, "a statement without a window is refused before planning"
    node: LogicalNode = _rows(bound)
    if statement.where is not None:
        node = Filter(child=node, stage=FilterStage.WHERE, predicate=statement.where.sql)
    watermark = Watermark(child=node, spec=resolve_watermark(bound, settings))
    node = Aggregation(
        child=WindowNode(child=watermark, window=statement.window),
        keys=bound.keys,
        arguments=bound.arguments,
        aggregates=bound.aggregates,
    )
    if bound.having is not None:
        node = Filter(child=node, stage=FilterStage.HAVING, predicate=bound.having.sql)
    if bound.order_by:
        node = Order(child=node, items=bound.order_by)
    if bound.limit is not None:
        node = Limit(child=node, count=bound.limit)
    plan = LogicalPlan(
        root=DataSink(child=Project(child=node, items=bound.items), name="?"), query=bound
    )
    check_windows(plan)
    return plan


def plan_physical(logical: LogicalPlan, settings: Settings) -> PhysicalPlan:
    """Return how a logical plan runs, and the identity of its state."""
    window = logical.query.statement.window
    assert window is not None, "a statement without a window is refused before planning"
    root = _numbered(apply_rules(_physical(logical.root, window), settings), count())
    assert isinstance(root, PhysicalDataSink), "the root of a plan is its sink"
    plan = PhysicalPlan(
        root=root, query=logical.query, fingerprint={}, plan_id="", settings=settings
    )
    fingerprint = state_fingerprint(plan)
    identity = json.dumps(fingerprint, sort_keys=True).encode()
    return replace(plan, fingerprint=fingerprint, plan_id=sha256(identity).hexdigest()[:32])


def check_windows(plan: LogicalPlan) -> None:
    """Assert that the only child of every window is a watermark: it gives the rows their time."""
    node: LogicalNode | None = plan.root
    while node is not None:
        if isinstance(node, WindowNode):
            assert isinstance(node.child, Watermark), "a window's only child is a watermark"
        node = None if isinstance(node, DataSource) else node.child


def state_fingerprint(plan: PhysicalPlan) -> dict[str, str]:
    """Return all that shapes the state of a plan; plans that share a checkpoint have it equal.

    Lag, lateness, WHERE, HAVING, projection, ORDER BY and LIMIT are not in it, so they may change.
    """
    streaming = plan.find(PhysicalStreamingAggregation)
    kept = plan.find(PhysicalAggregation)
    if streaming is not None:
        keys = streaming.keys
        held = json.dumps(sorted(column.name for column in streaming.partial_columns))
    else:
        assert kept is not None, "every plan has an aggregation"
        keys = kept.keys
        held = "rows of " + json.dumps([argument.expression.sql for argument in kept.arguments])
    spec = plan.watermark.spec
    return {
        "format": FORMAT_VERSION,
        "window": _window_identity(plan.watermark.window),
        "emit": "on_close" if spec.emit_on_close else "at_once",
        "keys": json.dumps([key.expression.sql for key in keys]),
        "accumulators": held,
        "event_time": spec.event_time.sql or "the batch's clock",
        "mode": spec.mode.value,
    }


def _window_identity(window: Window) -> str:
    """A window's kind and parameters; 60 seconds and 1 minute are spelled alike."""
    words = [WINDOW_KINDS[type(window)]]
    unit: TimeUnit | None = getattr(window, "time_unit", None)
    for field in fields(window):
        value = getattr(window, field.name)
        if isinstance(value, TimeUnit):
            continue
        if isinstance(value, int) and unit is not None:
            value = format_duration(value * unit.micros)
        words.append(f"{field.name}={json.dumps(value)}")
    return " ".join(words)


def _rows(bound: BoundQuery) -> DataSource | Join:
    """The stream, and what FROM and WITH make of it when they do more than name it."""
    source = DataSource(relation=bound.source)
    statement = bound.statement
    relation = statement.relation.strip()
    if (
        not bound.tables
        and not statement.ctes
        and relation.strip("`").lower() == bound.source.name.lower()
    ):
        return source
    return Join(child=source, ctes=statement.ctes, relation=relation, tables=bound.tables)


def _physical(node: LogicalNode, window: Window) -> PhysicalNode:  # noqa: C901, PLR0911 - one case for each node
    """The node's counterpart before rules and numbers; every aggregation is over rows."""
    if isinstance(node, DataSource):
        return PhysicalDataSource(index=0, children=(), relation=node.relation)
    children = (_physical(node.child, window),)
    match node:
        case Join(ctes=ctes, relation=relation, tables=tables):
            return PhysicalJoin(
                index=0, children=children, ctes=ctes, relation=relation, tables=tables
            )
        case Filter(stage=stage, predicate=predicate):
            return PhysicalFilter(index=0, children=children, stage=stage, predicate=predicate)
        case Watermark(spec=spec):
            return PhysicalWatermark(index=0, children=children, spec=spec, window=window)
        case WindowNode():
            return PHYSICAL_WINDOWS[type(window)](index=0, children=children, window=window)  # type: ignore[call-arg]
        case Aggregation(keys=keys, arguments=arguments, aggregates=aggregates):
            return PhysicalAggregation(
                index=0,
                children=children,
                keys=keys,
                arguments=arguments,
                aggregates=aggregates,
                reason="no rule has looked at it",
            )
        case Order(items=items):
            return PhysicalOrder(index=0, children=children, items=items)
        case Limit(count=limit):
            return PhysicalLimit(index=0, children=children, count=limit)
        case Project(items=columns):
            return PhysicalProject(index=0, children=children, items=columns)
        case DataSink(name=name):
            return PhysicalDataSink(index=0, children=children, name=name)
        case _:
            assert_never(node)


def _numbered(node: PhysicalNode, numbers: Iterator[int]) -> PhysicalNode:
    """The tree with the index of every node: the sink is 0, then downwards."""
    index = next(numbers)
    return replace(
        node, index=index, children=tuple(_numbered(child, numbers) for child in node.children)
    )
