"""Adds up the reports of steps, and restarts, by the table of metrics."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.metrics.table import (
    ALL,
    BUCKETS,
    METRICS,
    RESTARTS_METRIC,
    SHARD_METRIC,
    SHARDS_METRIC,
    Kind,
    Metric,
)

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

    from tidegate.metrics.report import BatchReport

# A transform may have very many shards, and each would be a time series.
MOST_SHARDS = 100

Shards: TypeAlias = "Callable[[], list[tuple[str, int]]]"


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
    shards: Shards = list


class Recorder:
    """What all queries of this process have done so far; a collector of ``prometheus_client``.

    May be used by several threads at a time.
    """

    def __init__(self) -> None:
        self._transforms: dict[str, _Values] = {}
        self._lock = threading.Lock()

    def record(self, transform: str, report: BatchReport, shards: Shards = list) -> None:
        """Add the report of a step.

        Args:
            transform: the name of the query.
            report: the report.
            shards: returns the name of each shard and its greatest event time, microseconds; called
                when the metrics are read.
        """
        with self._lock:
            values = self._transforms.setdefault(transform, _Values())
            for metric in METRICS:
                for label, value in _labelled(metric, report):
                    _add(values, metric, label, value)
            values.shards = shards

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
                labels = ["transform", *([metric.label] if metric.label else [])]
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

    if metric is SHARD_METRIC:
        for name, time_us in nsmallest(MOST_SHARDS, values.shards(), key=lambda shard: shard[1]):
            family.add_metric(labels(name), time_us / 1_000_000)
    elif metric is SHARDS_METRIC:
        family.add_metric(labels(""), len(values.shards()))
    elif metric.kind is Kind.HISTOGRAM:
        for (name, label), histogram in values.histograms.items():
            if name == metric.name:
                family.add_metric(labels(label), _buckets(histogram), histogram.total)
    else:
        for (name, label), number in values.numbers.items():
            if name == metric.name:
                family.add_metric(labels(label), number)


def _buckets(histogram: _Histogram) -> list[tuple[str, float]]:
    """The cumulative counts of a histogram, by upper bound."""
    bounds = [*map(str, BUCKETS), "+Inf"]
    sums = [sum(histogram.counts[: place + 1]) for place in range(len(bounds))]
    return list(zip(bounds, sums, strict=True))


# What the queries of this process are recorded in.
RECORDER = Recorder()
