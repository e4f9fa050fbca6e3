"""Sources: the DataFrames of the streams and tables that a pipeline file names."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.connectors.needed import package_of, with_driver
from tidegate.connectors.places import WILDCARDS, is_pattern
from tidegate.connectors.table import SOURCES, SourceKind
from tidegate.connectors.text_files import read_text
from tidegate.environment import without_values
from tidegate.errors import ConfigError
from tidegate.names import in_backticks
from tidegate.paths import local_path
from tidegate.plan.columns import MALFORMED
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.spark.jars import check_package
from tidegate.spark.statements import empty_frame

_CONDITION = re.compile(r"\[([A-Z_.]+)\] ([^\n]*)")
_log = logging.getLogger(__name__)


def open_stream(spark: SparkSession, source: SourceConfig, policy: ErrorPolicy) -> DataFrame:
    """Return a stream, opened by its builder in ``SOURCES``, or else by Spark's reader.

    Raises:
        ConfigError: as ``read_stream``.
    """
    check_package(spark, package_of(source.format, source.options), source.place)
    module, _, function = SOURCES.get(source.format, SourceKind()).build.partition(":")
    build: Callable[..., DataFrame] = getattr(import_module(module), function)
    return build(spark, source, policy)


def read_stream(
    spark: SparkSession, source: SourceConfig, policy: ErrorPolicy = ErrorPolicy.NULL
) -> DataFrame:
    """Return a stream. For files without a schema, a batch read of them finds it.

    Args:
        spark: the session.
        source: the source.
        policy: what to do with malformed records of text files.

    Raises:
        ConfigError: the path does not exist, the schema is wrong, the files contradict the options,
            or Spark lacks the format.
    """

    def load(schema: StructType | None, options: Mapping[str, str]) -> DataFrame:
        reader = spark.readStream.format(source.format).options(**options)
        if source.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", source.max_files_per_trigger)
        reader = reader if schema is None else reader.schema(schema)
        return reader.load(path) if path else reader.load()

    with spark_errors(source):
        path = _readable(spark, source)
        kind = SOURCES.get(source.format)
        if kind is not None and kind.text and path:
            frame = read_text(spark, source, path, load, policy)
        elif source.schema is not None:
            return load(empty_frame(spark, source.schema).schema, source.options)
        elif kind is not None and kind.infers and path:
            found = spark.read.format(source.format).options(**source.options).load(path)
            frame = load(found.schema, source.options)
        else:
            return load(None, source.options)
        if source.schema is None:
            columns = ", ".join(
                f"{in_backticks(f.name)} {f.dataType.simpleString()}"
                for f in frame.schema.fields
                if f.name != MALFORMED
            )
            _log.info("%s: schema found in the files: %s", source.place, columns)
        return frame


def read_table(
    spark: SparkSession, source: SourceConfig, policy: ErrorPolicy = ErrorPolicy.NULL
) -> DataFrame:
    """Return a static table, or the rows that a stream's files hold now.

    Args:
        spark: the session.
        source: the source.
        policy: what to do with malformed records of text files.

    Raises:
        ConfigError: as ``read_stream``.
    """
    check_package(spark, package_of(source.format, source.options), source.place)

    def load(schema: StructType | None, options: Mapping[str, str]) -> DataFrame:
        reader = spark.read.format(source.format)
        reader = reader.options(**with_driver(source.format, options))
        reader = reader if schema is None else reader.schema(schema)
        return reader.load(path) if path else reader.load()

    with spark_errors(source):
        path = _readable(spark, source)
        kind = SOURCES.get(source.format)
        if kind is not None and kind.text and path:
            return read_text(spark, source, path, load, policy)
        schema = None if source.schema is None else empty_frame(spark, source.schema).schema
        return load(schema, source.options)


def _readable(spark: SparkSession, source: SourceConfig) -> str | None:
    """Return the path of a source as Spark's readers take it.

    They treat every path as a pattern. If a path exists exactly as it is written, it is meant
    literally and its wildcards are escaped.

    Raises:
        ConfigError: a local path does not exist; Spark reports that in the first batch, or never.
    """
    path = source.path
    if path is None or not any(character in path for character in WILDCARDS):
        _check_path(source)
        return path
    if not is_pattern(path) or (local_path(path) is None and _exists(spark, path)):
        return _SPECIAL.sub(r"\\\g<0>", path)
    return path


# The special characters of Hadoop's patterns.
_SPECIAL = re.compile(r"[\\{}\[\]*?]")


def _exists(spark: SparkSession, path: str) -> bool:
    jvm: Any = spark._jvm
    there = jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return bool(there.getFileSystem(conf).exists(there))


def _check_path(source: SourceConfig) -> None:
    local = None if source.path is None else local_path(source.path)
    if local is not None and not local.exists():
        raise ConfigError(
            f'{source.place}: path = "{source.path}": there is no such file or folder\n\n'
            "Create the folder, or correct the path; it is relative to the pipeline file's folder."
        )


@contextmanager
def spark_errors(source: SourceConfig) -> Iterator[None]:
    """Report Spark's errors about a source as mistakes in its configuration."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # PySpark converts most errors of Spark, but not the one for an unknown format.
        match = _CONDITION.search(str(error))
        condition, said = match.groups() if match else ("", str(error).strip().split("\n")[0])
        said = said.partition(" SQLSTATE:")[0].rstrip(".")
        mend = "Correct the source's format, path, schema or options."
        for start, better in _MENDS.items():
            if condition.startswith(start):
                mend = better
        if "TIMESTAMP(NANOS" in str(error):
            mend = (
                "Write the files with timestamps in microseconds, or set "
                "spark.sql.legacy.parquet.nanosAsLong = true: the column is then a BIGINT, and "
                'event_time_unit = "ns" reads it.'
            )
        said = without_values(said)
        raise ConfigError(f"{source.place}: Spark cannot read it: {said}\n\n{mend}") from error


@contextmanager
def reporting_headers() -> Iterator[None]:
    """Turn Spark's error about a CSV file whose header differs from the first one into ours.

    Raises:
        ConfigError: the header of a file differs.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _OTHER_HEADER.search(str(error))
        if found is None:
            raise
        header, expected, file = found.groups()
        raise ConfigError(
            f"{file}: the header is {header}, but that of the first file is {expected}\n\n"
            "Give all files the same columns in the same order."
        ) from error


_OTHER_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: ([^\n]*)\n Schema: ([^\n]*)\n"
    r"(?:[^\n]*\n)?\s*CSV file: ([^\n]*)"
)

_MENDS = {
    "DATA_SOURCE_NOT_FOUND": "Correct the format, or name its package in [pipeline]: "
    'spark.jars.packages = "group:artifact:version".',
    "PATH_NOT_FOUND": "Correct the path; it is relative to the pipeline file's folder.",
    "UNABLE_TO_INFER_SCHEMA": "There are no rows to infer a schema from: give one, e.g. schema = "
    '"ts TIMESTAMP, user STRING".',
    "PARSE_SYNTAX_ERROR": 'A schema is DDL, e.g. schema = "ts TIMESTAMP, user STRING".',
}
