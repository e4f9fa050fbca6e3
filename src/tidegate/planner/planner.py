"""From a bound statement to its plans: ``BoundQuery -> LogicalPlan -> PhysicalPlan``.

The logical plan is a chain of nodes, one for each clause; the physical plan is the stages that run
it, after the rules of ``rules.py``.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.plan.logical import (
    UNNAMED,
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
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.prepared import prepared_columns
from tidegate.plan.settings import Settings
from tidegate.plan.stages import Close, Finish, IngestRows, Prepare, SideOutput
from tidegate.plan.statement import Argument, BoundQuery, Key
from tidegate.planner.event_time import resolve_watermark
from tidegate.planner.identity import plan_id, state_fingerprint
from tidegate.planner.lateness import check_lateness
from tidegate.planner.quotas import check_quotas
from tidegate.planner.rules import Types, apply_rules


def plan_logical(bound: BoundQuery, settings: Settings) -> LogicalPlan:
    """Return the chain of a statement, leaf first; absent clauses have no node.

    Raises:
        QueryError, ConfigError: the event time cannot be resolved (see ``resolve_watermark``).
    """
    statement = bound.statement
    assert statement.window is not None, "a statement without a window is refused before planning"
    node: LogicalNode = _rows(bound)
    if statement.where is not None:
        node = Filter(child=node, stage=FilterStage.WHERE, predicate=statement.where.sql)
    watermark = Watermark(child=node, spec=resolve_watermark(bound, settings))
    check_lateness(watermark.spec, statement.window, settings)
    node = Aggregation(
        child=WindowNode(
            child=watermark,
            window=statement.window,
            early_us=None if statement.early is None else statement.early.every_us,
        ),
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
        root=DataSink(child=Project(child=node, items=bound.items), name=UNNAMED), query=bound
    )
    check_windows(plan)
    return plan


def plan_physical(
    logical: LogicalPlan, settings: Settings, types: Types | None = None
) -> PhysicalPlan:
    """Return the physical plan of a logical plan, with the identity of its state.

    Args:
        logical: the logical plan.
        settings: the settings it was planned with.
        types: types of the columns of FROM by name, if Spark was asked for them.
    """
    plan = apply_rules(_stages(logical, settings), types or {})
    check_quotas(plan)
    fingerprint = state_fingerprint(plan)
    return replace(plan, fingerprint=fingerprint, plan_id=plan_id(fingerprint))


def check_windows(plan: LogicalPlan) -> None:
    """Assert that the only child of every window is a watermark, which gives rows their time."""
    node: LogicalNode | None = plan.root
    while node is not None:
        if isinstance(node, WindowNode):
            assert isinstance(node.child, Watermark), "a window's only child is a watermark"
        node = None if isinstance(node, DataSource) else node.child


def _rows(bound: BoundQuery) -> DataSource | Join:
    """The stream, with a Join if FROM and WITH do more than name it."""
    source = DataSource(relation=bound.source)
    written = bound.statement.from_clause
    if written.is_only(bound.source.name) and not bound.tables:
        return source
    return Join(child=source, from_clause=written, tables=bound.tables)


def _alone(text: str | None) -> str | None:
    """The expression of a setting, ended so that a comment in it cannot swallow what follows."""
    return None if text is None else text.strip() + ("\n" if "--" in text else "")


def _stages(logical: LogicalPlan, settings: Settings) -> PhysicalPlan:
    """The stages of a logical plan before any rule: rows are stored whole, nothing is guarded."""
    query = logical.query
    filters = {node.stage: node.predicate for node in logical.nodes() if isinstance(node, Filter)}
    spec, node = logical.get(Watermark).spec, logical.get(WindowNode)
    window = node.window
    aggregation, order = logical.get(Aggregation), logical.find(Order)
    limit = logical.find(Limit)
    values: tuple[Key | Argument, ...] = (*aggregation.keys, *aggregation.arguments)
    return PhysicalPlan(
        prepare=Prepare(
            source=logical.get(DataSource).relation,
            tables=query.tables,
            from_clause=query.statement.from_clause,
            joined=query.joined,
            original_row=query.original_row,
            hint=query.statement.hint,
            watermark=spec,
            columns=prepared_columns(
                spec,
                filters.get(FilterStage.WHERE),
                values,
                window,
                dedup_key=_alone(settings.dedup_key),
            ),
        ),
        ingest=IngestRows(
            keys=aggregation.keys,
            arguments=aggregation.arguments,
            aggregates=aggregation.aggregates,
            reason="no rule has been applied yet",
        ),
        close=Close(window=window, early_us=node.early_us),
        finish=Finish(
            having=query.having,
            order_by=order.items if order is not None else (),
            limit=limit.count if limit is not None else None,
            items=logical.get(Project).items,
            result_key=query.result_key,
        ),
        side_output=SideOutput(
            error_policy=settings.error_policy,
            group_key=tuple((key.expression.sql, key.name) for key in aggregation.keys),
        ),
        settings=settings,
        origin=query.statement.origin,
        fingerprint={},
        plan_id="",
    )
