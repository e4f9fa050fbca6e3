"""The output of a benchmark: tables for people, ``ratio <name> <value>`` lines for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A titled table of text cells; ``notes`` follow it, one per line."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number to watch. ``target`` is text, e.g. ``<= 1.3``, or empty."""

    name: str
    value: float
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one benchmark; ``failures`` are wrong answers, never slow ones."""

    tables: Sequence[Table]
    figures: Sequence[Figure]
    failures: Sequence[str] = field(default=())


def format_table(table: Table) -> str:
    """Return the table as text, the first column aligned left, the others right."""
    lines = [list(table.header), *(list(row) for row in table.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]
    text = [table.title]
    for line in lines:
        first, *others = (cell.strip() for cell in line)
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        text.append("  " + "  ".join(cells).rstrip())
    text += [f"  {note}" for note in table.notes]
    return "\n".join(text)


def format_figure(figure: Figure) -> str:
    """Return the line for scripts."""
    return f"ratio {figure.name} {figure.value:.3f}"


def format_targets(figures: Sequence[Figure]) -> str:
    """Return a line for each figure with a target; empty if there is none."""
    return "\n".join(
        f"target {figure.name} {figure.target}, measured {figure.value:.3f}"
        for figure in figures
        if figure.target
    )


def format_bytes(size: int) -> str:
    """Return the size in the largest unit that leaves two digits or more."""
    for unit, bytes_each in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= 10 * bytes_each:
            return f"{size / bytes_each:.0f} {unit}"
    return f"{size} B"
