"""Sources: the DataFrames of the streams and tables that a pipeline file names."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.errors import ConfigError
from tidegate.names import in_backticks
from tidegate.plan.pipeline import SourceConfig

# Formats whose streams need a schema; other formats bring their own.
INFERRED_FORMATS = ("csv", "json", "parquet", "orc")

_CONDITION = re.compile(r"\[([A-Z_.]+)\] ([^\n]*)")
_WILDCARDS = "*?[{"
_log = logging.getLogger(__name__)


def read_stream(spark: SparkSession, source: SourceConfig) -> DataFrame:
    """Return a stream. Files without a schema get the one that a batch read of them finds.

    Raises:
        ConfigError: the path is not there, the schema is wrong, or Spark lacks the format.
    """
    _check_path(source)
    with _spark_errors(source):
        reader = spark.readStream.format(source.format).options(**source.options)
        if source.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", source.max_files_per_trigger)
        schema = source.schema
        if schema is not None:
            reader = reader.schema(schema)
        elif source.format in INFERRED_FORMATS:
            reader = reader.schema(_infer(spark, source))
        return reader.load(source.path) if source.path else reader.load()


def read_table(spark: SparkSession, source: SourceConfig) -> DataFrame:
    """Return a static table, or the rows that a stream's files hold now.

    Raises:
        ConfigError: the path is not there, the schema is wrong, or Spark lacks the format.
    """
    _check_path(source)
    with _spark_errors(source):
        reader = spark.read.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        elif source.format == "csv" and "inferSchema" not in source.options:
            reader = reader.option("inferSchema", True)
        return reader.load(source.path) if source.path else reader.load()


def _infer(spark: SparkSession, source: SourceConfig) -> StructType:
    schema = read_table(spark, source).schema
    columns = ", ".join(
        f"{in_backticks(f.name)} {f.dataType.simpleString()}" for f in schema.fields
    )
    _log.info("%s: schema found in the files: %s", place(source), columns)
    return schema


def place(source: SourceConfig) -> str:
    """Return how messages name a source."""
    return f"{'sources' if source.streaming else 'tables'}.{source.name}"


def _check_path(source: SourceConfig) -> None:
    """Refuse a local path that is not there; Spark says so only in the first batch, or never."""
    if source.path is None:
        return
    local = source.path.removeprefix("file://")
    if ":" in local.partition("/")[0]:
        return  # another file system
    if not any(character in local for character in _WILDCARDS) and not Path(local).exists():
        raise ConfigError(
            f'{place(source)}: path = "{source.path}": there is no such file or folder\n\n'
            "Make the folder, or correct the path; it is from the folder of the pipeline file on."
        )


@contextmanager
def _spark_errors(source: SourceConfig) -> Iterator[None]:
    """Tell what Spark says of a source as a mistake in its configuration."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # PySpark turns most errors of Spark into its own, but not that of an unknown format.
        match = _CONDITION.search(str(error))
        condition, said = match.groups() if match else ("", str(error).strip().split("\n")[0])
        said = said.partition(" SQLSTATE:")[0].rstrip(".")
        mend = "Correct the source's format, path, schema or options."
        for start, better in _MENDS.items():
            if condition.startswith(start):
                mend = better
        raise ConfigError(f"{place(source)}: Spark cannot read it: {said}\n\n{mend}") from error


_MENDS = {
    "DATA_SOURCE_NOT_FOUND": "Correct the format, or name its package in [pipeline]: "
    'spark.jars.packages = "group:artifact:version".',
    "PATH_NOT_FOUND": "Correct the path; it is from the folder of the pipeline file on.",
    "UNABLE_TO_INFER_SCHEMA": "There are no rows to infer a schema from: give one, e.g. schema = "
    '"ts TIMESTAMP, user STRING".',
    "PARSE_SYNTAX_ERROR": 'A schema is DDL, e.g. schema = "ts TIMESTAMP, user STRING".',
}
