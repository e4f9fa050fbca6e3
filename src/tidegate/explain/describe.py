"""The facts that EXPLAIN shows about each node of both trees, as data for text and JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tidegate.explain.facts import (
    Detail,
    Json,
    closing,
    dedup_details,
    early_facts,
    fact,
    watermark_details,
    window_parameters,
)
from tidegate.plan.aggregates.planned import PlannedAccumulator
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
    Order,
    Project,
    Watermark,
    WindowNode,
)
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import TimeMode
from tidegate.plan.stages import IngestPartials, IngestRows
from tidegate.plan.statement import Aggregate, Argument, From, Key, OrderItem, OutputItem, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A node as EXPLAIN shows it: ``PhysicalWatermark#4 (parameters)``, then one fact per line."""

    id: str
    parameters: dict[str, Json]
    details: tuple[Detail, ...]
    child: Described | None


def describe_logical(node: LogicalNode, mode: TimeMode, index: int = 0) -> Described:
    """Return a logical node with its descendants; ids count from the sink down."""
    child = None if isinstance(node, DataSource) else describe_logical(node.child, mode, index + 1)
    name = type(node).__name__.removesuffix("Node")
    parameters, details = _logical_facts(node, mode)
    return Described(id=f"{name}#{index}", parameters=parameters, details=details, child=child)


def describe_physical(plan: PhysicalPlan) -> Described:
    """Return the stages of a plan as a chain of nodes, from the sink down."""
    described: Described | None = None
    nodes = _physical_nodes(plan)
    for index, (name, (parameters, details)) in reversed([*enumerate(nodes)]):
        described = Described(
            id=f"Physical{name}#{index}", parameters=parameters, details=details, child=described
        )
    assert described is not None, "a plan has stages"
    return described


_Facts: TypeAlias = "tuple[dict[str, Json], tuple[Detail, ...]]"


def _logical_facts(node: LogicalNode, mode: TimeMode) -> _Facts:  # noqa: C901, PLR0911 - one case for each node
    match node:
        case DataSource(relation=relation):
            return _source_facts(relation)
        case Join(from_clause=from_clause, tables=tables):
            return {}, _join_details(from_clause, tables)
        case Filter(stage=stage, predicate=predicate):
            return {"stage": stage.value}, _filter(stage, predicate)
        case Watermark(spec=spec):
            return {}, watermark_details(spec)
        case WindowNode(window=window, early_us=early_us):
            return window_parameters(window, mode), early_facts(early_us)
        case Aggregation(keys=keys, arguments=arguments, aggregates=aggregates):
            return {}, (*_grouping(keys, arguments), *_calls(aggregates))
        case Order(items=items):
            return {}, (_order(items),)
        case Limit(count=count):
            return {"count": count}, ()
        case Project(items=items):
            return {}, _output(items)
        case DataSink(name=name):
            return {"name": name}, ()
        case _:
            assert_never(node)


def _physical_nodes(plan: PhysicalPlan) -> list[tuple[str, _Facts]]:
    """Return the nodes of a plan with their facts, the sink first."""
    prepare, finish, window = plan.prepare, plan.finish, plan.close.window
    spec = prepare.watermark
    parameters = window_parameters(window, spec.mode)
    nodes: list[tuple[str, _Facts]] = [
        ("DataSink", ({"name": UNNAMED}, ())),
        ("Project", ({}, _output(finish.items))),
    ]
    if finish.limit is not None:
        nodes.append(("Limit", ({"count": finish.limit}, ())))
    if finish.order_by:
        nodes.append(("Order", ({}, (_order(finish.order_by),))))
    if finish.having is not None:
        nodes.append(_filter_node(FilterStage.HAVING, finish.having.sql))
    ingest = plan.ingest
    grouping = _grouping(ingest.keys, ingest.arguments)
    match ingest:
        case IngestPartials(accumulators=accumulators):
            path = fact("path", f"streaming aggregation: {ingest.reason}")
            details = (path, *grouping, *_accumulators(accumulators))
            nodes.append(("StreamingAggregation", (parameters, details)))
        case IngestRows(aggregates=aggregates):
            path = fact("path", f"rows kept to the close: {ingest.reason}")
            details = (path, *grouping, *_calls(aggregates))
            nodes.append(("Aggregation", ({}, details)))
            nodes.append((f"{type(window).__name__}Window", (parameters, ())))
    closes = (fact("closes", closing(window, spec)), *early_facts(plan.close.early_us))
    if plan.settings.dedup_key is not None:
        nodes.append(("Deduplication", ({}, dedup_details(plan.settings, spec))))
    nodes.append(("Watermark", (parameters, (*watermark_details(spec), *closes))))
    if prepare.where is not None:
        nodes.append(_filter_node(FilterStage.WHERE, prepare.where))
    if prepare.derives:
        nodes.append(("Join", ({}, _join_details(prepare.from_clause, prepare.tables))))
    nodes.append(("DataSource", _source_facts(prepare.source)))
    return nodes


def _filter_node(stage: FilterStage, predicate: str) -> tuple[str, _Facts]:
    return "Filter", ({"stage": stage.value}, _filter(stage, predicate))


_LINE_BREAK = re.compile(r"\s*\n\s*")


def _pairs(label: str, pairs: list[tuple[str, str]]) -> tuple[Detail, ...]:
    """Return a list of names with their meanings, aligned; nothing if it is empty."""
    if not pairs:
        return ()
    width = max(len(name) for name, _ in pairs)
    return (
        Detail(
            label=label,
            value=[{"name": name, "expression": text} for name, text in pairs],
            lines=tuple(f"{name:<{width}} = {_LINE_BREAK.sub(' ', text)}" for name, text in pairs),
        ),
    )


def _filter(stage: FilterStage, predicate: str) -> tuple[Detail, ...]:
    condition = fact("predicate", predicate)
    if stage is FilterStage.HAVING:
        return (condition,)
    return condition, fact("removes", "rows from windows; their times still move the watermark")


def _source_facts(relation: Relation) -> _Facts:
    names = relation.columns
    columns = (
        "not known yet"
        if names is None
        else ", ".join(f"{column.name} {column.type}".rstrip() for column in names)
    )
    upstream = relation.upstream
    reads = () if upstream is None else (fact("reads", f"the results of {upstream.name}"),)
    return {"name": relation.name}, (*reads, fact("columns", columns))


def _join_details(from_clause: From, tables: tuple[Relation, ...]) -> tuple[Detail, ...]:
    facts = [fact("with", from_clause.ctes)] if from_clause.ctes else []
    facts.append(fact("from", from_clause.relation.strip()))
    if tables:
        facts.append(fact("tables", ", ".join(table.name for table in tables)))
    return tuple(facts)


def _grouping(keys: tuple[Key, ...], arguments: tuple[Argument, ...]) -> tuple[Detail, ...]:
    return (
        *_pairs("keys", [(key.name, key.expression.sql) for key in keys]),
        *_pairs("arguments", [(argument.name, argument.expression.sql) for argument in arguments]),
    )


def _calls(aggregates: tuple[Aggregate, ...]) -> tuple[Detail, ...]:
    return _pairs("aggregates", [(aggregate.name, aggregate.text) for aggregate in aggregates])


def _output(items: tuple[OutputItem, ...]) -> tuple[Detail, ...]:
    return _pairs("output", [(item.name, item.expression.sql) for item in items])


def _order(items: tuple[OrderItem, ...]) -> Detail:
    return fact(
        "by",
        ", ".join(
            f"{item.expression.sql} {'DESC' if item.descending else 'ASC'} "
            f"NULLS {'FIRST' if item.nulls_first else 'LAST'}"
            for item in items
        ),
    )


def _accumulators(accumulators: tuple[PlannedAccumulator, ...]) -> tuple[Detail, ...]:
    if not accumulators:
        return ()
    value: list[Json] = []
    lines: list[str] = []
    for planned in accumulators:
        state: list[Json] = [
            {"name": c.name, "update": c.update, "merge": c.merge} for c in planned.columns
        ]
        value.append(
            {
                "name": planned.aggregate.name,
                "aggregate": planned.aggregate.text,
                "state": state,
                "evaluate": planned.evaluate,
            }
        )
        lines.append(f"{planned.aggregate.name} = {planned.aggregate.text}")
        for column in planned.columns:
            lines += [
                f"  state {column.name}",
                f"    update {column.update}",
                f"    merge {column.merge}",
            ]
        lines.append(f"  evaluate {planned.evaluate}")
    return (Detail(label="accumulators", value=value, lines=tuple(lines)),)
