"""The report of a step: its numbers, and how long each phase took."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.metrics.report import PHASES, BatchReport, StepSummary
from tidegate.state.shard_map import ShardMap

if TYPE_CHECKING:
    from tidegate.engine.job import Job
    from tidegate.metrics.report import Counts
    from tidegate.state.manifest import Manifest


class Stopwatch:
    """Measures the phases of a step, one after another."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self._phases = dict.fromkeys(PHASES, 0)

    def ends(self, phase: str) -> None:
        """Note that a phase has ended: it began where the one before it ended."""
        now = time.monotonic()
        self._phases[phase] += round((now - self._last) * 1000)
        self._last = now

    def phases(self) -> dict[str, int]:
        """The milliseconds of each phase, by the names of ``PHASES``."""
        return dict(self._phases)

    def total_ms(self) -> int:
        """The milliseconds since the start."""
        return round((time.monotonic() - self._started) * 1000)


def summarized(after: Manifest, summary: StepSummary, job: Job, stopwatch: Stopwatch) -> Manifest:
    """Return the manifest of a step, about to be written, with the summary of the step."""
    summary = replace(
        summary,
        open_windows=job.operator.open_windows(after),
        duration_ms=stopwatch.total_ms(),
        phases_ms=stopwatch.phases(),
    )
    return replace(after, step=summary)


def report_of(after: Manifest, counts: Counts, job: Job, stopwatch: Stopwatch) -> BatchReport:
    """Return what a committed step is known by; what it emitted is added by the step.

    Args:
        after: the state after it.
        counts: its rows by fate.
        job: what runs.
        stopwatch: started with the step.
    """
    segments = after.tables.of_rows
    return BatchReport(
        **{name: getattr(counts, name) for name in counts.__slots__},
        batch_id=after.batch_id,
        epoch=after.epoch,
        clock_us=after.clock_us,
        watermark_us=after.watermark.watermark_us,
        event_time_us=ShardMap.of(after.watermark.shards).greatest_time_us,
        open_windows=job.operator.open_windows(after),
        state_rows=sum(segment.rows for segment in segments),
        state_bytes=sum(segment.bytes for segment in after.segments),
        segments=len(segments),
        open_from_us=min((s.first_us for s in after.tables.of_windows), default=None),
        phases_ms=stopwatch.phases(),
        duration_ms=stopwatch.total_ms(),
    )
