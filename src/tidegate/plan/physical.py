"""The physical plan: the chain of stages that the engine runs and EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import Settings, TimeMode
from tidegate.plan.stages import (
    Close,
    Finish,
    Ingest,
    IngestRows,
    Prepare,
    SideOutput,
    keeps_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalPlan:
    """How a query runs, stage by stage, and the identity of its state.

    ``fingerprint`` maps each thing that shapes state to its text (window, keys, accumulators, event
    time); ``plan_id`` is its hash (32 hex digits). ``settings`` are those it was planned with,
    ``origin`` names the statement in messages.
    """

    prepare: Prepare
    ingest: Ingest
    close: Close
    finish: Finish
    side_output: SideOutput
    settings: Settings
    origin: str
    fingerprint: dict[str, str]
    plan_id: str

    @property
    def watermark(self) -> WatermarkSpec:
        """All that decides the time of a row, the watermark, and which rows are late."""
        return self.prepare.watermark

    @property
    def max_groups(self) -> int | None:
        """The most groups of a window; None: any number."""
        return self.settings.max_groups

    @property
    def max_rows(self) -> int | None:
        """The most rows that are kept for a group of a window; None: any number, or none are."""
        rows = self.ingest
        if not isinstance(rows, IngestRows) or not (rows.is_row_query or keeps_values(rows)):
            return None
        return self.settings.max_rows_per_group

    @property
    def needs_order(self) -> bool:
        """Whether windows, their ids or their values depend on the order of arrival."""
        by_arrival = self.settings.dedup_key is not None
        return by_arrival or self.close.window.needs_order or self.ingest.needs_order

    @property
    def needs_ticks(self) -> bool:
        """Whether the passing of time alone can emit results or move the watermark."""
        spec = self.watermark
        if self.close.early_us is not None:
            return True
        if spec.mode is TimeMode.EVENT:
            return spec.idle_timeout_us is not None or spec.shard_expiry_us is not None
        return self.close.window.waits_for_clock and spec.emit_on_close
