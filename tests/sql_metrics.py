"""What Spark counted while it ran SQL: rows that plan nodes read, and rows that they shuffled."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READ = ("Scan", "number of output rows")
SHUFFLED = ("Exchange", "shuffle records written")


@dataclass(slots=True)
class SqlMetrics:
    """Collects metrics of all statements that run within a ``with`` block."""

    spark: SparkSession
    found: list[tuple[str, str, int]] = field(default_factory=list)
    _last_before: int = -1

    def __enter__(self) -> SqlMetrics:
        self._last_before = max(self._executions(), default=-1)
        return self

    def __exit__(self, *_: object) -> None:
        # The listener that counts runs behind.
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        for execution in self._executions():
            if execution > self._last_before:
                self._collect(execution)

    def of(self, metric: tuple[str, str]) -> list[int]:
        """Return the values of a metric, one for each node that has it."""
        node, name = metric
        return [value for at, called, value in self.found if at.startswith(node) and called == name]

    @property
    def _store(self) -> Any:
        return self.spark._jsparkSession.sharedState().statusStore()

    def _executions(self) -> list[int]:
        executions = self._store.executionsList()
        return [executions.apply(n).executionId() for n in range(executions.size())]

    def _collect(self, execution: int) -> None:
        values = self._store.executionMetrics(execution)
        nodes = self._store.planGraph(execution).allNodes()
        for node in (nodes.apply(number) for number in range(nodes.size())):
            for metric in (node.metrics().apply(n) for n in range(node.metrics().size())):
                value = values.get(metric.accumulatorId())
                if value.isDefined():
                    # A total may be followed by the least, median and greatest of all tasks.
                    number = re.search(r"[\d,]+", value.get().rpartition("\n")[2])
                    if number:
                        self.found.append(
                            (node.name(), metric.name(), int(number[0].replace(",", "")))
                        )
