"""Pools of Spark's scheduler: each query has its own, so that none waits for all tasks of another.

Spark gives free cores to the oldest job, so a batch of three tasks would wait behind the hundred
tasks of another query. Its fair scheduler gives them to the pool with the fewest running tasks
instead (``spark.scheduler.mode = FAIR``, which ``local_session`` sets). Without it pools have no
effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POOL = "spark.scheduler.pool"


@contextmanager
def own_pool(spark: SparkSession, name: str) -> Iterator[None]:
    """Let the jobs of a query that starts meanwhile run in a pool of its own.

    Spark's thread for the query takes over the properties of the thread that starts it.

    Args:
        spark: the session.
        name: the name of the pool; one that the user has set for this thread goes first.
    """
    context = spark.sparkContext
    if context.getLocalProperty(POOL) is not None:
        yield
        return
    context.setLocalProperty(POOL, name)
    try:
        yield
    finally:
        # Spark deletes a property that is set to nothing, whatever the annotation says.
        context.setLocalProperty(POOL, None)  # type: ignore[arg-type]
