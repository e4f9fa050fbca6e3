"""Side output: one structured record for each row that could not be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.rows.fates import BatchStart, Fate, clock_sql
from tidegate.plan.columns import BEHIND, ERROR, FATE, REINJECTED, ROW, SHARD, TIME
from tidegate.plan.guarded import detail_sql, is_malformed, reason_sql
from tidegate.plan.side_output import RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from tidegate.engine.windows.operator import LateWindows
    from tidegate.plan.physical import PhysicalPlan

# The kind and the reason that a record gives for each fate that has one.
REASONS: dict[Fate, tuple[str, str]] = {
    Fate.LATE: ("late", "allowed_lateness_exceeded"),
    Fate.EVICTED_GROUP: ("evicted", "max_groups"),
    Fate.EVICTED_ROW: ("evicted", "max_rows_per_group"),
    Fate.DUPLICATE: ("duplicate", "duplicate_key"),
    Fate.NULL_EVENT_TIME: ("error", "null_event_time"),
    Fate.FUTURE_EVENT_TIME: ("error", "future_event_time"),
    Fate.EVENT_TIME_OUT_OF_RANGE: ("error", "event_time_out_of_range"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the rows of a batch were classified by.

    Attributes:
        watermark_us: the watermark before the batch.
        original: the type of ``original_event``, also where no record shows the row.
    """

    plan: PhysicalPlan
    start: BatchStart
    watermark_us: int | None
    late_windows: LateWindows
    original: DataType

    def includes_original(self, kind: str) -> bool:
        """Whether records of a kind have the original row."""
        return self.plan.side_output.route(kind).include_original


def side_output(rows: DataFrame, judged: Judged, kinds: Sequence[str]) -> DataFrame:
    """Return one record for each row of some kinds.

    Args:
        rows: prepared rows with their fate (``_class``).
        judged: what they were judged by.
        kinds: their names, see ``plan/side_output.py``.

    Returns:
        The columns of ``RECORD`` (``plan/side_output.py``).
    """
    fates = _fates_of(rows, kinds)
    failing = Fate.ROW_ERROR in fates
    chosen = rows.where(_is_one_of(fates))
    late = f"{FATE} = {Fate.LATE.value}"
    bound = None if judged.start.bound_us is None else f"{judged.start.bound_us}L"
    watermark = "NULL" if judged.watermark_us is None else f"{judged.watermark_us}L"
    if BEHIND in rows.columns:
        # Each late row was judged by the watermark at its place.
        bound = BEHIND
        own = f"{BEHIND} + {judged.plan.watermark.lateness_us}L"
        watermark = f"CASE WHEN {late} THEN {own} ELSE {watermark} END"
    behind = f"({bound} - ({judged.late_windows.last_end})) div 1000"
    late_by = "NULL" if bound is None else f"CASE WHEN {late} THEN {behind} END"
    of_kinds = " ".join(f"WHEN {fate.value} THEN '{kind}'" for fate, kind in fates.items())
    reasons = " ".join(f"WHEN {fate.value} THEN {_reason_sql(fate)}" for fate in fates)
    failed = f"CASE WHEN {FATE} = {Fate.ROW_ERROR.value} THEN {detail_sql(ERROR)} END"
    records = chosen.selectExpr(
        f"CASE {FATE} {of_kinds} END AS kind",
        f"CASE {FATE} {reasons} END AS reason",
        f"{_iso(TIME)} AS event_time",
        f"{_iso(clock_sql(judged.start))} AS processing_time",
        f"CAST({_iso(watermark)} AS STRING) AS watermark",
        f"CAST({late_by} AS BIGINT) AS late_by_ms",
        f"CASE WHEN {late} THEN transform({judged.late_windows.windows}, w -> named_struct("
        f"'start', {_iso('w.start')}, 'end', {_iso('w.end')})) END AS windows",
        f"{group_key_sql(judged.plan)} AS group_key",
        *_original(rows, judged, fates),
        f"CAST({failed if failing else 'NULL'} AS STRING) AS error_detail",
        f"CAST({SHARD if SHARD in rows.columns else 'NULL'} AS STRING) AS shard",
        f"'{judged.plan.plan_id}' AS plan_id",
    )
    return _in_order(records, judged, window="try_element_at(windows, -1)")


def rows_to_reinject(rows: DataFrame, judged: Judged, kinds: Sequence[str]) -> DataFrame:
    """Return the original rows of some kinds that can go back to their input.

    They are those that have not been there before, and whose record could be read whole: what is
    NULL in another would come back as a value.

    Args:
        rows: prepared rows with their fate and ``_reinjected``.
        judged: what they were classified by.
        kinds: their names.
    """
    condition = f"{_is_one_of(_fates_of(rows, kinds))} AND NOT coalesce({REINJECTED}, false)"
    if judged.plan.prepare.tells_malformed and ERROR in rows.columns:
        condition += f" AND NOT coalesce({is_malformed(ERROR)}, false)"
    return rows.where(condition).select(f"{ROW}.*")


def _fates_of(rows: DataFrame, kinds: Iterable[str]) -> dict[Fate, str]:
    """The fates of rows of some kinds, each with its kind."""
    fates = {fate: kind for fate, (kind, _) in REASONS.items() if kind in kinds}
    if "error" in kinds and ERROR in rows.columns:
        fates[Fate.ROW_ERROR] = "error"
    return fates


def failed_results(closed: DataFrame, judged: Judged) -> DataFrame:
    """Return one record of kind ``error`` for each result whose own expression failed.

    Args:
        closed: what ``Finisher.closed`` returns.
        judged: what the rows of the batch were judged by.
    """
    start, end = (_iso(f"unix_micros({name})") for name in ("_start", "_end"))
    watermark = "NULL" if judged.watermark_us is None else f"{judged.watermark_us}L"
    window = f"named_struct('start', {start}, 'end', {end})"
    text = "CAST(NULL AS STRING)"
    records = closed.where(f"{ERROR} IS NOT NULL").selectExpr(
        "'error' AS kind",
        f"{reason_sql(ERROR)} AS reason",
        f"{text} AS event_time",
        f"{_iso(clock_sql(judged.start))} AS processing_time",
        f"CAST({_iso(watermark)} AS STRING) AS watermark",
        "CAST(NULL AS BIGINT) AS late_by_ms",
        f"{window} AS window",
        f"IF(true, NULL, array({window})) AS windows",
        f"{group_key_sql(judged.plan)} AS group_key",
        f"{detail_sql(ERROR)} AS error_detail",
        f"'{judged.plan.plan_id}' AS plan_id",
        f"{text} AS shard",
    )
    return _in_order(records, judged, window="window")


def _in_order(records: DataFrame, judged: Judged, *, window: str) -> DataFrame:
    """Return records with their columns in order, of the same types in every batch."""
    columns = {
        "window": functions.expr(window).alias("window"),
    }
    if "original_event" not in records.columns:
        # Where no record shows the original row, it has the type that it has in others.
        nothing = functions.lit(None).cast(judged.original)
        columns["original_event"] = nothing.alias("original_event")
    return records.select(*(columns.get(name, name) for name in RECORD))


def _original(rows: DataFrame, judged: Judged, fates: Mapping[Fate, str]) -> tuple[str, ...]:
    """The column of the original row, for the kinds whose records include it."""
    shown = [fate for fate, kind in fates.items() if judged.includes_original(kind)]
    if ROW not in rows.columns or not shown:
        return ()
    row = ROW if len(shown) == len(fates) else f"CASE WHEN {_is_one_of(shown)} THEN {ROW} END"
    return (f"{row} AS original_event",)


def _is_one_of(fates: Iterable[Fate]) -> str:
    return f"{FATE} IN ({', '.join(str(fate.value) for fate in fates)})"


def _reason_sql(fate: Fate) -> str:
    return reason_sql(ERROR) if fate is Fate.ROW_ERROR else f"'{REASONS[fate][1]}'"


def group_key_sql(plan: PhysicalPlan) -> str:
    """A struct of the keys, named by their text in the statement; NULL if there are none."""
    if not plan.side_output.group_key:
        return "CAST(NULL AS STRING)"
    labelled = (
        (label.replace("\\", "\\\\").replace("'", "\\'"), column)
        for label, column in plan.side_output.group_key
    )
    pairs = (f"'{label}', {column}" for label, column in labelled)
    return f"named_struct({', '.join(pairs)})"


def _iso(time: str) -> str:
    # Through TIMESTAMP_NTZ, to be independent of the session's time zone.
    moment = f"timestampadd(MICROSECOND, {time}, TIMESTAMP_NTZ '1970-01-01 00:00:00')"
    return f"replace(CAST({moment} AS STRING), ' ', 'T') || 'Z'"
