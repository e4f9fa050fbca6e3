"""Progress of running queries: a live table on a terminal, otherwise a line for each batch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import click

from tidegate.time import format_time

if TYPE_CHECKING:
    from rich.table import Table

    from tidegate.metrics.report import BatchReport


class Progress(Protocol):
    """Shows progress."""

    @property
    def totals(self) -> Mapping[str, Totals]:
        """What each query has done so far."""

    def batch(self, name: str, report: BatchReport) -> None:
        """Show a batch of the query ``name``."""

    def note(self, text: str) -> None:
        """Show a line of text."""


@dataclass(slots=True, kw_only=True)
class Totals:
    """Totals of a query so far, and its last batch."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    closed_windows: int = 0
    late: int = 0
    error: int = 0
    busy_ms: int = 0
    watermark_us: int | None = None
    last_batch: int = 0
    rows_per_second: int = 0

    def add(self, report: BatchReport) -> str:
        """Count one more batch and return its name; a drain has no batch of its own."""
        is_drain = self.batches > 0 and report.batch_id == self.last_batch
        self.batches += not is_drain
        self.rows_in += report.rows_in
        self.rows_out += report.rows_out
        self.closed_windows += report.closed_windows
        self.late += report.late
        self.error += report.error
        self.busy_ms += report.duration_ms
        self.watermark_us = report.watermark_us
        self.last_batch = report.batch_id
        self.rows_per_second = report.rows_in * 1000 // max(1, report.duration_ms)
        return "drain" if is_drain else f"batch {report.batch_id}"

    @property
    def watermark(self) -> str:
        """The watermark as text, ``none`` before the first timed row."""
        return "none" if self.watermark_us is None else format_time(self.watermark_us)


@contextmanager
def progress_for() -> Iterator[Progress]:
    """Yield a live table if standard output is a terminal, else plain lines."""
    try:
        if sys.stdout.isatty():
            with LiveProgress() as live:
                yield Unfailing(live)
        else:
            yield Unfailing(LineProgress())
    finally:
        _let_go_of_closed_output()


class Unfailing:
    """Wraps another ``Progress`` and ignores its failures to write.

    The reader of the output may be gone, or the disk full; neither must end a pipeline.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._failed = False

    @property
    def totals(self) -> Mapping[str, Totals]:
        """What each query has done so far."""
        return self._progress.totals

    def batch(self, name: str, report: BatchReport) -> None:
        """Show a batch of the query ``name``."""
        self._show(lambda: self._progress.batch(name, report))

    def note(self, text: str) -> None:
        """Show a line of text."""
        self._show(lambda: self._progress.note(text))

    def _show(self, show: Callable[[], None]) -> None:
        try:
            show()
        except (OSError, ValueError) as error:  # writing to a closed file raises a ValueError
            if not self._failed:
                self._failed = True
                with suppress(OSError, ValueError):
                    reason = getattr(error, "strerror", None) or error
                    click.echo(f"cannot show progress: {reason}; the run continues", err=True)


def _let_go_of_closed_output() -> None:
    """Discard buffered output that cannot be written, or Python would fail when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@dataclass(slots=True)
class LineProgress:
    """A plain line for each batch."""

    totals: dict[str, Totals] = field(default_factory=dict)

    def batch(self, name: str, report: BatchReport) -> None:
        """Print a batch of the query ``name``."""
        totals = self.totals.setdefault(name, Totals())
        batch = totals.add(report)
        click.echo(
            f"{name}  {batch}  rows {report.rows_in:,}  "
            f"rows/s {totals.rows_per_second:,}  watermark {totals.watermark}  "
            f"closed {report.closed_windows:,}  out {report.rows_out:,}  late {report.late:,}  "
            f"errors {report.error:,}"
        )

    def note(self, text: str) -> None:
        """Print a line of text on the standard error."""
        click.echo(text, err=True)


class LiveProgress:
    """A table with a row for each query, redrawn after each batch."""

    totals: dict[str, Totals]

    def __init__(self) -> None:
        from rich.live import Live

        self.totals = {}
        self._started = time.monotonic()
        self._live = Live(get_renderable=self._table, refresh_per_second=4)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def batch(self, name: str, report: BatchReport) -> None:
        """Show a batch of the query ``name``."""
        self.totals.setdefault(name, Totals()).add(report)

    def note(self, text: str) -> None:
        """Print a line of text above the table."""
        self._live.console.print(text, markup=False, highlight=False)

    def _table(self) -> Table:
        from rich.box import SIMPLE
        from rich.table import Table

        # Narrow enough for a terminal of 80 columns.
        table = Table(caption=f"{time.monotonic() - self._started:.0f} s", box=SIMPLE, padding=0)
        table.add_column("query")
        for heading in ("batch", "rows", "rows/s", "watermark", "closed", "out", "late", "errors"):
            table.add_column(heading, justify="right", no_wrap=True)
        # A copy, because another thread may add a batch while the table is drawn.
        for name, totals in list(self.totals.items()):
            table.add_row(
                name,
                f"{totals.last_batch:,}",
                f"{totals.rows_in:,}",
                f"{totals.rows_per_second:,}",
                totals.watermark,
                f"{totals.closed_windows:,}",
                f"{totals.rows_out:,}",
                f"{totals.late:,}",
                f"{totals.error:,}",
            )
        return table
