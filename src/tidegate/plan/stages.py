"""The stages of a physical plan: what happens to the rows of a batch, in this order.

``Prepare -> Ingest -> Close -> Finish``, and ``SideOutput`` for what these leave out. Each stage is
data; the module of the engine that runs it reads it and nothing else of the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.plan.aggregates.planned import PartialColumn, PlannedAccumulator
from tidegate.plan.columns import PASS
from tidegate.plan.guarded import Guarded
from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import ErrorPolicy
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
    """From the columns of the sources to the few that the query needs (``engine/rows/prepare.py``).

    Attributes:
        source: the stream.
        tables: the static tables that are joined to it.
        from_clause: FROM and WITH, as the statement writes them.
        safe_from: the same so that nothing in them raises; None: as written.
        joined: the names by which FROM knows the tables that it joins to the stream.
        original_row: what stands for all columns of the stream's row in FROM (``s.*``).
        hint: the hint of SELECT, with its ``/*+ */``, or ''.
        watermark: where a row's time comes from, and what moves the watermark.
        columns: the prepared columns that are expressions over FROM, by name (see
            ``plan/prepared.py``).
        guards: those of them that can fail on a row, made safe.
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
        """The WHERE clause; None: there is none."""
        return self.columns.get(PASS)

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
    """Rows are kept whole and grouped when their window closes; ``reason`` says why (a sentence).

    ``arguments`` are the values that a row is kept with.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPartials:
    """Rows become partials in the batch that brings them; ``reason`` says why (a sentence)."""

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


# What a row of the state is.
Ingest: TypeAlias = IngestPartials | IngestRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """The windows whose rows are kept until they are due; their kind picks the operator."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """From the groups of closed windows to the rows of the result (``engine/rows/finish.py``).

    Expressions are over the names of a closed window (see ``BoundQuery``). ``guards`` are, by their
    text, those that can fail, as far as the types of their names are known.
    """

    having: Expression | None
    order_by: tuple[OrderItem, ...]
    limit: int | None
    items: tuple[OutputItem, ...]
    guards: Mapping[str, Guarded] = field(default_factory=dict)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions: of the select list, HAVING and ORDER BY."""
        having = () if self.having is None else (self.having,)
        ordered = (item.expression for item in self.order_by)
        return (*(item.expression for item in self.items), *having, *ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutput:
    """What becomes of rows and results that fail or come too late.

    ``group_key`` is how a record shows the group of its row: what the statement writes for each
    key, and its column.
    """

    error_policy: ErrorPolicy
    group_key: tuple[tuple[str, str], ...]
