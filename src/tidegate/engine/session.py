"""The settings of the sessions in which steps run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.isolation import pin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Adaptive execution plans again between stages,
# which costs a small batch 40 ms; a step knows the sizes and sets the number of tasks itself.
#
# IN with literals always becomes a set, which is passed to the generated code by reference (never a
# switch). So Spark need not compile again if the values differ from batch to batch.
#
# With a segment tree the cost of a sliding window's frame does not depend on its length.
STEP_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.window.segmentTree.enabled": "true",
    "spark.sql.window.segmentTree.minPartitionRows": "512",
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    "spark.sql.optimizer.inSetSwitchThreshold": "0",
}


def set_up(spark: SparkSession) -> None:
    """Make a private session one for steps."""
    pin(spark)
    for name, value in STEP_CONF.items():
        spark.conf.set(name, value)
