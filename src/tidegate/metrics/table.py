"""The metrics: the one table that the exporter, the docs page and the monitor read.

Each entry says how its value comes from the report of a step, so adding a metric is adding a row.
Names and units follow the conventions of Prometheus: seconds, bytes, counters that end in
``_total``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tidegate.metrics.report import PHASES, BatchReport
from tidegate.plan.side_output import KINDS, Drop


class Kind(Enum):
    """How values of several steps combine."""

    COUNTER = "counter"  # they add up
    GAUGE = "gauge"  # the last one counts
    HISTOGRAM = "histogram"  # each is an observation


# The value of a step: a number, a number for each value of the label, or None for nothing.
Value: TypeAlias = float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric of each transform.

    Attributes:
        name: its name; all start with ``tidegate_``. It has the label ``transform``.
        kind: how values combine.
        help: one sentence for the page of metrics and for Prometheus.
        value: its value for the report of a step.
        label: a second label, if ``value`` gives one number for each of its values.
        more_labels: further labels, of metrics that are not of the report of a step.
    """

    name: str
    kind: Kind
    help: str
    value: Callable[[BatchReport], Value]
    label: str | None = None
    more_labels: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels beside ``transform``."""
        return () if self.label is None else (self.label, *self.more_labels)


# What becomes of a row; each row read counts as exactly one.
FATES = (
    "accumulated",
    "late",
    "error",
    "duplicate",
    "evicted",
    "filtered",
    "outside_windows",
)
CAUSES = tuple(drop.value for drop in Drop)


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1_000_000


def _lag(report: BatchReport) -> float | None:
    if report.watermark_us is None or report.clock_us is None:
        return None
    return (report.clock_us - report.watermark_us) / 1_000_000


METRICS = (
    Metric(
        name="tidegate_rows_read_total",
        kind=Kind.COUNTER,
        help="Rows read from the source, after joins.",
        value=lambda report: report.rows_in,
    ),
    Metric(
        name="tidegate_rows_total",
        kind=Kind.COUNTER,
        help="Rows by what became of them; the sum over fates is tidegate_rows_read_total.",
        label="fate",
        value=lambda report: {fate: getattr(report, fate) for fate in FATES},
    ),
    Metric(
        name="tidegate_rows_partially_late_total",
        kind=Kind.COUNTER,
        help="Accumulated rows that were late for, or evicted from, some of their windows.",
        value=lambda report: report.partial,
    ),
    Metric(
        name="tidegate_processing_time_fallback_total",
        kind=Kind.COUNTER,
        help="Rows that had no event time and took the clock instead.",
        value=lambda report: report.processing_time_fallback,
    ),
    Metric(
        name="tidegate_result_rows_total",
        kind=Kind.COUNTER,
        help="Final result rows written, after HAVING and LIMIT.",
        value=lambda report: report.rows_out,
    ),
    Metric(
        name="tidegate_early_rows_total",
        kind=Kind.COUNTER,
        help="Provisional result rows written by EMIT EARLY.",
        value=lambda report: report.early_rows,
    ),
    Metric(
        name="tidegate_result_errors_total",
        kind=Kind.COUNTER,
        help="Results that became error records because one of their expressions failed.",
        value=lambda report: report.result_errors,
    ),
    Metric(
        name="tidegate_windows_closed_total",
        kind=Kind.COUNTER,
        help="Windows closed, before HAVING.",
        value=lambda report: report.closed_windows,
    ),
    Metric(
        name="tidegate_side_output_records_total",
        kind=Kind.COUNTER,
        help="Records of side output by kind, whether they were written, only counted or dropped.",
        label="kind",
        value=lambda report: {
            kind.name: getattr(report, kind.name)
            + (report.result_errors if kind.has_results else 0)
            for kind in KINDS
        },
    ),
    Metric(
        name="tidegate_side_output_written_total",
        kind=Kind.COUNTER,
        help="Records of side output written to a sink, by reason; none if monitor_samples = 0.",
        label="reason",
        value=lambda report: dict(report.reasons),
    ),
    Metric(
        name="tidegate_side_output_dropped_total",
        kind=Kind.COUNTER,
        help="Records of side output that were not written although they have a sink, by cause.",
        label="cause",
        value=lambda report: {cause: getattr(report.dropped, cause) for cause in CAUSES},
    ),
    Metric(
        name="tidegate_batches_total",
        kind=Kind.COUNTER,
        help="Steps committed: batches, drains and flushes.",
        value=lambda report: 1,
    ),
    Metric(
        name="tidegate_merges_total",
        kind=Kind.COUNTER,
        help="Merges of state segments.",
        value=lambda report: report.merges,
    ),
    Metric(
        name="tidegate_clean_up_failures_total",
        kind=Kind.COUNTER,
        help="Old state files that could not be deleted; deleting them is tried again.",
        value=lambda report: report.clean_up_failures,
    ),
    Metric(
        name="tidegate_clock_leaps_total",
        kind=Kind.COUNTER,
        help="Jumps of the machine's clock.",
        value=lambda report: report.clock_leaps,
    ),
    Metric(
        name="tidegate_watermark_timestamp_seconds",
        kind=Kind.GAUGE,
        help="The watermark, seconds since 1970; absent before the first row with an event time.",
        value=lambda report: _seconds(report.watermark_us),
    ),
    Metric(
        name="tidegate_watermark_lag_seconds",
        kind=Kind.GAUGE,
        help="How far the watermark was behind the clock at the last step.",
        value=_lag,
    ),
    Metric(
        name="tidegate_last_step_timestamp_seconds",
        kind=Kind.GAUGE,
        help="The clock of the last step, seconds since 1970.",
        value=lambda report: _seconds(report.clock_us),
    ),
    Metric(
        name="tidegate_open_windows",
        kind=Kind.GAUGE,
        help="Windows open, by the bounds of the state.",
        value=lambda report: report.open_windows,
    ),
    Metric(
        name="tidegate_state_rows",
        kind=Kind.GAUGE,
        help="Rows of the state: partial aggregates, or rows that are kept.",
        value=lambda report: report.state_rows,
    ),
    Metric(
        name="tidegate_state_bytes",
        kind=Kind.GAUGE,
        help="Bytes of the state's files.",
        value=lambda report: report.state_bytes,
    ),
    Metric(
        name="tidegate_segments",
        kind=Kind.GAUGE,
        help="Segments of the state.",
        value=lambda report: report.segments,
    ),
    Metric(
        name="tidegate_step_seconds",
        kind=Kind.HISTOGRAM,
        help="The time that a step took.",
        value=lambda report: report.duration_ms / 1000,
    ),
    Metric(
        name="tidegate_phase_seconds",
        kind=Kind.HISTOGRAM,
        help="The time that a phase of a step took: " + ", ".join(PHASES) + ".",
        label="phase",
        value=lambda report: {
            phase: milliseconds / 1000 for phase, milliseconds in report.phases_ms.items()
        },
    ),
)

# Counted by the command line, which starts queries again; no step knows of it.
RESTARTS_METRIC = Metric(
    name="tidegate_restarts_total",
    kind=Kind.COUNTER,
    help="Restarts of a failed query of tidegate run, by cause.",
    label="cause",
    value=lambda report: None,
)

# Of each shard of a transform, as far as there are few (``shards.MOST_SHARDS``).
SHARD_METRIC = Metric(
    name="tidegate_shard_event_time_seconds",
    kind=Kind.GAUGE,
    help="The greatest event time of a shard, seconds since 1970; the hundred furthest behind.",
    label="shard",
    value=lambda report: None,
)
SHARDS_METRIC = Metric(
    name="tidegate_shards",
    kind=Kind.GAUGE,
    help="Shards that the watermark knows.",
    value=lambda report: None,
)

SHARD_ROWS_METRIC = Metric(
    name="tidegate_shard_rows_read_total",
    kind=Kind.COUNTER,
    help="Rows read, by shard; the sum is tidegate_rows_read_total.",
    label="shard",
    value=lambda report: None,
)
SHARD_UNUSED_METRIC = Metric(
    name="tidegate_shard_rows_total",
    kind=Kind.COUNTER,
    help="Rows that were late, errors, duplicates or evicted, by shard.",
    label="shard",
    more_labels=("fate",),
    value=lambda report: None,
)
SHARD_PARTIAL_METRIC = Metric(
    name="tidegate_shard_rows_partially_late_total",
    kind=Kind.COUNTER,
    help="Accumulated rows that were late for, or evicted from, some of their windows, by shard.",
    label="shard",
    value=lambda report: None,
)

# The metrics that are not of the report of a step.
OF_SHARDS = (
    SHARDS_METRIC,
    SHARD_METRIC,
    SHARD_ROWS_METRIC,
    SHARD_UNUSED_METRIC,
    SHARD_PARTIAL_METRIC,
)

ALL = (*METRICS, RESTARTS_METRIC, *OF_SHARDS)

# Upper bounds of the buckets of histograms, seconds.
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
