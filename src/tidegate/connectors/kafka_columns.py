"""The columns of a Kafka source, known without Spark.

Undecoded, they are Spark's: key, value, topic and so on. Decoded, they are the fields of the value,
and what else a record has under names that begin with ``kafka_``.
"""

from __future__ import annotations

from collections.abc import Mapping

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
}

JSON, AVRO, BYTES = "json", "avro", "bytes"
VALUES = (JSON, AVRO, BYTES)


def has_headers(options: Mapping[str, str]) -> bool:
    """Whether Spark is asked for the headers of records."""
    lower = {name.lower(): text.lower() for name, text in options.items()}
    return lower.get("includeheaders") == "true"


def beside(options: Mapping[str, str]) -> dict[str, str]:
    """Return the names of ``BESIDE`` that a source with these options has."""
    return {name: own for name, own in BESIDE.items() if own != "headers" or has_headers(options)}


def kafka_columns(source: SourceConfig) -> tuple[Column, ...] | None:
    """Return the columns of a Kafka source; None if only Spark can tell them."""
    if source.value in (None, BYTES):
        return tuple(
            Column(name=name, type=kind)
            for name, kind in RAW.items()
            if name != "headers" or has_headers(source.options)
        )
    fields = (
        parse_schema(source.schema or "")
        if source.value == JSON
        else avro_columns(source.avro_schema or "")
    )
    if fields is None:
        return None
    others = beside(source.options).items()
    return (*fields, *(Column(name=name, type=RAW[own]) for name, own in others))
