"""Spark without generated code: it interprets expressions, as it does where code gets too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def interpreting(
    spark: SparkSession, more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Turn generated code off for a while; ``more`` settings are set and put back with it."""
    settings = {**SETTINGS, **(more or {})}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))
