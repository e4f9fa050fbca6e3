"""Adds up the reports of steps, and restarts, by the table of metrics."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from tidegate.metrics.shards import MOST_SHARDS, UNUSED, ShardSeries, StepShards
from tidegate.metrics.table import (
    ALL,
    BUCKETS,
    METRICS,
    OF_SHARDS,
    RESTARTS_METRIC,
    SHARD_METRIC,
    SHARD_PARTIAL_METRIC,
    SHARD_ROWS_METRIC,
    SHARDS_METRIC,
    Kind,
    Metric,
)

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

    from tidegate.metrics.report import BatchReport


@dataclass(slots=True)
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(BUCKETS, value)] += 1
        self.total += value


@dataclass(slots=True)
class _Values:
    """The values of a transform, by metric and the value of the metric's second label."""

    numbers: dict[tuple[str, str], float] = field(default_factory=dict)
    histograms: dict[tuple[str, str], _Histogram] = field(default_factory=dict)
    shards: StepShards | None = None
    series: ShardSeries = field(default_factory=ShardSeries)


class Recorder:
    """What all queries of this process have done so far; a collector of ``prometheus_client``.

    May be used by several threads at a time.
    """

    def __init__(self) -> None:
        self._transforms: dict[str, _Values] = {}
        self._lock = threading.Lock()

    def record(self, transform: str, report: BatchReport, shards: StepShards | None = None) -> None:
        """Add the report of a step.

        Args:
            transform: the name of the query.
            report: the report.
            shards: the shards after it; None if the query has none.
        """
        with self._lock:
            values = self._transforms.setdefault(transform, _Values())
            for metric in METRICS:
                for label, value in _labelled(metric, report):
                    _add(values, metric, label, value)
            values.shards = shards
            if shards is not None:
                values.series.add(shards, report)

    def restarted(self, transform: str, cause: str, *, times: int = 1) -> None:
        """Count restarts of a query; ``times=0`` makes the counter appear."""
        with self._lock:
            values = self._transforms.setdefault(transform, _Values())
            _add(values, RESTARTS_METRIC, cause, times)

    def collect(self) -> Iterator[Family]:
        """Return all metrics, as ``prometheus_client`` asks for them."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        families = {
            Kind.COUNTER: CounterMetricFamily,
            Kind.GAUGE: GaugeMetricFamily,
            Kind.HISTOGRAM: HistogramMetricFamily,
        }
        with self._lock:
            for metric in ALL:
                labels = ["transform", *metric.labels]
                family = families[metric.kind](metric.name, metric.help, labels=labels)
                for transform, values in self._transforms.items():
                    _fill(family, metric, transform, values)
                yield family


def _labelled(metric: Metric, report: BatchReport) -> list[tuple[str, float]]:
    value = metric.value(report)
    if value is None:
        return []
    return list(value.items()) if isinstance(value, Mapping) else [("", value)]


def _add(values: _Values, metric: Metric, label: str, value: float) -> None:
    key = (metric.name, label)
    match metric.kind:
        case Kind.COUNTER:
            values.numbers[key] = values.numbers.get(key, 0) + value
        case Kind.GAUGE:
            values.numbers[key] = value
        case Kind.HISTOGRAM:
            values.histograms.setdefault(key, _Histogram()).add(value)


def _fill(family: Any, metric: Metric, transform: str, values: _Values) -> None:  # noqa: ANN401
    def labels(label: str) -> list[str]:
        return [transform, label] if metric.label else [transform]

    if metric in OF_SHARDS:
        if values.shards is not None:
            for found, value in _of_shards(metric, values.shards, values.series):
                family.add_metric([transform, *found], value)
    elif metric.kind is Kind.HISTOGRAM:
        for (name, label), histogram in values.histograms.items():
            if name == metric.name:
                family.add_metric(labels(label), _buckets(histogram), histogram.total)
    else:
        for (name, label), number in values.numbers.items():
            if name == metric.name:
                family.add_metric(labels(label), number)


def _of_shards(
    metric: Metric, shards: StepShards, series: ShardSeries
) -> Iterator[tuple[list[str], float]]:
    """Yield the labels and values of a metric of shards."""
    if metric is SHARDS_METRIC:
        yield [], len(shards.after)
    elif metric is SHARD_METRIC:
        for name, time_us in nsmallest(MOST_SHARDS, shards.times(), key=lambda shard: shard[1]):
            yield [name], time_us / 1_000_000
    elif metric is SHARD_ROWS_METRIC or metric is SHARD_PARTIAL_METRIC:
        counted = "rows_in" if metric is SHARD_ROWS_METRIC else "partial"
        for name, number in series.values(counted):
            yield [name], number
    else:
        for fate in UNUSED:
            for name, number in series.values(fate):
                yield [name, fate], number


def _buckets(histogram: _Histogram) -> list[tuple[str, float]]:
    """The cumulative counts of a histogram, by upper bound."""
    bounds = [*map(str, BUCKETS), "+Inf"]
    sums = [sum(histogram.counts[: place + 1]) for place in range(len(bounds))]
    return list(zip(bounds, sums, strict=True))


# What the queries of this process are recorded in.
RECORDER = Recorder()
