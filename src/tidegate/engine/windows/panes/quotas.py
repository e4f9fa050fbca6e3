"""Quotas of windows on a grid: the rows that a window has no room for, and what a close hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.rows.fates import Fate, after_sql, fate_sql, judge
from tidegate.engine.rows.quotas import COUNTED, PARTIAL, PLACE, hidden_groups
from tidegate.plan.columns import AFTER, END, EVICTED, FATE, ORDER, PANE, TIME
from tidegate.spark.statements import by_reference, over_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from tidegate.engine.state_io import StateIO
    from tidegate.engine.windows.operator import Arrival
    from tidegate.engine.windows.panes.operator import PaneOperator
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.state.manifest import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneQuotas:
    """Quotas of windows on a grid. See ``LimitedWindows``."""

    operator: PaneOperator

    @property
    def overlap(self) -> bool:
        return not self.operator.grid.single

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.operator.plan.ingest.keys]

    @property
    def key_types(self) -> tuple[StructField, ...]:
        return tuple(self.operator.state_schema[name] for name in self.keys)

    def evictions(self, numbered: DataFrame, arrival: Arrival, io: StateIO | None) -> DataFrame:
        operator, start = self.operator, arrival.start
        plan, grid = operator.plan, operator.grid
        bound_us = start.bound_us
        named = "".join(f", {key}" for key in self.keys)
        judged = judge(numbered, plan, start, fate_sql(plan, grid, start))
        whole = "true"
        if bound_us is not None and not grid.single:
            whole = f"{PANE} >= {by_reference(grid.first_whole(bound_us), PANE)}"
        good = f"{FATE} = {Fate.ACCUMULATED.value}"
        placed, after = f"{PLACE}{named}, {grid.pane_sql(TIME)} AS {PANE}", ""
        if operator.shape.keeps_after:
            after = f", {AFTER}"
            closed = after_sql(grid) if start.marks_behind else "CAST(NULL AS BIGINT)"
            placed += f", {closed} AS {AFTER}"
            whole = f"{AFTER} IS NULL"
        rows = f"SELECT {placed} FROM {{rows}} WHERE {good}"
        windows = operator.due_windows(f"({rows})", bound_us, None)
        members = f"SELECT *, {whole} AS _whole FROM ({windows})"
        frames = {"rows": judged}
        live = [s for s in arrival.tables.windows if operator.is_live(s, bound_us)]
        known = f"SELECT {END}{named}, 0L AS _n FROM ({members}) WHERE false"
        if live:
            assert io is not None, "rows of the state are somewhere"
            frames["state"] = io.read(live)
            by = f"{PANE}{after}{named}"
            counted = f"SELECT {by}, count(1) AS _n FROM {{state}} GROUP BY {by}"
            windows = operator.due_windows(f"({counted})", bound_us, None)
            known = f"SELECT {END}{named}, sum(_n) AS _n FROM ({windows}) GROUP BY {END}{named}"
            hidden = self.hidden(arrival.tables, bound_us, io)
            if hidden is not None:
                frames["hidden"] = hidden
                known = self.without(known, "{hidden}")
        return over_all(frames, _evictions(members, known, self.keys, plan))

    def hidden(self, tables: Tables, after_us: int | None, io: StateIO) -> DataFrame | None:
        """Return the groups that a quota keeps out of windows which end after a bound, or None."""
        found = [s for s in tables.quotas if after_us is None or s.last_us > after_us]
        return hidden_groups(found, self.key_types, io) if found else None

    def without(self, windows: str, hidden: str) -> str:
        """Return the statement of rows of windows without those of hidden groups."""
        same = (f"w.{name} <=> h.{name}" for name in (END, *self.keys))
        return (
            f"SELECT w.* FROM ({windows}) AS w LEFT ANTI JOIN {hidden} AS h ON {' AND '.join(same)}"
        )

    def within(self, windows: str) -> str:
        """Return the statement of the rows of windows that are within ``max_rows_per_group``.

        If no row is in several windows, the state has no others.
        """
        max_rows = self.operator.plan.max_rows
        if max_rows is None or not self.overlap:
            return windows
        group = ", ".join([END, *self.keys])
        nth = f"row_number() OVER (PARTITION BY {group} ORDER BY {ORDER}.b, {ORDER}.i)"
        numbered = f"SELECT *, {nth} AS _nth FROM ({windows})"
        return f"SELECT * EXCEPT (_nth) FROM ({numbered}) WHERE _nth <= {max_rows}"


def _evictions(members: str, known: str, keys: Sequence[str], plan: PhysicalPlan) -> str:
    """The statement of evictions.

    Args:
        members: the statement of rows, once for each of their open windows: ``_place``,
            ``_end_us``, the keys, ``_whole`` (BOOLEAN, the row is late for none of its windows).
        known: the statement of what these windows have: ``_end_us``, the keys, ``_n`` (rows).
        keys: the columns of the keys.
        plan: says how many groups a window takes, and how many rows a group.
    """
    max_groups, max_rows = plan.max_groups, plan.max_rows
    named = "".join(f", {key}" for key in keys)
    both = (
        f"SELECT {PLACE}, {END}{named}, 0L AS _n, _whole FROM ({members}) UNION ALL "
        f"SELECT -1L, {END}{named}, _n, true FROM ({known})"
    )
    group = f"PARTITION BY {END}{named}"
    grouped = (
        f"SELECT *, min({PLACE}) OVER ({group}) AS _first, sum(_n) OVER ({group}) AS _used, "
        f"row_number() OVER ({group} ORDER BY {PLACE}) AS _nth FROM ({both})"
    )
    ranked = (
        f"SELECT *, count_if({PLACE} < 0) OVER (PARTITION BY {END}) AS _known, "
        f"dense_rank() OVER (PARTITION BY {END} ORDER BY _first) AS _rank FROM ({grouped})"
    )
    # All known groups are of one rank, before those of the batch.
    place = "_known + _rank - IF(_known > 0, 1, 0)"
    cases = ""
    if max_groups is not None:
        cases += f" WHEN _first >= 0 AND {place} > {max_groups} THEN {Fate.EVICTED_GROUP.value}"
    if max_rows is not None:
        nth = "_used + _nth - IF(_first < 0, 1, 0)"
        cases += f" WHEN {nth} > {max_rows} THEN {Fate.EVICTED_ROW.value}"
    judged = f"SELECT *, CASE{cases} END AS {EVICTED} FROM ({ranked}) WHERE {PLACE} >= 0"
    row = f"PARTITION BY {PLACE}"
    told = (
        f"SELECT *, count({EVICTED}) OVER ({row}) < count(1) OVER ({row}) AS {PARTIAL}, "
        f"min(IF({EVICTED} IS NULL, NULL, {END})) OVER ({row}) = {END} AS _leads FROM ({judged})"
    )
    return (
        f"SELECT {PLACE}, {END}{named}, {EVICTED}, {PARTIAL}, "
        f"_leads AND {PARTIAL} AND _whole AS {COUNTED} FROM ({told}) WHERE {EVICTED} IS NOT NULL"
    )
