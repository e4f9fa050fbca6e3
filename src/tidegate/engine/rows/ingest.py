"""Ingest: job 1 of a batch. State rows become a segment, and the job counts on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.engine.faults import fault_point
from tidegate.engine.rows.fates import EVICTED_FATES, UNTIMED, BatchStart, Fate
from tidegate.engine.rows.shard_rows import (
    fate_conditions,
    mixed_sql,
    shard_sketches,
)
from tidegate.engine.windows.operator import Ingested, ToldShards
from tidegate.engine.windows.state_rows import KEPT
from tidegate.metrics.report import Counts
from tidegate.plan.columns import (
    FALLBACKS,
    FATE,
    FIRST_PLACE,
    PANE,
    ROWS,
    SEEN_TIME,
    SHARD_HASH,
    SPLIT_PLACE,
)
from tidegate.spark.observe import observed
from tidegate.spark.statements import selected
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.state_io import StateIO


class StateRow(Protocol):
    """What ingest needs to know of the shape of the state, for every kind of window."""

    @property
    def aggregated(self) -> bool:
        """Whether a state row represents many rows."""

    def kept(self, placed: DataFrame) -> DataFrame:
        """Return what the state keeps of placed rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How placed rows are taken in.

    Attributes:
        shape: what a state row is.
        time: the column (or Spark SQL) whose bounds the segment has.
        partial: the condition (Spark SQL) that an accumulated row was late for some of its windows.
        late: the condition (Spark SQL over placed rows) that a row which ``place`` classified as
            accumulated is late for all its windows; such rows stay in the segment, but no window
            uses them.
        is_grouped: whether a placed row represents many rows, and was shuffled to do so.
    """

    shape: StateRow
    time: str
    partial: str | None = None
    late: str | None = None
    is_grouped: bool = False


def take_in(placed: DataFrame, intake: Intake, start: BatchStart, io: StateIO) -> Ingested:
    """Write placed rows as the segment of an epoch; if no row is kept, there is no segment."""
    fault_point("before_segment", start.epoch)
    io.tasks.set_for_batch()
    columns = placed.columns
    has_places = FIRST_PLACE in columns
    places = [PANE, FIRST_PLACE, SPLIT_PLACE] if has_places else []
    expressions = _numbers(intake, start, places)
    if FALLBACKS in columns:
        expressions["fallbacks"] = f"sum(IF({_kept_sql(intake)}, {FALLBACKS}, 0))"
    tells_shards = SHARD_HASH in columns
    large: Mapping[str, str] = {}
    if tells_shards:
        sketches = shard_sketches(start.counted, _conditions(intake))
        missing = [sql for name, sql in sketches.columns.items() if name not in columns]
        placed = selected(placed, "*", *missing) if missing else placed
        expressions["mixed"], large = mixed_sql(), sketches.observed
    watched, numbers = observed(placed, expressions, large)
    kept = intake.shape.kept(watched)
    # Grouped rows were shuffled, so there are as many files as tasks were set.
    kept = kept if intake.is_grouped else io.tasks.gathered(kept)
    name, files = io.write(start.epoch, "batch", kept)
    seen = numbers()
    io.tasks.note_batch(seen["groups"], files)
    fault_point("after_segment", start.epoch)
    ingested = Ingested(
        counts=_counts(seen),
        event_time_us=seen["time"],
        elsewhere=tuple(seen["others"]) if has_places else (),
        shards=ToldShards(seen=seen, mixed=seen["mixed"]) if tells_shards else None,
    )
    if not seen["groups"]:
        return ingested
    segment = Segment(
        name=name,
        first_us=seen["first"],
        last_us=seen["last"],
        rows=seen["groups"],
        behind_us=start.behind_us,
        files=files,
    )
    return replace(ingested, segments=(segment,))


def shard_columns(intake: Intake, start: BatchStart) -> tuple[str, ...]:
    """Return columns (Spark SQL over placed rows) that ``take_in`` adds, unless they are there.

    A statement that has them is analyzed in less time than the two one after the other.
    """
    if not start.tells_shards:
        return ()
    return tuple(shard_sketches(start.counted, _conditions(intake)).columns.values())


def _numbers(intake: Intake, start: BatchStart, places: Sequence[str]) -> dict[str, str]:
    """What to observe: few expressions, since each is computed for every state row of the batch."""
    kept = _kept_sql(intake)
    numbers = {
        "groups": f"count_if({kept})",
        "rows": f"sum(IF({kept}, {ROWS}, 0))",
        "time": f"max(IF({FATE} NOT IN ({_list(UNTIMED)}), {SEEN_TIME}, NULL))",
        "first": f"min({_if(kept, intake)})",
        "last": f"max({_if(kept, intake)})",
    }
    if intake.is_grouped and not start.tells_shards:
        # There is at most one partial for each fate (and pane) and task, so the list is short.
        other = ", ".join([FATE, ROWS, *places])
        numbers["others"] = f"collect_list(IF({KEPT}, NULL, struct({other})))"
    else:
        possible = (fate for fate in COUNTED if fate not in _impossible(start))
        numbers |= {f.name: f"sum(IF({FATE} = {f.value}, {ROWS}, 0))" for f in possible}
    if intake.late is not None:
        numbers["late"] = f"sum(IF({KEPT} AND {intake.late}, {ROWS}, 0))"
    if intake.partial is not None:
        numbers["partial"] = f"sum(IF({kept} AND {intake.partial}, {ROWS}, 0))"
    return numbers


def _conditions(intake: Intake) -> dict[str, str]:
    """The conditions (Spark SQL over placed rows) for what is counted of the rows of a shard."""
    conditions = fate_conditions()
    if intake.late is not None:
        conditions["late"] += f" OR {KEPT} AND {intake.late}"
    if intake.partial is not None:
        conditions["partial"] = f"{_kept_sql(intake)} AND {intake.partial}"
    return conditions


def _kept_sql(intake: Intake) -> str:
    return KEPT if intake.late is None else f"({KEPT} AND NOT ({intake.late}))"


def _if(kept: str, intake: Intake) -> str:
    # Rows that are not accumulated have no time column, and late ones must not widen the bounds.
    return intake.time if intake.late is None else f"IF({kept}, {intake.time}, NULL)"


# The fates that are counted separately: all but ACCUMULATED.
COUNTED = tuple(fate for fate in Fate if fate is not Fate.ACCUMULATED)


def _impossible(start: BatchStart) -> tuple[Fate, ...]:
    """The fates that no row of a batch has."""
    duplicate = () if start.has_duplicates else (Fate.DUPLICATE,)
    return duplicate if start.has_evictions else (*duplicate, *EVICTED_FATES)


def _list(fates: tuple[Fate, ...]) -> str:
    return ", ".join(str(fate.value) for fate in fates)


def _counts(seen: dict[str, Any]) -> Counts:
    rows: dict[Fate, int] = {fate: seen.get(fate.name) or 0 for fate in COUNTED}
    for other in seen.get("others", ()):
        if other[FATE] in rows:
            rows[Fate(other[FATE])] += other[ROWS]
    rows[Fate.LATE] += seen.get("late") or 0
    accumulated = seen["rows"] or 0
    return Counts(
        rows_in=accumulated + sum(rows.values()),
        accumulated=accumulated,
        late=rows[Fate.LATE],
        error=sum(rows[fate] for fate in (*UNTIMED, Fate.ROW_ERROR) if fate in rows),
        duplicate=rows[Fate.DUPLICATE],
        evicted=sum(rows[fate] for fate in EVICTED_FATES),
        filtered=rows[Fate.FILTERED],
        outside_windows=rows[Fate.OUTSIDE_WINDOWS],
        partial=seen.get("partial") or 0,
        processing_time_fallback=seen.get("fallbacks") or 0,
    )
