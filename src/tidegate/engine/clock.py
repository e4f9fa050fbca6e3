"""The clock: ticks let time pass for a query when no rows come.

Spark calls ``foreachBatch`` only when there is data. A plan that must meet deadlines by the clock
therefore unions a slow ``rate`` stream; its rows are ticks, which carry the clock and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.plan.settings import TimeMode
from tidegate.plan.windows import Count, Sliding, State
from tidegate.time import MICROS_PER_SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.physical import PhysicalPlan

# BOOLEAN, only in plans that need ticks: the row is one.
TICK = "_tick"


def needs_ticks(plan: PhysicalPlan) -> bool:
    """Whether the passing of time alone can close a window of this plan."""
    spec = plan.watermark.spec
    if spec.mode is TimeMode.EVENT:
        return spec.idle_timeout_us is not None
    match plan.watermark.window:
        case State() | Count():
            return False
        case Sliding(lookahead=None):
            return spec.emit_on_close
        case _:
            return True


def with_ticks(rows: DataFrame, interval_us: int) -> DataFrame:
    """Return prepared rows with ticks among them, one an interval (at least one a second)."""
    per_second = max(1, MICROS_PER_SECOND // interval_us)
    rate = rows.sparkSession.readStream.format("rate").option("rowsPerSecond", per_second).load()
    clock = "unix_micros(current_timestamp()) AS _clock"
    return without_ticks(rows).unionByName(
        rate.selectExpr(clock, f"true AS {TICK}"), allowMissingColumns=True
    )


def without_ticks(rows: DataFrame) -> DataFrame:
    """Return prepared rows of a plan that needs ticks when there are none (``once``, a table)."""
    return rows.selectExpr("*", f"false AS {TICK}")
