"""The live table of a run on a terminal. The narrower the terminal, the fewer columns it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.cli.progress import Note, Totals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tidegate.metrics.report import BatchReport


class LiveProgress:
    """A table with a row for each query, redrawn after each batch."""

    totals: dict[str, Totals]

    def __init__(self, console: Console | None = None) -> None:
        from rich import get_console
        from rich.live import Live

        self.totals = {}
        self._started = time.monotonic()
        self._console = console or get_console()
        self._live = Live(console=self._console, get_renderable=self._table, refresh_per_second=4)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def batch(self, name: str, report: BatchReport) -> None:
        """Show a batch of the query ``name``."""
        self.totals.setdefault(name, Totals()).add(report)

    def note(self, note: Note) -> None:
        """Print its text above the table."""
        self._console.print(note.text, markup=False, highlight=False)

    def _table(self) -> Table:
        from rich.box import SIMPLE
        from rich.table import Table

        # A copy, because another thread may add a batch while the table is drawn.
        totals = dict(self.totals)
        table = Table(caption=f"{time.monotonic() - self._started:.0f} s", box=SIMPLE, padding=0)
        table.add_column("query", no_wrap=True, overflow="ellipsis")
        columns = fitting(totals, self._console.width)
        for column in columns:
            table.add_column(column.heading, justify="right", no_wrap=True)
        for name, each in totals.items():
            table.add_row(name, *(column.text(each) for column in columns))
        return table


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the live table: what it shows of a query, and how much it matters.

    The columns with the greatest ``rank`` go first where the terminal is narrow.
    """

    heading: str
    rank: int
    text: Callable[[Totals], str]


COLUMNS = (
    Column("batch", 5, lambda totals: f"{totals.last_batch:,}"),
    Column("rows", 1, lambda totals: f"{totals.rows_in:,}"),
    Column("rows/s", 8, lambda totals: f"{totals.rows_per_second:,}"),
    Column("watermark", 2, lambda totals: totals.watermark),
    Column("closed", 6, lambda totals: f"{totals.closed_windows:,}"),
    Column("out", 7, lambda totals: f"{totals.rows_out:,}"),
    Column("late", 3, lambda totals: f"{totals.late:,}"),
    Column("errors", 4, lambda totals: f"{totals.error:,}"),
)


def fitting(totals: Mapping[str, Totals], width: int) -> Sequence[Column]:
    """Return the columns for which a terminal has room beside the names of the queries."""
    name = max(map(len, ("query", *totals)))
    shown = list(COLUMNS)
    for column in sorted(COLUMNS, key=lambda column: -column.rank):
        # A blank comes before and after each column.
        needed = name + 2 + sum(_width(each, totals) + 1 for each in shown)
        if needed <= width:
            break
        shown.remove(column)
    return shown


def _width(column: Column, totals: Mapping[str, Totals]) -> int:
    texts = (column.text(each) for each in totals.values())
    return max(map(len, (column.heading, *texts)))
