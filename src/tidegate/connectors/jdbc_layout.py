"""The columns of a table for the results of a query, and those that identify a row of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, DecimalType, StringType

from tidegate.connectors.dialects import Dialect, TableColumn
from tidegate.connectors.protocol import Results
from tidegate.errors import ConfigError
from tidegate.names import in_backticks, listed, nearest
from tidegate.plan.columns import RESULT_ID, RESULT_KEYS

WINDOW_ID = "window_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How results lie in a table.

    Attributes:
        columns: the columns of the table, with the types that it is made with.
        values: for each column, its value as Spark SQL over the frame of an epoch.
        key: the columns that identify a row; empty if rows of a window have nothing of the kind,
            and all rows of a window are replaced.
        window: the column with the id of the window.
        final: the column of ``is_final()``, None without EMIT EARLY.
    """

    columns: tuple[TableColumn, ...]
    values: tuple[str, ...]
    key: tuple[str, ...]
    window: str
    final: str | None


def layout_of(results: Results, dialect: Dialect, place: str) -> Layout:
    """Return the layout of results.

    Args:
        results: the results.
        dialect: the database.
        place: the sink, for messages.

    Raises:
        ConfigError: a column has a type or a name that the database cannot hold, or a name that
            the sink needs.
    """
    found = list(_columns(results))
    names = [name for name, _, _ in found]
    for name, kind, _ in found:
        _check_name(name, names, dialect, place)
        if type_of(kind, dialect) is None:
            raise ConfigError(
                f"{place}: the column {name} is {kind.simpleString().upper():.60}, which the "
                f"database cannot hold\n\nWrite to_json({in_backticks(name)}) AS "
                f"{in_backticks(name)}, or select its fields."
            )
    window = results.window_id or WINDOW_ID
    keys = [column or text for text, column in results.keys]
    return Layout(
        columns=tuple(
            TableColumn(name=name, type=type_of(kind, dialect) or "") for name, kind, _ in found
        ),
        values=tuple(value for _, _, value in found),
        key=tuple(dict.fromkeys([window, *keys])) if results.grouped else (),
        window=window,
        final=results.final,
    )


def type_of(kind: DataType, dialect: Dialect) -> str | None:
    """Return the type in the database of a type of Spark, None if there is none."""
    match kind:
        case ArrayType(elementType=ArrayType()):
            return None
        case ArrayType(elementType=element):
            inner = type_of(element, dialect)
            return None if inner is None or dialect.array is None else dialect.array(inner)
        case DecimalType(precision=precision, scale=scale):
            return f"{dialect.types['DECIMAL']}({precision},{scale})"
        case StringType():
            return dialect.types["STRING"]
        case _:
            return dialect.types.get(kind.simpleString().upper())


def in_table(layout: Layout, there: list[TableColumn], place: str, table: str) -> Layout:
    """Return a layout for a table that exists: with its names and its types.

    Raises:
        ConfigError: the table lacks a column.
    """
    exact = {column.name: column for column in there}
    folded = {column.name.lower(): column for column in there}
    found = {c.name: exact.get(c.name) or folded.get(c.name.lower()) for c in layout.columns}
    missing = [column for column in layout.columns if found[column.name] is None]
    if missing:
        near = nearest(missing[0].name, exact)
        add = ", ".join(f'ADD COLUMN "{column.name}" {column.type}' for column in missing)
        raise ConfigError(
            f"{place}: the table {table} has no column {listed(c.name for c in missing)}"
            + (f"; its nearest is {near}" if near else "")
            + f"\n\nRename columns in the select list, or run: ALTER TABLE {table} {add}"
        )
    renamed = {name: column.name for name, column in found.items() if column is not None}
    return Layout(
        columns=tuple(column for column in found.values() if column is not None),
        values=layout.values,
        key=tuple(renamed[name] for name in layout.key),
        window=renamed[layout.window],
        final=None if layout.final is None else renamed[layout.final],
    )


def _columns(results: Results) -> Iterator[tuple[str, DataType, str]]:
    """Yield the name, the type and the value of each column: those of the results first."""
    for field in results.columns:
        yield field.name, field.dataType, in_backticks(field.name)
    if results.window_id is None:
        yield WINDOW_ID, StringType(), RESULT_ID
    for number, (text, column) in enumerate(results.keys):
        if column is None and results.grouped:
            value = f"{RESULT_KEYS}.{in_backticks(text)}"
            yield text, results.key_types[number], value


def _check_name(name: str, names: list[str], dialect: Dialect, place: str) -> None:
    if [other.lower() for other in names].count(name.lower()) > 1:
        raise ConfigError(
            f"{place}: the table needs a column {name} to identify a result, and the select list "
            f"gives another one this name\n\nRename it, e.g. .. AS {name}_1."
        )
    if len(name.encode()) > dialect.longest_name:
        raise ConfigError(
            f"{place}: the name of the column {name} has more than {dialect.longest_name} bytes, "
            "the most that the database takes\n\nGive it a shorter one with AS."
        )
