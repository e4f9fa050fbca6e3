"""Avro schemas: their columns in Spark, and a schema that tells which values could be decoded."""

from __future__ import annotations

import json
from typing import Any

from tidegate.plan.statement import Column

# Spark's types by Avro's, alone and with a logical type.
_SIMPLE = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "enum": "STRING",
    "bytes": "BINARY",
    "fixed": "BINARY",
}
_LOGICAL = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}


class _OtherType(Exception):
    """A type whose column only Spark knows, such as a union of several types."""


def read_avro_schema(text: str) -> dict[str, Any]:
    """Return the schema of a record.

    Raises:
        ValueError: the text is no JSON, or not the schema of a record with fields.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the Avro schema is not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError('the Avro schema is not that of a record: it has no "type": "record"')
    fields = schema.get("fields")
    if not isinstance(fields, list) or not fields:
        raise ValueError("the Avro schema has no fields")
    for field in fields:
        if not isinstance(field, dict) or not {"name", "type"} <= field.keys():
            raise ValueError(f"the Avro schema has a field without name and type: {field!r:.80}")
    return schema


def avro_columns(text: str) -> tuple[Column, ...] | None:
    """Return the columns of a record of a schema; None if only Spark can tell their types."""
    try:
        fields = read_avro_schema(text)["fields"]
        return tuple(Column(name=each["name"], type=_type(each["type"])) for each in fields)
    except _OtherType:
        return None


def telling_schema(text: str, mark: str) -> str:
    """Return a schema for readers that gives every decoded record one more field, false.

    Spark reads a value that cannot be decoded as a record of NULLs; there the field is NULL too.
    """
    schema = read_avro_schema(text)
    field = {"name": mark, "type": "boolean", "default": False}
    return json.dumps({**schema, "fields": [*schema["fields"], field]})


def _type(schema: Any) -> str:  # noqa: ANN401 - JSON
    """Return the type of a column, as Spark reads it."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) == 1 and len(schema) <= 2:
            return _type(others[0])
        raise _OtherType
    if not isinstance(schema, dict):
        schema = {"type": schema}
    word = schema.get("type")
    if schema.get("logicalType") == "decimal":
        return f"DECIMAL({schema.get('precision')}, {schema.get('scale', 0)})"
    found = _LOGICAL.get((str(word), str(schema.get("logicalType")))) or _SIMPLE.get(
        word if isinstance(word, str) else ""
    )
    if found is not None:
        return found
    return _nested(schema)


def _nested(schema: Any) -> str:  # noqa: ANN401 - JSON
    match schema:
        case {"type": "array", "items": items}:
            return f"ARRAY<{_type(items)}>"
        case {"type": "map", "values": values}:
            return f"MAP<STRING, {_type(values)}>"
        case {"type": "record", "fields": list(fields)}:
            inside = ", ".join(f"`{each['name']}`: {_type(each['type'])}" for each in fields)
            return f"STRUCT<{inside}>"
        case {"type": dict(inner)}:
            return _type(inner)
        case _:
            raise _OtherType
