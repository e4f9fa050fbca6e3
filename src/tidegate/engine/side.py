"""Side output: one structured record for each row that could not be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.prepare import CLOCK, FATE, ROW, BatchStart, Fate, fate_sql
from tidegate.plan.accumulators import TIME
from tidegate.plan.physical import PhysicalStreamingAggregation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.panes import PaneGrid
    from tidegate.plan.physical import PhysicalPlan

# The kind and the reason that a record gives for each fate that has one.
REASONS: dict[Fate, tuple[str, str]] = {
    Fate.LATE: ("late", "allowed_lateness_exceeded"),
    Fate.NULL_EVENT_TIME: ("error", "null_event_time"),
    Fate.FUTURE_EVENT_TIME: ("error", "future_event_time"),
    Fate.EVENT_TIME_OUT_OF_RANGE: ("error", "event_time_out_of_range"),
}

KINDS = ("late", "error")

# By way of TIMESTAMP_NTZ, so that the session's time zone has no say.
_ISO = "replace(CAST(timestampadd(MICROSECOND, {0}, TIMESTAMP_NTZ '1970-01-01 00:00:00') AS STRING), ' ', 'T') || 'Z'"


def side_output(
    rows: DataFrame,
    plan: PhysicalPlan,
    grid: PaneGrid,
    before: BatchStart,
    *,
    watermark_us: int | None,
    kinds: tuple[str, ...],
) -> DataFrame:
    """Return one record for each prepared row of the given kinds.

    Columns: kind, reason, event_time, processing_time, watermark (ISO 8601 UTC), late_by_ms, window
    (the last one), windows (all that a late row was late for), group_key, original_event,
    error_detail, plan_id, shard. The watermark is the one before the batch, by which the rows were
    judged.
    """
    aggregation = plan.find(PhysicalStreamingAggregation)
    assert aggregation is not None, "only plans with accumulators have side output yet"
    pane = grid.pane_sql(TIME)
    late = f"{FATE} = {Fate.LATE.value}"
    ends = f"sequence({grid.first_end_sql(pane)}, {grid.last_end_sql(pane)}, {grid.stride_us}L)"
    lateness_us = plan.watermark.spec.lateness_us
    watermark = "NULL" if watermark_us is None else f"{watermark_us}L"
    chosen = [fate for fate, (kind, _) in REASONS.items() if kind in kinds]
    judged = rows.selectExpr("*", f"{fate_sql(plan, grid, before)} AS {FATE}").where(
        f"{FATE} IN ({', '.join(str(fate.value) for fate in chosen)})"
    )
    with_windows = judged.selectExpr(
        "*",
        f"CASE WHEN {late} THEN transform({ends}, e -> {_window_sql(grid, 'e')}) END AS _windows",
        f"CASE WHEN {late} THEN {grid.last_end_sql(pane)} END AS _last_end",
    )
    keys = ", ".join(
        f"'{label}', {key.name}"
        for label, key in zip(_key_labels(aggregation), aggregation.keys, strict=True)
    )
    return with_windows.selectExpr(
        f"{_by_fate(0, chosen)} AS kind",
        f"{_by_fate(1, chosen)} AS reason",
        f"{_iso(TIME)} AS event_time",
        f"{_iso(CLOCK)} AS processing_time",
        f"{_iso(watermark)} AS watermark"
        if watermark_us is not None
        else "CAST(NULL AS STRING) AS watermark",
        f"CASE WHEN {late} THEN ({watermark} - (_last_end + {lateness_us})) div 1000 END AS late_by_ms"
        if watermark_us is not None
        else "CAST(NULL AS BIGINT) AS late_by_ms",
        "try_element_at(_windows, -1) AS window",
        "_windows AS windows",
        f"named_struct({keys}) AS group_key" if keys else "CAST(NULL AS STRING) AS group_key",
        f"{ROW} AS original_event"
        if ROW in rows.columns
        else "CAST(NULL AS STRING) AS original_event",
        "CAST(NULL AS STRING) AS error_detail",
        f"'{plan.plan_id}' AS plan_id",
        "CAST(NULL AS STRING) AS shard",
    )


def _window_sql(grid: PaneGrid, end: str) -> str:
    return f"named_struct('start', {_iso(grid.start_of_end_sql(end))}, 'end', {_iso(end)})"


def _iso(time: str) -> str:
    return _ISO.format(f"({time})")


def _by_fate(place: int, fates: list[Fate]) -> str:
    cases = " ".join(f"WHEN {fate.value} THEN '{REASONS[fate][place]}'" for fate in fates)
    return f"CASE {FATE} {cases} END"


def _key_labels(aggregation: PhysicalStreamingAggregation) -> list[str]:
    """The keys as the statement writes them, made safe for a string literal of SQL."""
    return [
        key.expression.sql.replace("\\", "\\\\").replace("'", "\\'") for key in aggregation.keys
    ]
