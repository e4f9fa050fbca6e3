"""The output of a benchmark: tables for people, ``ratio <name> <value>`` lines for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A titled table of text cells; ``notes`` follow it, one per line."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number to watch. ``target`` is text, e.g. ``<= 1.3``, or empty.

    ``spread`` has the numbers that ``value`` is the median of; empty if it was measured once.
    """

    name: str
    value: float
    target: str = ""
    spread: Sequence[float] = ()


def paired(
    name: str, above: Sequence[float], below: Sequence[float], *, target: str = ""
) -> Figure:
    """Return the median of the ratios of measurements that were taken in pairs.

    What disturbs the machine for a while disturbs both of a pair, so the ratios of pairs lie closer
    together than the measurements do.
    """
    ratios = [high / low for high, low in zip(above, below, strict=True)]
    return Figure(name=name, value=median(ratios), target=target, spread=ratios)


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
    """Return the line for scripts; after the value what it is the median of, if there is more."""
    line = f"ratio {figure.name} {figure.value:.3f}"
    if len(figure.spread) < 2:
        return line
    least, most = min(figure.spread), max(figure.spread)
    return f"{line} least {least:.3f} most {most:.3f} of {len(figure.spread)}"


def format_targets(figures: Sequence[Figure]) -> str:
    """Return a line for each figure with a target; empty if there is none."""
    return "\n".join(
        f"target {figure.name} {figure.target}, measured {figure.value:.3f}{_range(figure)}"
        for figure in figures
        if figure.target
    )


def _range(figure: Figure) -> str:
    """Return between which values the pairs of a figure lie, if there are several."""
    if len(figure.spread) < 2:
        return ""
    return f" ({min(figure.spread):.3f} to {max(figure.spread):.3f})"


def format_bytes(size: int) -> str:
    """Return the size in the largest unit that leaves two digits or more."""
    for unit, bytes_each in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= 10 * bytes_each:
            return f"{size / bytes_each:.0f} {unit}"
    return f"{size} B"
