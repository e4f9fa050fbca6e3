"""Kafka as a source: records whose values are decoded by Spark's functions.

A value that cannot be decoded is recognized: a hidden column holds its text or bytes, and the
engine makes an error row of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.connectors.avro import telling_schema
from tidegate.connectors.kafka_columns import AVRO, BYTES, beside, reader_options
from tidegate.connectors.sources import spark_errors
from tidegate.names import in_backticks
from tidegate.plan.columns import MALFORMED
from tidegate.plan.settings import ErrorPolicy
from tidegate.spark.jars import check_package
from tidegate.spark.statements import empty_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.plan.pipeline import SourceConfig

# The decoded value while the columns of a source are made, and a BOOLEAN of Avro values.
_VALUE, _DECODED = "_tidegate_value", "_tidegate_decoded"

NO_VALUE = "the record has no value"
_TEXT = "CAST(value AS STRING)"
# JSON is UTF-8; Spark reads other bytes as replacement characters.
_IS_TEXT = f"is_valid_utf8({_TEXT})"
_BASE64 = "concat('base64:', base64(value))"


def read_kafka(spark: SparkSession, source: SourceConfig, policy: ErrorPolicy) -> DataFrame:
    """Return the records of topics as a stream.

    Args:
        spark: the session.
        source: the source; ``value`` says how values are decoded.
        policy: what to do with malformed values. With ``side_output`` the frame has one more
            column, ``MALFORMED``: their text, or their bytes as ``base64:..``; NULL for all others.

    Raises:
        ConfigError: Spark lacks the format, or refuses the options or the schema.
    """
    with spark_errors(source):
        reader = spark.readStream.format("kafka")
        records = reader.options(**reader_options(source)).load()
        if source.value in (None, BYTES):
            return records
        check_package(spark, source.value or "", source.place)
        decode = _avro if source.value == AVRO else _json
        value, malformed = decode(spark, source, policy)
        decoded = records.withColumn(_VALUE, value)
        schema = decoded.schema[_VALUE].dataType
        assert isinstance(schema, StructType), "values are decoded as records"
        fields = [name for name in schema.names if name not in (MALFORMED, _DECODED)]
        columns = [f"{_VALUE}.{in_backticks(name)} AS {in_backticks(name)}" for name in fields]
        columns += [f"{own} AS {name}" for name, own in beside(source).items()]
        if policy is ErrorPolicy.SIDE_OUTPUT:
            columns.append(f"{malformed} AS {MALFORMED}")
        return decoded.selectExpr(*columns)


def _json(spark: SparkSession, source: SourceConfig, policy: ErrorPolicy) -> tuple[Column, str]:
    """Return the decoded value, and Spark SQL for the text of one that is malformed."""
    schema = empty_frame(spark, source.schema or "").schema
    options = {"mode": "FAILFAST" if policy is ErrorPolicy.FAIL else "PERMISSIVE"}
    if policy is ErrorPolicy.SIDE_OUTPUT:
        schema = StructType([*schema.fields, StructField(MALFORMED, StringType())])
        options["columnNameOfCorruptRecord"] = MALFORMED
    text = _needed(_TEXT, f"value IS NOT NULL AND {_IS_TEXT}", policy)
    is_bad = f"{_VALUE} IS NULL OR {_VALUE}.{MALFORMED} IS NOT NULL OR NOT {_IS_TEXT}"
    shown = f"IF({_IS_TEXT}, {_TEXT}, {_BASE64})"
    malformed = f"CASE WHEN value IS NULL THEN '{NO_VALUE}' WHEN {is_bad} THEN {shown} END"
    return functions.from_json(text, schema, options), malformed


def _avro(spark: SparkSession, source: SourceConfig, policy: ErrorPolicy) -> tuple[Column, str]:
    """Return the decoded value, and Spark SQL for the bytes of one that is malformed."""
    assert source.avro_schema is not None, "checked with the configuration"
    options = {
        "mode": "FAILFAST" if policy is ErrorPolicy.FAIL else "PERMISSIVE",
        "avroSchema": telling_schema(source.avro_schema, _DECODED),
    }
    value = functions.call_function(
        "from_avro",
        _needed("value", "value IS NOT NULL", policy),
        functions.lit(source.avro_schema),
        functions.create_map(*(functions.lit(word) for pair in options.items() for word in pair)),
    )
    malformed = (
        f"CASE WHEN value IS NULL THEN '{NO_VALUE}' "
        f"WHEN {_VALUE}.{_DECODED} IS NULL THEN {_BASE64} END"
    )
    return value, malformed


def _needed(value: str, condition: str, policy: ErrorPolicy) -> Column:
    """A value, which raises with ``error_policy = "fail"`` where the condition does not hold."""
    if policy is not ErrorPolicy.FAIL:
        return functions.expr(value)
    failure = f"raise_error('{NO_VALUE}, or it is not UTF-8')"
    return functions.expr(f"CASE WHEN {condition} THEN {value} ELSE {failure} END")
