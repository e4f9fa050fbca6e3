"""Prints results: a table for people, CSV or JSON lines for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tidegate.names import in_backticks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def print_frame(frame: DataFrame, *, output: str, most_rows: int) -> None:
    """Print the rows of a frame; a table has at most ``most_rows`` of them, 0 means all.

    Spark converts values to text, so that times are in the session's time zone, not the machine's.
    """
    columns = [in_backticks(name) for name in frame.columns]
    if output == "json":
        options = "map('ignoreNullFields', 'false')"
        for row in frame.selectExpr(f"to_json(struct(*), {options})").toLocalIterator():
            click.echo(row[0])
        return
    texts = frame.selectExpr(*(f"CAST({column} AS STRING)" for column in columns))
    if output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(frame.columns)
        writer.writerows(texts.toLocalIterator())
        return
    rows = [tuple(row) for row in (texts.take(most_rows + 1) if most_rows else texts.collect())]
    shown = rows[:most_rows] if most_rows else rows
    right = [type_name.startswith(_NUMBERS) for _, type_name in frame.dtypes]
    print_table(frame.columns, shown, right)
    if len(rows) > len(shown):
        click.echo(f"The first {most_rows:,} rows; --rows 0 prints all.")
    else:
        click.echo(f"{len(rows):,} row{'' if len(rows) == 1 else 's'}")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | None]], right: Sequence[bool]
) -> None:
    """Print text in columns; ``right`` says which columns are right-aligned."""
    texts = [["NULL" if value is None else value for value in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, texts, right)
        return
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in (columns, ["-" * width for width in widths], *texts):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _print_rich(
    columns: Sequence[str], texts: Iterable[Sequence[str]], right: Sequence[bool]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column, to_right in zip(columns, right, strict=True):
        table.add_column(Text(column), justify="right" if to_right else "left")
    for row in texts:
        table.add_row(*map(Text, row))
    Console().print(table)
