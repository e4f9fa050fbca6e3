"""What a run prints with ``--log-format json``: an object in each line.

Every object has ``time`` (ISO 8601 UTC, by the machine's clock), ``level`` and ``event``. Steps go
to standard output, everything else to standard error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tidegate.cli.exits import exit_code_of
from tidegate.cli.messages import message_of, stack_of
from tidegate.cli.progress import Note, Totals
from tidegate.time import format_time

if TYPE_CHECKING:
    from tidegate.metrics.report import BatchReport


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class JsonProgress:
    """A JSON object for each batch, and for everything else that happens."""

    now: Callable[[], datetime] = _now
    totals: dict[str, Totals] = field(default_factory=dict)

    def batch(self, name: str, report: BatchReport) -> None:
        """Print a step of the query ``name`` on the standard output."""
        totals = self.totals.setdefault(name, Totals())
        totals.add(report)
        facts = step_facts(report) | {"rows_per_second": totals.rows_per_second}
        click.echo(self._line("info", report.kind, {"query": name, **facts}))

    def note(self, note: Note) -> None:
        """Print it on the standard error."""
        facts = {"message": note.text, **note.facts}
        click.echo(self._line(note.level, note.event, facts), err=True)

    def _line(self, level: str, event: str, facts: Mapping[str, object]) -> str:
        time = self.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "level": level, "event": event, **facts}
        return json.dumps(line, ensure_ascii=False)


def step_facts(report: BatchReport) -> dict[str, object]:
    """Return the numbers of a step as they stand in its line; times are ISO 8601 UTC or None."""
    facts: dict[str, object] = {}
    for name, value in asdict(report).items():
        if name == "kind":
            continue  # It is the event.
        if name.endswith("_us"):
            facts[name.removesuffix("_us")] = None if value is None else format_time(value)
        else:
            facts[name] = value
    return facts


def print_failure(error: BaseException, *, with_stack: bool) -> None:
    """Print the failure that ends a run, as the last line on the standard error."""
    facts: dict[str, object] = {"exit_code": exit_code_of(error)}
    if with_stack:
        facts["stack"] = stack_of(error)
    note = Note(text=message_of(error), level="error", event="failure", facts=facts)
    JsonProgress().note(note)
