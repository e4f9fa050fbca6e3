"""The stages of a physical plan: what happens to the rows of a batch, in this order.

``Prepare -> Ingest -> Close -> Finish``, and ``SideOutput`` for rows that these cannot use. Each
stage is data, and all that the engine's module for it knows about the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.plan.aggregates.planned import PartialColumn, PlannedAccumulator, has_merge
from tidegate.plan.columns import PASS
from tidegate.plan.guarded import Guarded
from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.side_output import Route, route_of
from tidegate.plan.statement import (
    Aggregate,
    Argument,
    Expression,
    From,
    Key,
    OrderItem,
    OutputItem,
    Relation,
)
from tidegate.plan.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Computes the few columns that the query needs (``engine/rows/prepare.py``).

    Attributes:
        source: the stream.
        tables: the static tables joined to it.
        from_clause: FROM and WITH, as written.
        safe_from: the same, guarded so that nothing raises; None if nothing can.
        joined: the names in FROM of the tables joined to the stream.
        original_row: the SQL for all columns of the stream's row in FROM (``s.*``).
        hint: the hint of SELECT, with its ``/*+ */``, or ''.
        watermark: where a row's time comes from, and what moves the watermark.
        columns: the prepared columns that are expressions over FROM, by name (see
            ``plan/prepared.py``).
        guards: guards of those columns that can fail on a row.
    """

    source: Relation
    tables: tuple[Relation, ...]
    from_clause: From
    safe_from: From | None = None
    joined: tuple[str, ...]
    original_row: str
    hint: str
    watermark: WatermarkSpec
    columns: Mapping[str, str]
    guards: Mapping[str, Guarded] = field(default_factory=dict)

    @property
    def where(self) -> str | None:
        """The WHERE clause, None if there is none."""
        return self.columns.get(PASS)

    @property
    def tells_malformed(self) -> bool:
        """Whether FROM has the column ``MALFORMED``; a query in it does not hand it on."""
        return self.source.malformed and not self.from_clause.has_queries

    @property
    def has_hidden(self) -> bool:
        """Whether rows of the source have hidden columns."""
        return self.source.malformed or self.source.united or self.source.upstream is not None

    @property
    def derives(self) -> bool:
        """Whether FROM does more than name the stream."""
        return bool(self.tables) or not self.from_clause.is_only(self.source.name)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The stream, then the tables."""
        return (self.source, *self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRows:
    """Stores whole rows, which are grouped when their window closes; ``reason`` says why.

    ``arguments`` are the values stored of a row.
    """

    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    aggregates: tuple[Aggregate, ...]
    reason: str

    @property
    def needs_order(self) -> bool:
        """Whether a state row has ``_order``."""
        return True

    @property
    def is_row_query(self) -> bool:
        """Whether rows come out as they are, not grouped."""
        return not self.keys and not self.aggregates


# Aggregates that keep every value.
COLLECTING = ("collect_list", "collect_set")


def keeps_values(rows: IngestRows) -> bool:
    """Whether an aggregate needs all the values of a group: it collects them, or has no merge."""
    return any(
        each.function in COLLECTING or not has_merge(each, rows.arguments)
        for each in rows.aggregates
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPartials:
    """Aggregates rows to partials in their own batch; ``reason`` says why."""

    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    accumulators: tuple[PlannedAccumulator, ...]
    reason: str

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(planned.aggregate for planned in self.accumulators)

    @property
    def partial_columns(self) -> tuple[PartialColumn, ...]:
        """The distinct state columns of all accumulators, in order of their first use."""
        columns = {column.name: column for a in self.accumulators for column in a.columns}
        return tuple(columns.values())

    @property
    def needs_order(self) -> bool:
        """Whether a partial depends on the order of its rows."""
        return any(column.needs_order for column in self.partial_columns)


# The two kinds of state rows.
Ingest: TypeAlias = IngestPartials | IngestRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Closes windows that are due; the kind of window determines the operator.

    ``early_us`` is how much of the clock passes between provisional results of open windows; None:
    there are none.
    """

    window: Window
    early_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Computes result rows from the groups of closed windows (``engine/rows/finish.py``).

    Expressions use the names of a closed window (see ``BoundQuery``). ``guards`` has a guard for
    the text of each that can fail, as far as the types of its names are known. ``result_key`` are
    the columns by which a sink replaces a provisional result; none without EMIT EARLY.
    ``record_keys`` are keys of a result's record that sinks ask for, by their text.
    """

    having: Expression | None
    order_by: tuple[OrderItem, ...]
    limit: int | None
    items: tuple[OutputItem, ...]
    guards: Mapping[str, Guarded] = field(default_factory=dict)
    result_key: tuple[str, ...] = ()
    record_keys: tuple[tuple[str, Expression], ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions over a closed window."""
        having = () if self.having is None else (self.having,)
        return (*self.values, *having)

    @property
    def values(self) -> tuple[Expression, ...]:
        """Those of the select list, ORDER BY and the keys of records."""
        ordered = (item.expression for item in self.order_by)
        keys = (key for _, key in self.record_keys)
        return (*(item.expression for item in self.items), *ordered, *keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutput:
    """What happens to rows and results that could not be used.

    Attributes:
        error_policy: what becomes of rows and results that fail.
        group_key: for each key, its text in the statement and its column.
        routes: where each kind of them goes; none are known before the start in Python.
    """

    error_policy: ErrorPolicy
    group_key: tuple[tuple[str, str], ...]
    routes: tuple[Route, ...] = ()

    @property
    def reinjects(self) -> bool:
        """Whether rows of some kind go back to their input."""
        return any(route.reinjects for route in self.routes)

    def route(self, kind: str) -> Route:
        """Return where the rows of a kind go."""
        return route_of(self.routes, kind)
