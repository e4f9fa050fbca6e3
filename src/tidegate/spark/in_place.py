"""Rows that Spark leaves in the tasks that read them, where it would shuffle them by a key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tidegate.spark.calls import OTHER_SPARK, calls_of

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """Rows that are not shuffled.

    Attributes:
        tasks: how many tasks read them.
        frame: returns the rows. Spark takes them for one partition, so a window over a key, or a
            sort, runs in each task for itself; and for sorted by the given columns, so it does not
            sort them. If they are not, whoever uses them must see that. None if this Spark is built
            in another way.
    """

    tasks: int
    frame: Callable[[Sequence[str]], DataFrame | None]


def in_place(frame: DataFrame) -> InPlace | None:
    """Return rows that are not shuffled; None if this Spark is built in another way.

    The frame is planned at once, and subqueries and broadcasts in its plan run. Numbers that it
    observes are lost.
    """
    spark = frame.sparkSession
    try:
        calls = calls_of(spark)
        plan = frame._jdf.queryExecution().executedPlan()
        columns, rows, logical = plan.output(), plan.execute(), frame._jdf.logicalPlan()

        tasks: int = rows.getNumPartitions()
    except OTHER_SPARK as error:
        _LOG.debug("rows are shuffled: %s", error)
        return None

    def in_order(order: Sequence[str]) -> DataFrame | None:
        try:
            node: Any = calls.planned(logical, calls.in_place(columns, rows, order))
            return DataFrame(calls.frame_of(spark._jsparkSession, node), spark)
        except OTHER_SPARK as error:
            _LOG.debug("rows are shuffled or sorted: %s", error)
            return None

    return InPlace(tasks=tasks, frame=in_order)
