"""The columns of a sample file, found without Spark: names and types as Spark would read them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate.errors import ConfigError
from tidegate.names import in_backticks, quoted
from tidegate.paths import why_unreadable
from tidegate.plan.statement import Column

# How many records of a sample are looked at.
MOST_RECORDS = 1_000
_MOST_BYTES = 1 << 20

# Types of Arrow with their names in Spark; others by their patterns below.
_ARROW = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "large_string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
}
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


def sample_columns(file: Path, file_format: str) -> tuple[list[Column], list[dict[str, Any]]]:
    """Return the columns of a sample, and its first records.

    Args:
        file: a file with records.
        file_format: csv (with a header), json (a record in each line) or parquet.

    Raises:
        ConfigError: the file cannot be read, or has no records.
    """
    try:
        names, records = _READERS[file_format](file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {why_unreadable(error)}\n\nGive a file with some records."
        ) from None
    if not records:
        raise ConfigError(f"{file} has no records\n\nGive a file with some records.")
    if file_format == "parquet":
        return list(names), records
    of_text = file_format == "csv"
    columns = [
        Column(name=name, type=_common(_type(record.get(name), of_text) for record in records))
        for name in names
    ]
    return columns, records


def ddl_of(columns: Sequence[Column]) -> str | None:
    """Return columns as DDL, None if the type of one is not known."""
    if not all(column.type for column in columns):
        return None
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def _csv(file: Path) -> tuple[list[str], list[dict[str, Any]]]:
    rows = csv.DictReader(io.StringIO(_text(file), newline=""))
    names = [name.strip() for name in rows.fieldnames or ()]
    if any(_type(name, of_text=True) != "STRING" for name in names if name) or not all(names):
        raise ConfigError(
            f"{file}: the first line is no header: {', '.join(names)}\n\nGive a file whose first "
            "line names the columns."
        )
    rows.fieldnames = names
    return names, list(islice(rows, MOST_RECORDS))


def _json(file: Path) -> tuple[list[str], list[dict[str, Any]]]:
    records = []
    lines = (line for line in _text(file).splitlines() if line.strip())
    for number, line in enumerate(islice(lines, MOST_RECORDS), 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ConfigError(
                f"{file}, record {number} is not a JSON object\n\nGive a file with one object in "
                "each line."
            )
        records.append(record)
    return list(dict.fromkeys(name for record in records for name in record)), records


def _parquet(file: Path) -> tuple[list[Any], list[dict[str, Any]]]:
    if find_spec("pyarrow") is None:
        raise ConfigError(
            f"{file}: reading Parquet without Spark needs pyarrow\n\nRun: pip install "
            "'tidegate[state]'."
        )
    parquet = import_module("pyarrow.parquet")
    try:
        opened = parquet.ParquetFile(file, coerce_int96_timestamp_unit="us")
        batch = next(opened.iter_batches(batch_size=MOST_RECORDS), None)
    except ValueError as error:  # what pyarrow raises for bytes that are not Parquet
        raise OSError(str(error)) from error
    schema = opened.schema_arrow
    columns = [Column(name=field.name, type=_of_arrow(str(field.type))) for field in schema]
    return columns, [] if batch is None else batch.to_pylist()


_READERS: dict[str, Callable[[Path], tuple[list[Any], list[dict[str, Any]]]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}


def _text(file: Path) -> str:
    opened = gzip.open(file) if file.suffix == ".gz" else file.open("rb")
    with opened as stream:
        # A record may be cut at the end; the last line is left out then.
        data = stream.read(_MOST_BYTES)
    cut = len(data) == _MOST_BYTES
    return (data.rpartition(b"\n")[0] if cut else data).decode("utf-8-sig")


def _type(value: object, of_text: bool) -> str | None:
    """Return the type that Spark would give a value, None for NULL."""
    found: str | None = _SCALARS.get(type(value))
    match value:
        case str():
            found = _type_of_text(value.strip(), of_text)
        case list():
            found = f"ARRAY<{_common(_type(each, of_text) for each in value)}>"
        case dict():
            fields = ", ".join(
                f"{in_backticks(name)}: {_type(each, of_text) or 'STRING'}"
                for name, each in value.items()
            )
            found = f"STRUCT<{fields}>" if fields else "STRING"
    return found


_SCALARS: dict[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


def _type_of_text(text: str, of_text: bool) -> str | None:
    """The type of a text; in CSV everything is text, and an empty one is NULL."""
    if of_text and not text:
        return None
    for type_, pattern, parse in _OF_TEXT if of_text else _OF_TEXT[:2]:
        if pattern.fullmatch(text):
            with suppress(ValueError):
                parse(text)
                return type_
    return "STRING"


# The types of texts; those of JSON are only the first two.
_OF_TEXT: tuple[tuple[str, re.Pattern[str], Callable[[str], object]], ...] = (
    ("TIMESTAMP", _TIMESTAMP, datetime.fromisoformat),
    ("DATE", _DATE, date.fromisoformat),
    ("BOOLEAN", re.compile("true|false", re.IGNORECASE), str),
    ("BIGINT", _INTEGER, int),
    ("DOUBLE", _NUMBER, float),
)


def _common(types: Iterable[str | None]) -> str:
    """The type that all values can be read as."""
    found = set(types) - {None}
    for wider in ("DOUBLE", "TIMESTAMP"):
        if found == {wider, {"DOUBLE": "BIGINT", "TIMESTAMP": "DATE"}[wider]}:
            return wider
    return str(found.pop()) if len(found) == 1 else "STRING"


def _of_arrow(text: str) -> str:
    """The type of a column of Parquet; empty if Spark had better find it."""
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return f"DECIMAL({decimal[1]},{decimal[2]})"
    if text.startswith("timestamp"):
        return "TIMESTAMP"
    return _ARROW.get(text, "")
