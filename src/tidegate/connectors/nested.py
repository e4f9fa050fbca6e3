"""Formats that cannot hold nested columns: CSV holds none, a database only arrays of plain values.

Types are told by their text, so this needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.connectors.table import SinkKind

_NESTED = ("MAP", "STRUCT", "VARIANT")


def nested_column(columns: Iterable[tuple[str, str]], kind: SinkKind) -> str | None:
    """Return the first column that a kind of sink cannot hold, with its type, or None.

    Args:
        columns: the name and the type (DDL) of each column.
        kind: the row of ``SINKS``.
    """
    if kind.nested:
        return None
    refused = _NESTED if kind.arrays else (*_NESTED, "ARRAY")
    return next(
        (
            f"{name} {type_.upper():.80}"
            for name, type_ in columns
            if type_.upper().startswith(refused)
        ),
        None,
    )


def cannot_hold(file_format: str, column: str) -> str:
    """Return why a format cannot hold results with a nested column, and what to do."""
    return (
        f"format {file_format} cannot hold the column {column} of the results\n\n"
        f'Choose "json", "parquet" or "orc", or make it text in the statement, e.g. with to_json.'
    )
