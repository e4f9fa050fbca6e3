"""CSV and JSON: values are text, which may not fit the type of the column.

Spark silently reads such a value as NULL. Here a malformed record is recognized: a hidden column
holds its text, and the engine makes an error row of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.connectors.headers import Header, columns_in_file
from tidegate.connectors.samples import check_samples
from tidegate.connectors.table import tells_malformed
from tidegate.errors import ConfigError
from tidegate.names import quoted
from tidegate.plan.columns import MALFORMED
from tidegate.plan.settings import ErrorPolicy
from tidegate.spark.statements import empty_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.plan.pipeline import SourceConfig

# Reads a source: takes the columns in the files and options of Spark's reader.
Load = Callable[[StructType, dict[str, str]], "DataFrame"]


def read_text(
    spark: SparkSession, source: SourceConfig, path: str, load: Load, policy: ErrorPolicy
) -> DataFrame:
    """Return the rows of CSV or JSON files.

    Args:
        spark: the session.
        source: the source.
        path: its path as Spark takes it.
        load: reads the files, as a stream or as a table.
        policy: what to do with malformed records. With ``side_output`` the frame has one more
            column, ``MALFORMED``: the text of a malformed record, NULL for all others.

    Raises:
        ConfigError: the files contradict the options or the schema.
    """
    options = _options(source, policy)
    lower = {name.lower(): value for name, value in options.items()}
    assert source.path is not None, "checked with the configuration: file formats have a path"
    check_samples(source.format, source.path, lower, source.advise)
    wanted = _wanted(spark, source, path, options)
    in_file = wanted
    # With ``enforceSchema`` the user decides whether values are assigned by position.
    if source.format == "csv" and "enforceschema" not in lower:
        if source.schema is not None:
            in_file = _in_order_of_header(spark, source, path, wanted)
        if lower.get("header", "false").lower() == "true":
            # Spark then fails on a file whose header does not have these columns in this order.
            options["enforceSchema"] = "false"
    if options.get("columnNameOfCorruptRecord") != MALFORMED:
        frame = load(in_file, options)
        return frame if in_file is wanted else frame.selectExpr(*map(quoted, wanted.names))
    told = StructType([*in_file.fields, StructField(MALFORMED, StringType())])
    frame = load(told, options)
    return frame.selectExpr(*map(quoted, wanted.names), f"{_malformed(in_file)} AS {MALFORMED}")


def _options(source: SourceConfig, policy: ErrorPolicy) -> dict[str, str]:
    """Return the options of Spark's reader; the user's take precedence over ours."""
    ours: dict[str, str] = {}
    given = {name.lower() for name in source.options}
    if source.format == "csv" and not given & {"escape", "quote"}:
        # RFC 4180: a quote inside a quoted value is doubled.
        ours["escape"] = '"'
    if not given & {"mode", "columnnameofcorruptrecord"}:
        if policy is ErrorPolicy.FAIL:
            ours["mode"] = "FAILFAST"
    if tells_malformed(source, policy):
        ours["columnNameOfCorruptRecord"] = MALFORMED
    return {**ours, **source.options}


def _wanted(
    spark: SparkSession, source: SourceConfig, path: str, options: dict[str, str]
) -> StructType:
    """Return the columns of the source: from its schema, or inferred from the files."""
    if source.schema is not None:
        return empty_frame(spark, source.schema).schema
    reader = spark.read.format(source.format).options(**{"inferSchema": "true", **options})
    found = reader.load(path).schema
    columns = [field for field in found if field.name not in (MALFORMED, "_corrupt_record")]
    if not columns:
        raise ConfigError(
            f"{source.place}: no record of it can be read as {source.format}\n\n"
            "Correct the format, or give a schema and options that fit the files."
        )
    return StructType(columns)


def _in_order_of_header(
    spark: SparkSession, source: SourceConfig, path: str, wanted: StructType
) -> StructType:
    """Return the typed columns in the order of the files; columns not wanted are STRING."""
    options = {name: value for name, value in source.options.items() if name.lower() != "header"}
    given = {name.lower(): value for name, value in source.options.items()}
    if not given.keys() & {"escape", "quote"}:
        options["escape"] = '"'
    try:
        first = spark.read.format("csv").options(**options, header="false").load(path).head()
    except AnalysisException:
        return wanted  # there is no file yet
    if first is None:
        return wanted
    header = Header(
        first=["" if value is None else value for value in first],
        is_header=given.get("header", "false").lower() == "true",
        of=source.place,
        advise=source.advise,
    )
    names = columns_in_file(header, wanted.names)
    if names == wanted.names:
        return wanted
    return StructType(
        [
            wanted[name] if name in wanted.names else StructField(name, StringType())
            for name in names
        ]
    )


def _malformed(in_file: StructType) -> str:
    """Spark SQL for the text of a malformed record, NULL for others.

    Spark parses only the columns that are used, and finds a record malformed only by these. So the
    expression uses all columns, in a condition that is always true and rarely evaluated.
    """
    nulls = " + ".join(f"CAST({quoted(name)} IS NULL AS INT)" for name in in_file.names)
    return f"CASE WHEN {MALFORMED} IS NOT NULL AND {nulls} >= 0 THEN {MALFORMED} END"
