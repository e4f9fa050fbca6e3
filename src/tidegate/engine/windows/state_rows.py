"""The two shapes of state: partials (accumulators per group) and rows kept whole.

A *placed* row has a fate and, if it is accumulated, the columns that place it in the state
(``_pane``) and its keys. ``Partials`` aggregates placed rows in job 1; ``WholeRows`` keeps them and
aggregates at the close. Both have the same interface, so an operator need not know which it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tidegate.engine.rows.fates import (
    BatchStart,
    Fate,
    classify,
    classify_sql,
    fate_sql,
    judged_sql,
    shard_hash_sql,
)
from tidegate.engine.windows.panes.grid import PaneGrid
from tidegate.plan.aggregates.planned import row_aggregate
from tidegate.plan.columns import (
    AFTER,
    END,
    FALLBACKS,
    FATE,
    FIRST_PLACE,
    LAST_PLACE,
    ORDER,
    OWN_TIME,
    PANE,
    PLACE,
    ROWS,
    SEEN_TIME,
    SHARD_HASH,
    SPLIT_PLACE,
    START,
    TIME,
)
from tidegate.spark.statements import over, selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.stages import IngestPartials, IngestRows

KEPT = f"{FATE} = {Fate.ACCUMULATED.value}"


def shard_of_row(start: BatchStart) -> list[str]:
    """What a placed row has, as Spark SQL over a prepared row, where rows tell their shards."""
    return [f"{shard_hash_sql()} AS {SHARD_HASH}"] if start.tells_shards else []


def row_numbers(plan: PhysicalPlan) -> dict[str, str]:
    """What a row adds to the counts of a batch: name to Spark SQL over a placed row.

    ``_seen_t`` is the row's own event time, which moves the watermark.
    """
    numbers = {ROWS: "1", SEEN_TIME: OWN_TIME if plan.watermark.falls_back else TIME}
    return numbers | (
        {FALLBACKS: f"IF({OWN_TIME} IS NULL, 1, 0)"} if plan.watermark.falls_back else {}
    )


def group_numbers(plan: PhysicalPlan, start: BatchStart) -> dict[str, str]:
    """``row_numbers`` for a group of rows: name to aggregate."""
    numbers = row_numbers(plan)
    groups = {ROWS: "count(1)", SEEN_TIME: f"max({numbers[SEEN_TIME]})"}
    if FALLBACKS in numbers:
        groups[FALLBACKS] = f"sum({numbers[FALLBACKS]})"
    if start.tells_shards and start.shard_of_keys is not None:
        # Rows that are not accumulated have no keys, and the hash of their shard as their pane.
        groups[SHARD_HASH] = f"IF({KEPT}, xxhash64({start.shard_of_keys}), {PANE})"
    elif start.tells_shards:
        least, greatest = f"min({SHARD_HASH})", f"max({SHARD_HASH})"
        groups[SHARD_HASH] = f"IF({least} = {greatest}, {least}, NULL)"
    return groups


class Shape(Protocol):
    """The shape of a state row."""

    @property
    def aggregated(self) -> bool:
        """Whether a state row represents many rows."""

    def place(
        self,
        rows: DataFrame,
        plan: PhysicalPlan,
        grid: PaneGrid,
        start: BatchStart,
        more: Sequence[str] = (),
    ) -> DataFrame:
        """Return a batch's state rows with ``_class`` and what ``row_numbers`` names.

        ``more`` are columns over these (Spark SQL) that may be added; see ``shard_columns``.
        """

    def kept(self, placed: DataFrame) -> DataFrame:
        """Return what the state keeps of placed rows."""

    def merge(self, state: DataFrame) -> DataFrame:
        """Return equivalent rows of the same schema, merged if possible."""

    def groups(self, windows: str, grid: PaneGrid) -> str:
        """Return the statement of one row for each window and group.

        ``windows`` is the statement of state rows with ``_end_us``.
        """

    def whole(self, windows: str, grid: PaneGrid) -> str:
        """``groups`` for state rows of which each is the only one of its window and group.

        Called only if state rows are ``aggregated``.
        """

    @property
    def keeps_after(self) -> bool:
        """Whether a state row has ``_after``: the windows up to there do not take it."""

    @property
    def late_by_pane(self) -> bool:
        """Whether ``place`` classifies late rows as accumulated; their pane shows the lateness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """A state row is a pane (or window) and group with the columns of its accumulators."""

    aggregation: IngestPartials
    keeps_after: bool = False

    @property
    def aggregated(self) -> bool:
        return True

    @property
    def late_by_pane(self) -> bool:
        return True

    def place(
        self,
        rows: DataFrame,
        plan: PhysicalPlan,
        grid: PaneGrid,
        start: BatchStart,
        more: Sequence[str] = (),
    ) -> DataFrame:
        # Rows of other fates have no pane and no keys, so there is one partial for each fate. Late
        # rows are recognized later, by their pane, in ``Intake``. So the generated code contains
        # nothing of the batch and is compiled only once.
        boundless = replace(start, bound_us=None)
        judged = judged_sql(rows.columns, plan, boundless, fate_sql(plan, grid, boundless))
        classified = classify_sql(judged, plan, grid, start, self.aggregation)
        group = [FATE, PANE, *self.keys]
        updates = {column.name: column.update for column in self.aggregation.partial_columns}
        updates |= group_numbers(plan, start)
        if self.keeps_after and start.marks_behind:
            group.append(AFTER)
        elif self.keeps_after:
            updates[AFTER] = "CAST(NULL AS BIGINT)"
        if start.tells_places:
            updates |= _places(plan, grid)
        by = ", ".join(group)
        placed = f"SELECT {by}, {_columns(updates)} FROM ({classified}) GROUP BY {by}"
        return over(rows, f"SELECT *, {', '.join(more)} FROM ({placed})" if more else placed)

    def kept(self, placed: DataFrame) -> DataFrame:
        columns = [column.name for column in self.aggregation.partial_columns]
        if FIRST_PLACE in placed.columns:
            columns += [FIRST_PLACE, LAST_PLACE, SPLIT_PLACE]
        return selected(placed.where(KEPT), *self._place, *self.keys, *columns)

    def merge(self, state: DataFrame) -> DataFrame:
        group = ", ".join([*self._place, *self.keys])
        merged = over(state, f"SELECT {group}, {self.merges()} FROM {{frame}} GROUP BY {group}")
        # Merging may widen a type (a sum of decimals); in the state a column keeps its first type.
        return merged.select(*(merged[f.name].cast(f.dataType) for f in state.schema))

    def groups(self, windows: str, grid: PaneGrid) -> str:
        group = ", ".join([END, *self.keys])
        merged = f"SELECT {group}, {self.merges()} FROM ({windows}) GROUP BY {group}"
        return f"SELECT *, {grid.start_of_end_sql(END)} AS {START} FROM ({merged})"

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]

    @property
    def _place(self) -> list[str]:
        return [PANE, *([AFTER] if self.keeps_after else [])]

    def whole(self, windows: str, grid: PaneGrid) -> str:
        columns = [column.name for column in self.aggregation.partial_columns]
        values = ", ".join([END, *self.keys, *(columns or [f"1L AS {ROWS}"])])
        return f"SELECT {values}, {grid.start_of_end_sql(END)} AS {START} FROM ({windows})"

    def merges(self) -> str:
        """The merge of every state column; just a count if there are no accumulators."""
        columns = {column.name: column.merge for column in self.aggregation.partial_columns}
        return _columns(columns or {ROWS: "count(1)"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRows:
    """A state row is a row: its time and order, its keys, and the values that the query needs."""

    aggregation: IngestRows
    keeps_after: bool = False

    @property
    def aggregated(self) -> bool:
        return False

    @property
    def late_by_pane(self) -> bool:
        return False

    def place(
        self,
        rows: DataFrame,
        plan: PhysicalPlan,
        grid: PaneGrid,
        start: BatchStart,
        more: Sequence[str] = (),
    ) -> DataFrame:
        classified = classify(rows, plan, grid, start, self.aggregation)
        numbers = row_numbers(plan)
        if self.keeps_after and not start.marks_behind:
            numbers[AFTER] = "CAST(NULL AS BIGINT)"
        return classified.selectExpr("*", *(f"{sql} AS {name}" for name, sql in numbers.items()))

    def kept(self, placed: DataFrame) -> DataFrame:
        arguments = (argument.name for argument in self.aggregation.arguments)
        after = [AFTER] if self.keeps_after else []
        return placed.where(KEPT).selectExpr(PANE, *after, TIME, ORDER, *self.keys, *arguments)

    def merge(self, state: DataFrame) -> DataFrame:
        return state

    def groups(self, windows: str, grid: PaneGrid) -> str:
        whole = whole_groups(windows, self.aggregation, [END])
        return f"SELECT *, {grid.start_of_end_sql(END)} AS {START} FROM ({whole})"

    def whole(self, windows: str, grid: PaneGrid) -> str:
        return self.groups(windows, grid)

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.aggregation.keys]


def whole_groups(rows: str, aggregation: IngestRows, windows: list[str]) -> str:
    """Return the statement of the groups of whole rows.

    Aggregates are Spark's own. A query without aggregates returns the rows as they are, those of
    a window together and ordered by event time, then arrival.

    Args:
        rows: the statement of state rows with the columns that identify a window.
        aggregation: keys and aggregates.
        windows: the columns that identify a window, its end first.
    """
    keys = [key.name for key in aggregation.keys]
    if not keys and not aggregation.aggregates:
        window = ", ".join(windows)
        return f"SELECT * FROM ({rows}) DISTRIBUTE BY {window} SORT BY {window}, {ORDER}"
    group = ", ".join([*windows, *keys])
    values = {a.name: row_aggregate(a) for a in aggregation.aggregates}
    return (
        f"SELECT {group}, {_columns(values or {ROWS: 'count(1)'})} FROM ({rows}) GROUP BY {group}"
    )


def _places(plan: PhysicalPlan, grid: PaneGrid) -> dict[str, str]:
    """The places of the rows of a partial: name to aggregate."""
    split_us = plan.watermark.slack_us % grid.pane_us
    late_in_pane = f"pmod({TIME} - {grid.offset_us}L, {grid.pane_us}L) >= {split_us}L"
    return {
        FIRST_PLACE: f"min({PLACE})",
        LAST_PLACE: f"max({PLACE})",
        SPLIT_PLACE: f"min(IF({late_in_pane}, {PLACE}, NULL))",
    }


def _columns(expressions: dict[str, str]) -> str:
    return ", ".join(f"{sql} AS {name}" for name, sql in expressions.items())
