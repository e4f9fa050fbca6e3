"""Sliding windows over accumulators: RANGE frames, and panes for what all windows share.

For each trigger a frame merges what is in range. Most of a long window is shared by all triggers of
a batch: from the start of the last window to the first trigger (and from the last trigger to the
end of the first window). For that part a group needs only one partial, and only the edges are read
row by row:

    windows of the batch    [-------------------------t0
                               [------------------------- t1
    what is read            row|  pane    |pane|pane| row |

So merging segments writes, besides the rows, partials for panes of three widths; a close reads the
wide panes that fit, and narrow ones for the remainder. Segments that have not been merged yet (the
merge factor limits their number) are aggregated from their rows.

A state row is either a row (see ``range_join``), with ``_width`` 0 and in ``_pane`` the start of
the narrowest pane that contains it; or a pane with its width, and then ``_t`` is its start and the
accumulator columns are filled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql.types import StructField, StructType

from tidegate.engine.tasks import are_few
from tidegate.engine.windows.sliding.panes import PaneRange, Parts, Range, widths
from tidegate.engine.windows.sliding.range_join import (
    BUCKET,
    STARTS,
    WINDOW,
    Due,
    Reach,
    Watch,
    in_windows,
    windows_due,
)
from tidegate.engine.windows.state_rows import KEPT
from tidegate.plan.aggregates.one_row import closing_bracket, of_one_row
from tidegate.plan.columns import AFTER, INSTANCE, ORDER, PANE, TIME
from tidegate.spark.statements import ROW_NUMBER, by_reference, is_one_of, over, over_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO
    from tidegate.plan.stages import IngestPartials
    from tidegate.plan.windows import Sliding
    from tidegate.state.manifest import Segment

WIDTH = "_width"
# If the edges have this many narrow panes, they are most of the state, which is then read whole.
MANY_PANES = 1000
# Columns of a frame's input: its time; the order of a trigger, NULL if the row triggers no window;
# whether it is data and not a mere trigger (distinct keys need no other column).
AT, PLACE, PRESENT = "_at", "_place", "_present"


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedRows:
    """Rows are kept for the edges of windows, partials for what lies between.

    Attributes:
        own_group: a window has one group, that of its trigger, because all keys are partition
            keys; otherwise it has a group for each key among its rows.
        all_trigger: every row has a window, because there is no WHEN.
    """

    reach: Reach
    aggregation: IngestPartials
    own_group: bool
    all_trigger: bool
    state_schema: StructType

    @property
    def aggregated(self) -> bool:
        return False

    def kept(self, placed: DataFrame) -> DataFrame:
        return placed.where(KEPT).selectExpr(
            TIME,
            f"0L AS {WIDTH}",
            f"{TIME} - pmod({TIME}, {self._narrowest}L) AS {PANE}",
            ORDER,
            STARTS,
            *self.reach.after,
            *self.by,
            *self._arguments,
        )

    def merge(self, state: DataFrame) -> DataFrame:
        rows = state.where(f"{WIDTH} = 0L")
        spread = ", ".join(f"{width}L" for width in widths(self.reach.us))
        in_panes = rows.selectExpr("*", f"explode(array({spread})) AS _of_width")
        panes = (
            in_panes.selectExpr("*", f"{TIME} - pmod({TIME}, _of_width) AS {AT}")
            .groupBy("_of_width", AT, *self.by)
            .agg(*map(functions.expr, self._updates()))
            .withColumnsRenamed({"_of_width": WIDTH, AT: TIME})
        )
        merged = rows.unionByName(panes, allowMissingColumns=True)
        return merged.select(*self.state_schema.names)

    @property
    def file_order(self) -> tuple[str, ...]:
        return (WIDTH, TIME)

    def windows(self, segments: list[Segment], due: Due, io: StateIO, watch: Watch) -> DataFrame:
        parts = Parts.of(self.reach, *due.bounds)
        shared = _meeting(segments, parts.shared)
        fresh = [segment for segment in shared if segment.level == 0]
        merged = [segment for segment in shared if segment.level > 0]
        rows = self._rows(_meeting(segments, parts.whole), parts.whole, io)
        frames, partials = {"rows": rows}, [self._partials(due, alone=are_few(segments))]
        if fresh:
            frames["between"] = self._rows(fresh, parts.shared, io)
            partials.append(self._folded("{between}", self._updates(), parts.at_us))
        if merged:
            frames["panes"] = io.read(merged)
            panes = f"SELECT * FROM {{panes}} WHERE {_of_panes(parts.panes)}"
            partials.append(self._folded(f"({panes})", self._merges(), parts.at_us))
        windows = self._windows(frames, " UNION ALL ".join(partials), due, watch)
        if not due.some_came_after:
            return windows
        first_us, last_us = self.reach.span(*due.bounds)
        rows = self._rows(segments, (Range(first_us, last_us + 1),), io)
        return self._without_later(windows, rows, due)

    def _without_later(self, windows: DataFrame, rows: DataFrame, due: Due) -> DataFrame:
        """Compute anew the windows with rows in range that came after they had closed.

        Args:
            windows: all windows that are due, such rows included.
            rows: the rows of all of them.
            due: which are due.
        """
        triggered = windows_due(rows, due, self.reach)
        later = rows.where(f"{AFTER} IS NOT NULL")
        affected = in_windows(later, triggered, self.reach, closed=True).select(INSTANCE).distinct()
        named = affected.withColumnRenamed(INSTANCE, "_affected")
        others = windows.join(named, functions.expr(f"{INSTANCE} = _affected"), "left_anti")
        again = triggered.join(named, functions.expr(f"{INSTANCE} = _affected"), "left_semi")
        group = [*WINDOW, *(key.name for key in self.aggregation.keys)]
        columns = [*group, *(self._updates() or [f"1 AS {PRESENT}"])]
        anew = over(
            in_windows(rows, again, self.reach),
            f"SELECT {', '.join(columns)} FROM {{frame}} GROUP BY {', '.join(group)}",
        )
        return others.unionByName(anew, allowMissingColumns=True)

    def windows_of(self, rows: DataFrame, due: Due, watch: Watch) -> DataFrame:
        return self._windows({"rows": rows}, self._partials(due, alone=False), due, watch)

    @property
    def by(self) -> list[str]:
        """The columns by which partials are separated: partition and keys."""
        return [*self.reach.partition, *(key.name for key in self.aggregation.keys)]

    @property
    def _narrowest(self) -> int:
        return widths(self.reach.us)[-1]

    @property
    def _arguments(self) -> list[str]:
        return [argument.name for argument in self.aggregation.arguments]

    def _rows(self, segments: list[Segment], ranges: tuple[Range, ...], io: StateIO) -> DataFrame:
        """Rows (not panes) in ranges; where ranges meet panes, they end on the narrowest panes."""
        panes = [PaneRange.around(each, self._narrowest) for each in ranges]
        if sum(len(each.starts) for each in panes) <= MANY_PANES:
            needed = [is_one_of(PANE, each.starts) for each in panes]
        else:
            needed = [
                f"{TIME} >= {by_reference(each.start_us, TIME)} "
                f"AND {TIME} < {by_reference(each.end_us, TIME)}"
                for each in ranges
            ]
        rows = io.read(segments)
        return rows.where(f"{WIDTH} = 0L AND ({' OR '.join(f'({each})' for each in needed)})")

    def _partials(self, due: Due, *, alone: bool) -> str:
        """Partials of rows: one for each time, and one for each trigger if it has one group.

        If all rows trigger, the latter are rows, so nothing is aggregated unless it has to be.
        ``alone``: one task reads all that is needed.
        """
        asked = due.condition if self.own_group else "false"
        # Few rows share a group, so shuffle once, before grouping.
        spread = self.by and not alone
        layout = f"/*+ REPARTITION({', '.join(self.by)}) */ " if spread else ""
        placed = (
            f"SELECT {layout}*, {TIME} AS {AT}, IF({asked}, {ORDER}, NULL) AS {PLACE} FROM {{rows}}"
        )
        # The aliases let Spark see that a union of partials keeps their partitioning.
        named = [f"{name} AS {name}" for name in self.by]
        single = self._of_one_row() if self.own_group and self.all_trigger else None
        columns = [*named, AT, PLACE, *(single or self._updates()), f"1 AS {PRESENT}"]
        partials = f"SELECT {', '.join(columns)} FROM ({placed})"
        group = ", ".join([*self.by, AT, PLACE])
        return partials if single else f"{partials} GROUP BY {group}"

    def _folded(self, state: str, columns: list[str], at_us: int) -> str:
        """One partial for each partition and key, at a time that all windows share."""
        by = ", ".join(self.by)
        at = f"{by_reference(at_us, ROW_NUMBER)} AS {AT}"
        folded = ", ".join([*self.by, at, f"NULL AS {PLACE}", *columns, f"1 AS {PRESENT}"])
        return f"SELECT {folded} FROM {state}" + (f" GROUP BY {by}" if by else "")

    def _windows(
        self, frames: Mapping[str, DataFrame], partials: str, due: Due, watch: Watch
    ) -> DataFrame:
        """The windows of due triggers, from a statement that returns partials of some frames."""
        if self.own_group:
            return watch(over_all(frames, self._framed(partials)))
        found = over_all(frames, partials)
        asking = self._questions(found, frames["rows"], due, watch)
        together = found.unionByName(asking, allowMissingColumns=True)
        return over(together, self._framed("SELECT * FROM {frame}"))

    def _framed(self, partials: str) -> str:
        """Merge, for each trigger and group, the partials that are in range."""
        partition = f"PARTITION BY {', '.join(self.by)} " if self.by else ""
        range_ = (
            f"OVER ({partition}ORDER BY {AT} RANGE BETWEEN {self.reach.lookback_us}L PRECEDING "
            f"AND {self.reach.lookahead_us}L FOLLOWING)"
        )
        columns = [(each.name, each.merge) for each in self.aggregation.partial_columns]
        columns += [] if self.own_group else [(PRESENT, f"count({PRESENT})")]
        merged = [f"{framed(merge, range_)} AS {name}" for name, merge in columns]
        window = self.reach.window_columns(AT, PLACE)
        asked = f"{PLACE} IS NOT NULL" + ("" if self.own_group else f" AND {PRESENT} > 0")
        return (
            f"SELECT *, {', '.join(window)} FROM "
            f"(SELECT {', '.join([*self.by, AT, PLACE, *merged])} FROM ({partials})) WHERE {asked}"
        )

    def _questions(self, partials: DataFrame, rows: DataFrame, due: Due, watch: Watch) -> DataFrame:
        """A row without data for each trigger and each group that may be in its window."""
        triggers = watch(
            rows.where(due.condition).selectExpr(
                f"{TIME} AS {AT}",
                f"{ORDER} AS {PLACE}",
                *(f"{name} AS _of{name}" for name in self.reach.partition),
            )
        )
        start, end = f"{AT} - {self.reach.lookback_us}L", f"{AT} + {self.reach.lookahead_us}L"
        asking = triggers.selectExpr("*", f"{self.reach.buckets(start, end)} AS _of{BUCKET}")
        groups = partials.selectExpr(*self.by, f"{self.reach.bucket(AT)} AS {BUCKET}").distinct()
        met = groups.join(asking, functions.expr(self.reach.same_partition("_of")))
        # A group in both buckets of a window was joined twice.
        return met.select(*self.by, AT, PLACE).distinct()

    def _of_one_row(self) -> list[str] | None:
        """The updates as scalars over a row; None if one of them has to be an aggregate."""
        types = {each.name: each.dataType.simpleString() for each in self.state_schema}
        found = {each.name: of_one_row(each.update) for each in self.aggregation.partial_columns}
        if None in found.values():
            return None
        return [f"CAST({sql} AS {types[name]}) AS {name}" for name, sql in found.items()]

    def _updates(self) -> list[str]:
        return [f"{each.update} AS {each.name}" for each in self.aggregation.partial_columns]

    def _merges(self) -> list[str]:
        # Merging may widen a type (a sum of decimals); cast it back to the type in the state.
        types = {each.name: each.dataType.simpleString() for each in self.state_schema}
        return [
            f"CAST({each.merge} AS {types[each.name]}) AS {each.name}"
            for each in self.aggregation.partial_columns
        ]


def framed_rows(
    aggregation: IngestPartials, window: Sliding, reach: Reach, rows: DataFrame
) -> FramedRows:
    """Return the shape of a window over accumulators.

    Args:
        aggregation: keys and accumulators.
        window: the window.
        reach: its geometry.
        rows: placed rows, of which only the types are used.
    """
    shape = FramedRows(
        reach=reach,
        aggregation=aggregation,
        all_trigger=window.when is None,
        own_group={key.expression.sql for key in aggregation.keys} <= set(window.partition_by),
        state_schema=rows.schema,
    )
    updates = shape._updates()
    partials = rows.selectExpr(*updates).schema.fields if updates else []
    fields = [*shape.kept(rows).schema.fields, *partials]
    return replace(
        shape,
        state_schema=StructType([StructField(f.name, f.dataType) for f in fields]).toNullable(),
    )


def framed(merge: str, over: str) -> str:
    """Return a merge expression with the frame appended to each aggregate call in it.

    >>> framed("sum(n_1)", "OVER w")
    'sum(n_1) OVER w'
    >>> framed("flatten(collect_list(v_1))", "OVER w")
    'flatten(collect_list(v_1) OVER w)'
    """
    ends = sorted(
        closing_bracket(merge, call.end() - 1)
        for call in re.finditer(r"\b(\w+)\s*\(", merge)
        if call[1].lower() in _aggregates()
    )
    for end in reversed(ends):
        merge = f"{merge[: end + 1]} {over}{merge[end + 1 :]}"
    return merge


@cache
def _aggregates() -> frozenset[str]:
    """The names of Spark's aggregates, from the list of functions that statements may call."""
    lines = files("tidegate.plan").joinpath("spark_functions.txt").read_text("utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines if line.endswith(" aggregate"))


def _of_panes(panes: tuple[PaneRange, ...]) -> str:
    """The condition that a state row is one of the panes, which are few."""
    # A set for each range, not for each width, because Parquet filters by a set's least and
    # greatest value.
    return " OR ".join(
        f"({WIDTH} = {pane.width_us}L AND {is_one_of(TIME, pane.starts)})" for pane in panes
    )


def _meeting(segments: list[Segment], ranges: tuple[Range, ...]) -> list[Segment]:
    return [
        segment
        for segment in segments
        if any(segment.first_us < r.end_us and segment.last_us >= r.start_us for r in ranges)
    ]
