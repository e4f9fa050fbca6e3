"""Writes src/tidegate/plan/spark_functions.txt from Spark's own function registry.

One name per line, `name aggregate` for aggregates. Run it when the tested version of Spark changes:

    python scripts/list_functions.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.spark.java import ensure_java

LIST = Path(__file__).parents[1] / "src" / "tidegate" / "plan" / "spark_functions.txt"

# Calls that are part of Spark's grammar and not in its registry.
SPECIAL_FORMS = (
    "cast",
    "exists",
    "extract",
    "if",
    "overlay",
    "position",
    "timestampadd",
    "timestampdiff",
    "trim",
    "try_cast",
)

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_AGGREGATES = (
    f"{_CATALYST}.aggregate.AggregateFunction",
    f"{_CATALYST}.RuntimeReplaceableAggregate",
)


def main() -> None:
    """Write the list."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    ensure_java()
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    aggregates, others = _read_registry(spark)
    version = spark.version
    spark.stop()
    others |= set(SPECIAL_FORMS) - aggregates
    names = sorted(aggregates | others)
    lines = [f"{name} aggregate" if name in aggregates else name for name in names]
    LIST.write_text("\n".join([f"# The functions of Spark {version}.", *lines]) + "\n")
    print(f"{LIST}: {len(names)} functions, {len(aggregates)} of them aggregates")


def _read_registry(spark: SparkSession) -> tuple[set[str], set[str]]:
    """Return the names of the aggregates and of all other functions, without operators."""
    jvm = spark._jvm
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    loader = jvm.Thread.currentThread().getContextClassLoader()
    kinds = [loader.loadClass(name) for name in _AGGREGATES]
    aggregates: set[str] = set()
    others = {
        name for name in _names(analysis.TableFunctionRegistry.functionSet()) if name.isidentifier()
    }
    for name in _names(analysis.FunctionRegistry.functionSet()):
        if not name.isidentifier():
            continue
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        info = analysis.FunctionRegistry.builtin().lookupFunction(identifier).get()
        # rank() and the like are aggregates to Catalyst, but run only in OVER (..).
        is_kind = info.getGroup() != "window_funcs" and any(
            kind.isAssignableFrom(loader.loadClass(info.getClassName())) for kind in kinds
        )
        is_aggregate = info.getGroup() == "agg_funcs" or is_kind
        (aggregates if is_aggregate else others).add(name)
    return aggregates, others


def _names(identifiers: object) -> set[str]:
    found = set()
    iterator = identifiers.iterator()  # type: ignore[attr-defined]
    while iterator.hasNext():
        found.add(iterator.next().funcName())
    return found


if __name__ == "__main__":
    main()
