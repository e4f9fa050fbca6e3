"""Checks of the keys with which a Kafka source is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidegate.config.model import PipelineFile, SourceSection
from tidegate.config.problems import Problem
from tidegate.connectors.avro import read_avro_schema
from tidegate.connectors.kafka_columns import AVRO, BESIDE, JSON
from tidegate.paths import why_unreadable
from tidegate.plan.schema import parse_schema


def avro_schema_text(given: str, folder: Path) -> str:
    """Return an Avro schema as text: as it is given, or what its file contains.

    Raises:
        OSError: the file cannot be read.
    """
    is_text = given.lstrip().startswith(("{", "[", '"'))
    return given if is_text else (folder / given).read_text(encoding="utf-8-sig")


def kafka_problems(sections: PipelineFile, folder: Path) -> Iterator[Problem]:
    """Yield what is wrong with the decoding of Kafka sources; ``folder`` is that of the file."""
    for name, source in sections.sources.items():
        if source.format == "kafka":
            yield from _decoding_problems(("sources", name), source, folder)


def _decoding_problems(
    path: tuple[str, str], source: SourceSection, folder: Path
) -> Iterator[Problem]:
    needed = {JSON: "schema", AVRO: "avro_schema"}.get(source.value or "")
    given = {"schema": source.ddl, "avro_schema": source.avro_schema}
    for key, text in given.items():
        if key == needed and text is None:
            yield Problem(
                path=(*path, "value"),
                what=f'value = "{source.value}" needs {key}',
                mend=_MENDS[key],
            )
        if key != needed and text is not None:
            word = JSON if key == "schema" else AVRO
            yield Problem(
                path=(*path, key),
                what=f'{key} is for value = "{word}"',
                mend=f'Write value = "{word}", or leave {key} out.',
            )
    try:
        names = _fields(source, folder)
    except (OSError, UnicodeDecodeError) as error:
        yield Problem(
            path=(*path, "avro_schema"),
            what=f"avro_schema: the file cannot be read: {why_unreadable(error)}",
            mend="The path is relative to the folder of this file.",
        )
        return
    except ValueError as error:
        yield Problem(path=(*path, "avro_schema"), what=str(error), mend=_MENDS["avro_schema"])
        return
    for name in names:
        if name.lower() in BESIDE:
            yield Problem(
                path=(*path, needed or ""),
                what=f"{name} is a field of the value and a column of the record",
                mend=f"Rename the field; {', '.join(BESIDE)} describe the record.",
            )


def _fields(source: SourceSection, folder: Path) -> list[str]:
    """Return the names of the fields of a decoded value.

    Raises:
        OSError, UnicodeDecodeError: the file of the Avro schema cannot be read.
        ValueError: the text is not an Avro schema.
    """
    if source.value == JSON and source.ddl is not None:
        return [column.name for column in parse_schema(source.ddl)]
    if source.value == AVRO and source.avro_schema is not None:
        schema = read_avro_schema(avro_schema_text(source.avro_schema, folder))
        return [str(field["name"]) for field in schema["fields"]]
    return []


_MENDS = {
    "schema": 'Give the columns of the values, e.g. schema = "ts TIMESTAMP, user STRING".',
    "avro_schema": "Give the schema of a record as JSON, between triple quotes, or the path of "
    "its file.",
}
