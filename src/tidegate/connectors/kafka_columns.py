"""The columns of a Kafka source, known without Spark.

Undecoded, they are Spark's: key, value, topic and so on. Decoded, they are the fields of the value,
and what else a record has under names that begin with ``kafka_``.
"""

from __future__ import annotations

from tidegate.connectors.avro import avro_columns
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.schema import parse_schema
from tidegate.plan.statement import Column

# Spark's columns of a record; the last one only with the option ``includeHeaders``.
RAW = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}

# What a decoded record has besides its fields: the names, and Spark's columns.
BESIDE = {
    "kafka_key": "key",
    "kafka_topic": "topic",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
    "kafka_timestamp": "timestamp",
    "kafka_headers": "headers",
    "kafka_value": "value",
}
RECORD_VALUE = "kafka_value"

JSON, AVRO, BYTES = "json", "avro", "bytes"
VALUES = (JSON, AVRO, BYTES)


def reader_options(source: SourceConfig) -> dict[str, str]:
    """Return the options of Spark's reader for a source."""
    asked = {"includeHeaders": "true"} if source.keeps_records else {}
    if source.max_offsets_per_trigger is not None:
        asked["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
    return {**source.options, **asked}


def beside(source: SourceConfig) -> dict[str, str]:
    """Return the names of ``BESIDE`` that a source has, each with Spark's column."""
    left_out = set() if source.keeps_records else {"value"}
    left_out |= set() if _has_headers(source) else {"headers"}
    return {name: own for name, own in BESIDE.items() if own not in left_out}


def kafka_columns(source: SourceConfig) -> tuple[Column, ...] | None:
    """Return the columns of a Kafka source; None if only Spark can tell them."""
    if source.value in (None, BYTES):
        return tuple(
            Column(name=name, type=kind)
            for name, kind in RAW.items()
            if name != "headers" or _has_headers(source)
        )
    fields = (
        parse_schema(source.schema or "")
        if source.value == JSON
        else avro_columns(source.avro_schema or "")
    )
    if fields is None:
        return None
    others = beside(source).items()
    return (*fields, *(Column(name=name, type=RAW[own]) for name, own in others))


def _has_headers(source: SourceConfig) -> bool:
    lower = {name.lower(): text.lower() for name, text in reader_options(source).items()}
    return lower.get("includeheaders") == "true"
