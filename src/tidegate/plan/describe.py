"""What EXPLAIN says about each node of both trees, as data that text and JSON are made from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias, assert_never

from tidegate.plan.accumulators import PlannedAccumulator
from tidegate.plan.logical import (
    Aggregation,
    Authority,
    DataSink,
    DataSource,
    Filter,
    Join,
    Limit,
    LogicalNode,
    Order,
    Project,
    Watermark,
    WatermarkSpec,
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
    PhysicalProject,
    PhysicalStreamingAggregation,
    PhysicalWatermark,
)
from tidegate.plan.settings import TimeMode
from tidegate.plan.statement import Argument, Key, OrderItem, OutputItem, Relation
from tidegate.plan.windows import (
    WINDOW_KINDS,
    Count,
    Cumulate,
    Hopping,
    Session,
    Sliding,
    State,
    Tumbling,
    Window,
)
from tidegate.time import TimeUnit, format_duration

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One fact about a node: its label, its value for JSON, and its lines for text."""

    label: str
    value: Json
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A node as EXPLAIN shows it: ``PhysicalWatermark#4 (parameters)``, then one fact a line."""

    id: str
    parameters: dict[str, Json]
    details: tuple[Detail, ...]
    child: Described | None


def describe_logical(node: LogicalNode, mode: TimeMode, index: int = 0) -> Described:
    """Return a logical node and all below it; ids count from the sink down."""
    child = None if isinstance(node, DataSource) else describe_logical(node.child, mode, index + 1)
    name = type(node).__name__.removesuffix("Node")
    parameters, details = _logical_facts(node, mode)
    return Described(id=f"{name}#{index}", parameters=parameters, details=details, child=child)


def describe_physical(node: PhysicalNode, mode: TimeMode) -> Described:
    """Return a physical node and all below it."""
    assert len(node.children) <= 1, "a plan is a chain"
    child = describe_physical(node.children[0], mode) if node.children else None
    parameters, details = _physical_facts(node, mode)
    return Described(
        id=f"{node.plan_type}#{node.index}", parameters=parameters, details=details, child=child
    )


_Facts: TypeAlias = "tuple[dict[str, Json], tuple[Detail, ...]]"


def _logical_facts(node: LogicalNode, mode: TimeMode) -> _Facts:  # noqa: C901, PLR0911 - one case for each node
    match node:
        case DataSource(relation=relation):
            return _source_facts(relation)
        case Join(ctes=ctes, relation=text, tables=tables):
            return {}, _join_details(ctes, text, tables)
        case Filter(stage=stage, predicate=predicate):
            return {"stage": stage.value}, (_fact("predicate", predicate),)
        case Watermark(spec=spec):
            return {}, watermark_details(spec)
        case WindowNode(window=window):
            return window_parameters(window, mode), ()
        case Aggregation(keys=keys, arguments=arguments, aggregates=aggregates):
            calls = [(aggregate.name, aggregate.text) for aggregate in aggregates]
            return {}, (*_grouping(keys, arguments), *_pairs("aggregates", calls))
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


def _physical_facts(node: PhysicalNode, mode: TimeMode) -> _Facts:  # noqa: C901, PLR0911 - one case for each node
    match node:
        case PhysicalDataSource(relation=relation):
            return _source_facts(relation)
        case PhysicalJoin(ctes=ctes, relation=text, tables=tables):
            return {}, _join_details(ctes, text, tables)
        case PhysicalFilter(stage=stage, predicate=predicate):
            return {"stage": stage.value}, (_fact("predicate", predicate),)
        case PhysicalWatermark(spec=spec, window=window):
            closes = _fact("closes", closing(window, spec))
            return window_parameters(window, mode), (*watermark_details(spec), closes)
        case PhysicalAggregation(
            keys=keys, arguments=arguments, aggregates=aggregates, reason=reason
        ):
            calls = [(aggregate.name, aggregate.text) for aggregate in aggregates]
            details = (*_grouping(keys, arguments), *_pairs("aggregates", calls))
            return {}, (_fact("path", f"rows kept to the close: {reason}"), *details)
        case PhysicalStreamingAggregation(
            window=window, keys=keys, arguments=arguments, reason=reason
        ):
            details = (*_grouping(keys, arguments), *_accumulators(node.accumulators))
            path = _fact("path", f"streaming aggregation: {reason}")
            return window_parameters(window, mode), (path, *details)
        case PhysicalOrder(items=items):
            return {}, (_order(items),)
        case PhysicalLimit(count=count):
            return {"count": count}, ()
        case PhysicalProject(items=columns):
            return {}, _output(columns)
        case PhysicalDataSink(name=name):
            return {"name": name}, ()
        case _:
            assert isinstance(node, tuple(PHYSICAL_WINDOWS.values())), (
                f"{node.plan_type} is not described"
            )
            window = getattr(node, "window")  # noqa: B009 - the classes share the field, not a base
            return window_parameters(window, mode), ()


def window_parameters(window: Window, mode: TimeMode) -> dict[str, Json]:
    """Return a window's kind, every parameter as the user wrote it, and the time mode."""
    words: dict[str, Json] = {"kind": WINDOW_KINDS[type(window)]}
    for field in fields(window):
        value = getattr(window, field.name)
        if isinstance(value, TimeUnit):
            words["unit"] = value.value
        else:
            words[field.name] = list(value) if isinstance(value, tuple) else value
    words["mode"] = f"{mode.value}_time"
    return words


def closing(window: Window, spec: WatermarkSpec) -> str:
    """Return the rule that a window goes out by; ``W`` is the watermark."""
    late = f" + {format_duration(spec.lateness_us)}" if spec.lateness_us else ""
    ordered = f"; rows count in order of their time, each once W > its time{late}"
    waits = ordered if spec.mode is TimeMode.EVENT else ""
    match window:
        case Tumbling() | Hopping() | Cumulate():
            return f"when W >= the window's end{late}"
        case Session():
            return f"when W > the last row's time + {format_duration(window.gap_us)}{late}"
        case Sliding() if spec.emit_on_close:
            ahead = f" + {format_duration(window.lookahead_us)}" if window.lookahead_us else ""
            return f"when W > the row's time{ahead}{late}"
        case Sliding():
            return "at once, with the rows that have come"
        case State():
            return f"on the row where emit holds{waits}"
        case Count():
            return f"on every {window.every or window.count}. row{waits}"
        case _:
            assert_never(window)


def watermark_details(spec: WatermarkSpec) -> tuple[Detail, ...]:
    """Return the facts of a watermark, each value with the authority that decided it."""
    event_time = spec.event_time
    facts = [
        _fact("event time", f"{event_time.text}, by {_AUTHORITIES[event_time.authority]}"),
        _fact("because", event_time.why),
    ]
    if event_time.sql is None:
        facts.append(_fact("watermark", "just after the clock: no row is late"))
        return tuple(facts)
    facts.append(_fact("micros", event_time.sql))
    if event_time.fallback_sql is not None:
        facts.append(_fact("fallback", event_time.fallback_sql))
    facts += [
        _decided("lag", spec.lag_us, spec.lag_authority),
        _decided("lateness", spec.lateness_us, spec.lateness_authority),
        _fact("shard", spec.shard or "none"),
        _fact("idle", _idle(spec)),
        _fact("no time", "the batch's clock" if spec.null_event_time_fallback else "an error row"),
        _fact("max skew", format_duration(spec.max_future_skew_us)),
    ]
    return tuple(facts)


_AUTHORITIES: dict[Authority, str] = {
    Authority.SQL: "the statement",
    Authority.SETTING: "a setting",
    Authority.METADATA: "the source's metadata",
    Authority.DEFAULT: "default",
}


def _idle(spec: WatermarkSpec) -> str:
    if spec.idle_timeout_us is None:
        return "never"
    return f"after {format_duration(spec.idle_timeout_us)}; when all are idle: {spec.on_idle.value}"


def _decided(label: str, micros: int, authority: Authority) -> Detail:
    value: Json = {"micros": micros, "authority": authority.value}
    return Detail(
        label=label,
        value=value,
        lines=(f"{format_duration(micros)}, by {_AUTHORITIES[authority]}",),
    )


def _fact(label: str, text: str) -> Detail:
    return Detail(label=label, value=text, lines=tuple(text.splitlines()))


def _pairs(label: str, pairs: list[tuple[str, str]]) -> tuple[Detail, ...]:
    """A list of names with what they stand for, aligned; nothing when it is empty."""
    if not pairs:
        return ()
    width = max(len(name) for name, _ in pairs)
    return (
        Detail(
            label=label,
            value=[{"name": name, "expression": text} for name, text in pairs],
            lines=tuple(f"{name:<{width}} = {' '.join(text.split())}" for name, text in pairs),
        ),
    )


def _source_facts(relation: Relation) -> _Facts:
    columns = relation.columns
    if columns is None:
        return {"name": relation.name}, (_fact("columns", "not known yet"),)
    return {"name": relation.name}, (
        _fact("columns", ", ".join(f"{c.name} {c.type}" for c in columns)),
    )


def _join_details(ctes: str, relation: str, tables: tuple[Relation, ...]) -> tuple[Detail, ...]:
    facts = [_fact("with", ctes)] if ctes else []
    facts.append(_fact("from", relation))
    if tables:
        facts.append(_fact("tables", ", ".join(table.name for table in tables)))
    return tuple(facts)


def _grouping(keys: tuple[Key, ...], arguments: tuple[Argument, ...]) -> tuple[Detail, ...]:
    return (
        *_pairs("keys", [(key.name, key.expression.sql) for key in keys]),
        *_pairs("arguments", [(argument.name, argument.expression.sql) for argument in arguments]),
    )


def _output(items: tuple[OutputItem, ...]) -> tuple[Detail, ...]:
    return _pairs("output", [(item.name, item.expression.sql) for item in items])


def _order(items: tuple[OrderItem, ...]) -> Detail:
    return _fact(
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
