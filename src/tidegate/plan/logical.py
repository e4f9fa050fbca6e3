"""The logical plan: what a query does, one frozen dataclass per step, leaf first.

``DataSource -> [Join] -> [Filter (WHERE)] -> Watermark -> Window -> Aggregation
-> [Filter (HAVING)] -> [Order] -> [Limit] -> Project -> DataSink``
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar

from tidegate.plan.settings import OnIdle, TimeMode
from tidegate.plan.statement import (
    Aggregate,
    Argument,
    BoundQuery,
    From,
    Key,
    OrderItem,
    OutputItem,
    Relation,
)
from tidegate.plan.upstream import Follows
from tidegate.plan.windows import Window


class Authority(Enum):
    """Where a value comes from: the statement, a setting, the source's metadata, or the default."""

    SQL = "sql"
    SETTING = "setting"
    METADATA = "metadata"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Where the time of a row comes from.

    ``sql`` is a BIGINT expression over the source's columns: microseconds since 1970, NULL if the
    row has no event time; it is ``None`` in processing time. ``fallback_sql`` is the time of the
    source's metadata for rows without one (only with ``null_event_time = "fallback"``, if there is
    one). ``why`` is one sentence for EXPLAIN. Processing time that nobody asked for
    (``Authority.DEFAULT``) causes one warning.
    """

    sql: str | None
    text: str
    authority: Authority
    why: str
    fallback_sql: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkSpec:
    """All that decides the time of a row, the watermark, and which rows are late.

    ``shard`` is an expression (Spark SQL over FROM): each of its values has a watermark of its own.
    It is None in processing time, where the clock is the watermark of all rows. ``shard_of_keys``
    is the same over the group keys, if it follows from them. ``follows`` says from what the
    watermark follows if the rows are the results of another transform.
    """

    mode: TimeMode
    event_time: EventTime
    lag_us: int
    lag_authority: Authority
    lateness_us: int
    lateness_authority: Authority
    shard: str | None
    shard_authority: Authority
    shard_expiry_us: int | None
    idle_timeout_us: int | None
    on_idle: OnIdle
    null_event_time_fallback: bool
    max_future_skew_us: int
    emit_on_close: bool
    by_record: bool = False
    follows: Follows | None = None
    shard_of_keys: str | None = None

    @property
    def slack_us(self) -> int:
        """How far a row may be behind the greatest event time before a window closes for it."""
        return self.lag_us + self.lateness_us

    @property
    def falls_back(self) -> bool:
        """Whether a row without an event time takes another; there is then a column ``_own_t``."""
        return self.event_time.sql is not None and self.null_event_time_fallback


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """The rows of a stream."""

    relation: Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The result of FROM and WITH: the stream with joined tables or computed columns."""

    child: DataSource
    from_clause: From
    tables: tuple[Relation, ...]


class FilterStage(Enum):
    """Which clause a filter is."""

    WHERE = "where"
    HAVING = "having"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Rows (WHERE) or closed windows (HAVING) for which ``predicate`` is true."""

    child: LogicalNode
    stage: FilterStage
    predicate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Gives each row its time and advances the watermark, by the rows that WHERE removes, too."""

    child: LogicalNode
    spec: WatermarkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowNode:
    """Assigns rows to windows. Its only child is a Watermark.

    Provisional results of open windows go out each time that ``early_us`` of the clock has passed;
    None: there are none.
    """

    child: Watermark
    window: Window
    early_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """One row for each window and group; without keys and aggregates, the rows of the window."""

    child: WindowNode
    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Order within a window."""

    child: LogicalNode
    items: tuple[OrderItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The first ``count`` rows of each window."""

    child: LogicalNode
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The columns of the result."""

    child: LogicalNode
    items: tuple[OutputItem, ...]


# The sink of a query that is not started and has no sink configured.
UNNAMED = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSink:
    """Where results go."""

    child: LogicalNode
    name: str


LogicalNode: TypeAlias = (
    DataSource
    | Join
    | Filter
    | Watermark
    | WindowNode
    | Aggregation
    | Order
    | Limit
    | Project
    | DataSink
)

Node = TypeVar("Node", bound=LogicalNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalPlan:
    """The root of the tree and the query it was made from."""

    root: DataSink
    query: BoundQuery

    def nodes(self) -> tuple[LogicalNode, ...]:
        """All nodes, the sink first."""
        found: list[LogicalNode] = [self.root]
        while not isinstance(node := found[-1], DataSource):
            found.append(node.child)
        return tuple(found)

    def find(self, kind: type[Node]) -> Node | None:
        """The first node of a class, or None."""
        return next((node for node in self.nodes() if isinstance(node, kind)), None)

    def get(self, kind: type[Node]) -> Node:
        """The node of a class that every plan has."""
        node = self.find(kind)
        assert node is not None, f"every plan has a node {kind.__name__}"
        return node
