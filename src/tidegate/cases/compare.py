"""Compares tables, in order or as multisets of rows; the text of a failure shows both tables.

Differing cells are between stars, ``*3*``, and red on a terminal; a missing row has a ``-`` before
it, an unexpected one a ``+``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.cases.model import Cell, Rows, SideRow
from tidegate.cases.values import cell_matches, show_value

Found = Sequence[Mapping[str, object]]

RED = "\x1b[31m"
PLAIN = "\x1b[0m"

# Marks around a differing cell and an unpaired row, until ``render``; no cell can contain them.
CELL_FROM, CELL_TO, ROW_FROM, ROW_TO = "\x01", "\x02", "\x03", "\x04"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two tables differ: a short reason, and the lines of both tables, already marked."""

    why: str
    lines: tuple[str, ...]


def compare_rows(
    expected: Rows, found: Found, columns: Sequence[str], *, ordered: bool
) -> Difference | None:
    """Return how the rows found differ from the expected ones; None if they do not.

    ``columns`` are the columns of the result; they are compared by name if rows are expected.
    """
    if expected.rows and set(expected.columns) != set(columns):
        why = f"the columns are {', '.join(columns)}, expected {', '.join(expected.columns)}"
        return _difference(why, expected, found, columns, {})
    names = expected.columns or tuple(columns)
    pairs = _pair_in_order(expected, found) if ordered else _pair_any_order(expected, found)
    wrong = {e: f for e, f in pairs.items() if f is None or not _same(expected, e, found[f])}
    if not wrong and len(expected.rows) == len(found):
        return None
    why = f"expected {_rows_text(len(expected.rows))}, found {_rows_text(len(found))}"
    if len(expected.rows) == len(found):
        why = f"{len(wrong)} of {_rows_text(len(found))} differ"
    return _difference(why, expected, found, names, pairs)


def compare_side(
    expected: Rows, found: Sequence[SideRow], columns: Sequence[str]
) -> Difference | None:
    """Return how side output differs from the rows expected, on the columns that the case names.

    A column is one of the stream's (``columns``), or ``reason`` or ``late_by_ms``.
    """
    names = expected.columns or (*columns, "reason")
    rows = [{name: _side_value(row, name, columns) for name in names} for row in found]
    return compare_rows(expected, rows, names, ordered=False)


def render(lines: Sequence[str], *, colors: bool) -> list[str]:
    """Return the lines of a difference for printing: marks become stars, red with ``colors``."""
    red, plain = (RED, PLAIN) if colors else ("", "")
    words = {CELL_FROM: f"{red}*", CELL_TO: f"*{plain}", ROW_FROM: red, ROW_TO: plain}
    return ["".join(words.get(char, char) for char in line) for line in lines]


def _side_value(row: SideRow, name: str, columns: Sequence[str]) -> object:
    if name in columns:
        return row.original.get(name)
    return row.reason if name == "reason" else row.late_by_ms


def _same(expected: Rows, index: int, row: Mapping[str, object]) -> bool:
    return not _wrong_cells(expected, index, row)


def _wrong_cells(expected: Rows, index: int, row: Mapping[str, object]) -> set[str]:
    cells = zip(expected.columns, expected.rows[index], strict=True)
    return {name for name, cell in cells if not cell_matches(cell, row.get(name))}


def _pair_in_order(expected: Rows, found: Found) -> dict[int, int | None]:
    return {e: e if e < len(found) else None for e in range(len(expected.rows))}


def _pair_any_order(expected: Rows, found: Found) -> dict[int, int | None]:
    """Pair equal rows first, then each remaining row with the most similar one."""
    pairs: dict[int, int | None] = {}
    free = list(range(len(found)))
    for e in range(len(expected.rows)):
        equal = next((f for f in free if _same(expected, e, found[f])), None)
        if equal is not None:
            free.remove(equal)
        pairs[e] = equal
    for e in [e for e, f in pairs.items() if f is None]:
        if free:
            nearest = min(free, key=lambda f: len(_wrong_cells(expected, e, found[f])))
            if len(_wrong_cells(expected, e, found[nearest])) < len(expected.columns):
                free.remove(nearest)
                pairs[e] = nearest
    return pairs


def _difference(
    why: str, expected: Rows, found: Found, columns: Sequence[str], pairs: Mapping[int, int | None]
) -> Difference:
    partner = {f: e for e, f in pairs.items() if f is not None}
    wrong = {e: _wrong_cells(expected, e, found[f]) for e, f in pairs.items() if f is not None}
    left = [("", list(expected.columns))]
    for e, cells in enumerate(expected.rows):
        named: list[tuple[str, Cell]] = list(zip(expected.columns, cells, strict=True))
        texts = [_mark(str(cell), name in wrong.get(e, ())) for name, cell in named]
        left.append(("- " if pairs and pairs.get(e) is None else "", texts))
    right = [("", list(columns))]
    for f, row in enumerate(found):
        marked = wrong.get(partner.get(f, -1), set())
        texts = [_mark(show_value(row.get(name)), name in marked) for name in columns]
        right.append(("+ " if f not in partner else "", texts))
    lines = ("expected", *_layout(left), "found", *_layout(right))
    return Difference(why=why, lines=lines)


def _layout(rows: list[tuple[str, list[str]]]) -> list[str]:
    if len(rows) == 1:
        return ["    nothing"]
    widths = [max(len(texts[i]) for _, texts in rows) for i in range(len(rows[0][1]))]
    lines = []
    for sign, texts in rows:
        cells = "  ".join(
            text.ljust(width) for text, width in zip(texts, widths, strict=True)
        ).rstrip()
        lines.append(f"  {ROW_FROM}{sign}{cells}{ROW_TO}" if sign else f"    {cells}")
    return lines


def _mark(text: str, is_wrong: bool) -> str:
    return f"{CELL_FROM}{text}{CELL_TO}" if is_wrong else text


def _rows_text(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
