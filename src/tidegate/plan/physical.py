"""The physical plan: how a query runs. Running and explaining read these same nodes.

Every node has an ``index`` (its place in the tree, the sink is 0), its ``children``, and a plan
type (its class name). One class a window kind; ``PhysicalStreamingAggregation`` takes the place of
window and aggregation when every aggregate has an accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tidegate.plan.aggregates.planned import PartialColumn, PlannedAccumulator
from tidegate.plan.guarded import Guarded
from tidegate.plan.logical import FilterStage, WatermarkSpec
from tidegate.plan.settings import Settings
from tidegate.plan.statement import (
    Aggregate,
    Argument,
    BoundQuery,
    Key,
    OrderItem,
    OutputItem,
    Relation,
)
from tidegate.plan.windows import (
    Count,
    Cumulate,
    Hopping,
    Session,
    Sliding,
    State,
    Tumbling,
    Window,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalNode:
    """A node of the physical tree."""

    index: int
    children: tuple[PhysicalNode, ...]

    @property
    def plan_type(self) -> str:
        """The kind of node, as EXPLAIN prints it."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalDataSource(PhysicalNode):
    relation: Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalJoin(PhysicalNode):
    ctes: str
    relation: str
    tables: tuple[Relation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalFilter(PhysicalNode):
    stage: FilterStage
    predicate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalWatermark(PhysicalNode):
    spec: WatermarkSpec
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalTumblingWindow(PhysicalNode):
    window: Tumbling


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalHoppingWindow(PhysicalNode):
    window: Hopping


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalCumulateWindow(PhysicalNode):
    window: Cumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalSessionWindow(PhysicalNode):
    window: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalSlidingWindow(PhysicalNode):
    window: Sliding


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalStateWindow(PhysicalNode):
    window: State


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalCountWindow(PhysicalNode):
    window: Count


PHYSICAL_WINDOWS: dict[type, type[PhysicalNode]] = {
    Tumbling: PhysicalTumblingWindow,
    Hopping: PhysicalHoppingWindow,
    Cumulate: PhysicalCumulateWindow,
    Session: PhysicalSessionWindow,
    Sliding: PhysicalSlidingWindow,
    State: PhysicalStateWindow,
    Count: PhysicalCountWindow,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalAggregation(PhysicalNode):
    """Rows are kept to the close and grouped there; ``reason`` says why (one sentence)."""

    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    aggregates: tuple[Aggregate, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalStreamingAggregation(PhysicalNode):
    """Rows become partials in the batch that brings them; ``reason`` says why (one sentence)."""

    window: Window
    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    accumulators: tuple[PlannedAccumulator, ...]
    reason: str

    @property
    def partial_columns(self) -> tuple[PartialColumn, ...]:
        """The distinct state columns of all accumulators, in order of their first use."""
        columns = {column.name: column for a in self.accumulators for column in a.columns}
        return tuple(columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalOrder(PhysicalNode):
    items: tuple[OrderItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalLimit(PhysicalNode):
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalProject(PhysicalNode):
    items: tuple[OutputItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalDataSink(PhysicalNode):
    name: str


Node = TypeVar("Node", bound=PhysicalNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalPlan:
    """The tree, the query, and the identity of its state.

    ``fingerprint`` maps each thing that shapes state to its text (window, keys, accumulators, event
    time, format version); ``plan_id`` is its hash (32 hex digits). ``settings`` are those it was
    planned with. ``guards`` are the prepared columns whose expressions can fail on a row;
    ``result_guards`` are, by their text, the expressions over closed windows that can fail, as far
    as types are known before Spark is asked. ``safe_from`` are the WITH and FROM clauses so that
    nothing in them raises; None: as written. All are added to a plan that is to run or be shown.
    """

    root: PhysicalDataSink
    query: BoundQuery
    fingerprint: dict[str, str]
    plan_id: str
    settings: Settings = field(default_factory=Settings)
    guards: Mapping[str, Guarded] = field(default_factory=dict)
    result_guards: Mapping[str, Guarded] = field(default_factory=dict)
    safe_from: tuple[str, str] | None = None

    def nodes(self) -> tuple[PhysicalNode, ...]:
        """All nodes, the sink first."""
        found: list[PhysicalNode] = []
        waiting: list[PhysicalNode] = [self.root]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting.extend(reversed(node.children))
        return tuple(found)

    def find(self, kind: type[Node]) -> Node | None:
        """The first node of a class, or None."""
        return next((node for node in self.nodes() if isinstance(node, kind)), None)

    @property
    def watermark(self) -> PhysicalWatermark:
        """The one watermark node that every plan has."""
        node = self.find(PhysicalWatermark)
        assert node is not None, "every plan has a watermark"
        return node
