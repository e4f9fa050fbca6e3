"""Reads tables, times and TOML lines of a block; columns are two or more spaces apart."""

from __future__ import annotations

import re
import tomllib

from tidegate.cases.blocks import Block, Line
from tidegate.cases.model import Cell, Column, Rows
from tidegate.cases.values import read_cell, read_text, read_time

_CELL = re.compile(r'"[^"]*"(?=\s{2,}|\s*$)|\S+(?: \S+)*')


def read_rows(block: Block) -> Rows:
    """Return the expected rows under a block, none for ``nothing``; raises CaseError."""
    if not block.lines:
        raise block.fail(
            f"{block.word!r} has no rows", 'Write a header line and rows, or "nothing".'
        )
    header, *rows = block.lines
    if not rows and header.text.strip() == "nothing":
        return Rows()
    names = tuple(cell.text for cell in read_cells(header))
    if len(set(names)) != len(names):
        raise block.fail(
            "a column is named twice", "Give every column its own name.", header.number
        )
    return Rows(columns=names, rows=tuple(_row_cells(block, line, len(names)) for line in rows))


def _row_cells(block: Block, line: Line, count: int) -> tuple[Cell, ...]:
    cells = read_cells(line)
    if len(cells) != count:
        raise block.fail(
            f"the row has {len(cells)} cells, the header {count}",
            "Separate columns by two or more spaces; quote text with two spaces in a row.",
            line.number,
        )
    return cells


def read_cells(line: Line) -> tuple[Cell, ...]:
    """Return the cells of a line."""
    return tuple(read_text(text) for text in _CELL.findall(line.text))


def read_column(block: Block, number: int, name: str, type_name: str) -> Column:
    """Return a column and its type in capitals; raises CaseError."""
    if not type_name.strip():
        raise block.fail(
            f"column {name!r} has no type", "Write the column and its Spark SQL type.", number
        )
    return Column(name=name, type=re.sub(r"\s+", "", type_name).upper())


def read_typed_row(block: Block, line: Line, columns: tuple[Column, ...]) -> tuple[object, ...]:
    """Return the values of a line as the columns' types; raises CaseError."""
    cells = _row_cells(block, line, len(columns))
    try:
        return tuple(
            read_cell(cell, column.type) for cell, column in zip(cells, columns, strict=True)
        )
    except ValueError as error:
        raise block.fail(
            str(error),
            "Put text with two spaces in a row in double quotes; write NULL without quotes.",
            line.number,
        ) from error


def read_moment(block: Block, text: str) -> int:
    """Return a time in microseconds; raises CaseError."""
    try:
        return read_time(text)
    except ValueError as error:
        raise block.fail(str(error), "Times are UTC.") from error


def read_toml(block: Block) -> dict[str, object]:
    """Return the TOML lines under a block; raises CaseError."""
    try:
        return tomllib.loads("\n".join(line.text.strip() for line in block.lines))
    except tomllib.TOMLDecodeError as error:
        raise block.fail(
            f"not TOML: {error}", 'Write lines such as watermark_lag = "2s".'
        ) from error
