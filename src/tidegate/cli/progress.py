"""Progress of running queries: a live table on a terminal, otherwise a line for each batch.

A line is for people or, with ``LogFormat.JSON``, an object for programs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import click

from tidegate.plan.pipeline import LogFormat
from tidegate.time import format_time

if TYPE_CHECKING:
    from tidegate.metrics.report import BatchReport


class Progress(Protocol):
    """Shows progress."""

    @property
    def totals(self) -> Mapping[str, Totals]:
        """What each query has done so far."""

    def batch(self, name: str, report: BatchReport) -> None:
        """Show a batch of the query ``name``."""

    def note(self, note: Note) -> None:
        """Show something else that happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that happened, other than a batch.

    Attributes:
        text: a sentence for people.
        level: ``info``, ``warning`` or ``error``.
        event: what it is, for programs; ``log`` is any line of the log.
        facts: more about it, for programs.
    """

    text: str
    level: str = "info"
    event: str = "log"
    facts: Mapping[str, object] = field(default_factory=dict)


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
        """Count one more step and return its name; a drain or flush is no batch of its own."""
        is_batch = report.kind == "batch"
        self.batches += is_batch
        self.rows_in += report.rows_in
        self.rows_out += report.rows_out
        self.closed_windows += report.closed_windows
        self.late += report.late
        self.error += report.error
        self.busy_ms += report.duration_ms
        self.watermark_us = report.watermark_us
        self.last_batch = report.batch_id
        self.rows_per_second = report.rows_in * 1000 // max(1, report.duration_ms)
        return f"batch {report.batch_id}" if is_batch else report.kind

    @property
    def watermark(self) -> str:
        """The watermark as text, ``none`` before the first timed row."""
        return "none" if self.watermark_us is None else format_time(self.watermark_us)


@contextmanager
def progress_for(form: LogFormat = LogFormat.TEXT) -> Iterator[Progress]:
    """Yield lines of JSON, or a live table if standard output is a terminal, else plain lines."""
    from tidegate.cli.json_lines import JsonProgress
    from tidegate.cli.live import LiveProgress

    try:
        if form is LogFormat.JSON:
            yield Unfailing(JsonProgress())
        elif sys.stdout.isatty():
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

    def note(self, note: Note) -> None:
        """Show something else that happened."""
        self._show(lambda: self._progress.note(note))

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

    def note(self, note: Note) -> None:
        """Print its text on the standard error."""
        click.echo(note.text, err=True)
