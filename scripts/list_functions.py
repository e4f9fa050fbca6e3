"""Writes src/tidegate/sql/spark_functions.txt from Spark's own function registry.

One name a line, `name aggregate` for aggregates. Run it when the tested version of Spark changes:

    python scripts/list_functions.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.java import ensure_java

LIST = Path(__file__).parents[1] / "src" / "tidegate" / "sql" / "spark_functions.txt"

# Grammar, not functions, to the registry, but written like calls.
SPECIAL_FORMS = ("cast", "try_cast", "extract", "overlay", "exists", "if", "trim", "position")
# Operators that the registry lists beside functions.
_IS_NAME = str.isidentifier


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
    """Return the names of the aggregates and of all other functions."""
    jvm = spark._jvm
    registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    functions = registry.functionSet()
    table_functions = jvm.org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry.functionSet()
    aggregates: set[str] = set()
    others: set[str] = set()
    for each in _names(functions) | _names(table_functions):
        if not _IS_NAME(each):
            continue
        info = registry.builtin().lookupFunction(
            jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(each)
        )
        is_aggregate = info.isDefined() and info.get().getGroup() == "agg_funcs"
        (aggregates if is_aggregate else others).add(each)
    return aggregates, others


def _names(identifiers: object) -> set[str]:
    found = set()
    iterator = identifiers.iterator()  # type: ignore[attr-defined]
    while iterator.hasNext():
        found.add(iterator.next().funcName())
    return found


if __name__ == "__main__":
    main()
