"""What ``tidegate state`` prints: tables for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from tidegate.cli.tables import print_table
from tidegate.errors import StateError
from tidegate.inspection.checkpoint import Checkpoint
from tidegate.inspection.shown import json_value, text_of, time_text
from tidegate.inspection.summary import segment_facts, shard_facts, summary
from tidegate.inspection.values import NEEDS_SPARK
from tidegate.inspection.window_rows import interval, window_rows
from tidegate.state.reader import StateReader
from tidegate.state.shard_map import SHARD_COUNTS
from tidegate.time import format_duration, from_text, parse_duration

# With more state rows than this the summary does not read them in order to count open windows.
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to show.

    Attributes:
        view: one of ``VIEWS``.
        window: with rows: START or START/END, ISO 8601.
        epoch: which manifest; None: the newest.
        idle_timeout: with shards: a duration.
        with_spark: start Spark for values that need it.
        limit: the maximum number of lines of a table; 0: all.
        as_json: print JSON.
    """

    view: str
    window: str | None = None
    epoch: int | None = None
    idle_timeout: str | None = None
    with_spark: bool = False
    limit: int = 50
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view of a checkpoint: facts for JSON, lines and a table for people."""

    facts: Mapping[str, Any]
    lines: Sequence[str] = ()
    table: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = field(default=())


def show(readers: Mapping[str, StateReader], request: Request) -> None:
    """Print a view of each checkpoint.

    Args:
        readers: checkpoints by the names of their transforms.
        request: what to show.

    Raises:
        StateError: one cannot be read, or has no such window.
        click.UsageError: the window or the duration is not one.
    """
    answers = []
    for name, reader in readers.items():
        checkpoint = Checkpoint(
            reader=reader, manifest=reader.manifest(request.epoch), plan=reader.plan()
        )
        view = VIEWS[request.view](checkpoint, request)
        answers.append({"name": name, **view.facts})
        if not request.as_json:
            if len(readers) > 1:
                click.echo(f"-- {name}")
            _print(view, request.limit)
    if request.as_json:
        answer = answers[0] if len(answers) == 1 else answers
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def _summary(checkpoint: Checkpoint, _: Request) -> View:
    manifest, reader = checkpoint.manifest, checkpoint.reader
    facts = summary(manifest, checkpoint.plan, reader.epochs())
    facts["open_windows"] = _count(checkpoint)
    rows = {name: number for name, number in facts["rows"].items() if number}
    told = {
        "checkpoint": f"{reader.checkpoint} (id {facts['checkpoint_id']})",
        "window": facts["window"],
        "keys": ", ".join(facts["keys"]) or "none",
        "plan": facts["plan_id"],
        "epoch": f"{facts['epoch']}; kept are {_ranges(facts['epochs'])}",
        "batch": f"{facts['batch_id']} of Spark's",
        "clock": facts["clock"] or "none",
        "watermark": facts["watermark"] or "none",
        "closed up to": facts["closed_up_to"] or "nothing",
        "shards": facts["shards"],
        "open windows": _counted(facts["open_windows"]),
        "rows": ", ".join(f"{name} {number:,}" for name, number in rows.items()) or "none",
        "writer": "none" if manifest.writer is None else str(manifest.writer),
    }
    lines = [f"{name:<13} {value}" for name, value in told.items()]
    table = [
        {"table": name, **sizes} for name, sizes in facts["tables"].items() if sizes["segments"]
    ]
    taken = facts["taken_batch"] = reader.taken_batch()
    if taken is not None:
        lines.append(f"{'taken in':<13} batch {taken}: the query, or its next start, finishes it")
    begun = facts["unfinished_rollback"] = reader.unfinished_rollback()
    if begun is not None:
        lines.append(f"{'unfinished':<13} rollback to epoch {begun}: run it again")
    return View(facts=facts, lines=[*lines, ""], table=table)


def _count(checkpoint: Checkpoint) -> int | None:
    """Return how many windows are open; None where finding out needs pyarrow or takes long."""
    if sum(segment.rows for segment in checkpoint.manifest.segments) > _MOST_COUNTED:
        return None
    try:
        return len(checkpoint.counted_windows())
    except StateError:
        return None  # --windows says why


def _counted(number: int | None) -> str:
    return "not counted; --windows does" if number is None else f"{number:,}"


def _windows(checkpoint: Checkpoint, _: Request) -> View:
    windows = checkpoint.counted_windows()
    rows = [
        {
            "window": interval(window),
            "start": time_text(window.start_us),
            "end": time_text(window.end_us),
            "groups": len(window.groups),
            "state rows": window.rows,
        }
        for window in windows
    ]
    return View(
        facts={"windows": [_as_keys(row) for row in rows]},
        table=[
            {name: value for name, value in row.items() if name not in ("start", "end")}
            for row in rows
        ],
        notes=[] if windows else ["no window is open"],
    )


def _shards(checkpoint: Checkpoint, request: Request) -> View:
    timeout_us = None
    if request.idle_timeout is not None:
        try:
            timeout_us = parse_duration(request.idle_timeout)
        except ValueError as error:
            raise click.UsageError(f"--idle-timeout: {error}") from None
    shards = shard_facts(checkpoint.manifest, timeout_us)
    # The stream as a whole has its counts in the summary.
    counted = [name for name in ("rows", *SHARD_COUNTS) if any(shard[name] for shard in shards)]
    shown = [
        {
            "shard": shard["shard"] if shard["id"] else "(the whole stream)",
            "greatest time": shard["event_time"],
            "last row's clock": shard["clock"],
            "silent for": format_duration(shard["silent_us"]),
            **({} if timeout_us is None else {"idle": shard["idle"]}),
            **{name: shard[name] for name in counted},
        }
        for shard in shards
    ]
    notes = [] if shards else ["no shard has had a row with an event time"]
    return View(facts={"shards": shards}, table=shown, notes=notes)


def _segments(checkpoint: Checkpoint, _: Request) -> View:
    segments = segment_facts(checkpoint.manifest)
    notes = [] if segments else ["the state is empty"]
    return View(facts={"segments": segments}, table=segments, notes=notes)


def _rows(checkpoint: Checkpoint, request: Request) -> View:
    start_us, end_us = _bounds(request.window or "")
    windows = [
        window
        for window in checkpoint.open_windows(start_us)
        if end_us is None or window.end_us == end_us
    ]
    if not windows:
        raise StateError(
            f"{checkpoint.reader.checkpoint} has no open window {request.window}\n\n"
            "tidegate state CHECKPOINT --windows lists the open ones."
        )
    evaluate = None
    if request.with_spark:
        from tidegate.cli.state_spark import values_by_spark

        evaluate = values_by_spark
    entries = window_rows(checkpoint, windows, evaluate)
    lacking = sorted({name for entry in entries for name in _lacking(entry)})
    if len(windows) == 1:
        table = [entry["key"] | entry["values"] for entry in entries]
    else:
        table = [{"window": e["window"]} | e["key"] | e["values"] for e in entries]
    notes = []
    if lacking:
        notes = [f"{', '.join(lacking)}: only Spark can evaluate this, add --spark"]
    return View(
        facts={"rows": [json_value(entry) for entry in entries], "needs_spark": lacking},
        table=table,
        notes=notes,
    )


def _lacking(entry: Mapping[str, Any]) -> list[str]:
    return [name for name, value in entry["values"].items() if value is NEEDS_SPARK]


def _bounds(text: str) -> tuple[int, int | None]:
    """Return the start and the end of START or START/END."""
    start, slash, end = text.partition("/")
    try:
        return from_text(start), from_text(end) if slash else None
    except ValueError:
        raise click.UsageError(
            f"--rows {text}: write START or START/END as --windows does, "
            "e.g. 2026-01-01T10:00:00Z/2026-01-01T10:00:10Z"
        ) from None


def _as_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace(" ", "_"): value for name, value in row.items()}


def _ranges(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"


def _print(view: View, limit: int) -> None:
    for line in view.lines:
        click.echo(line)
    shown = view.table[:limit] if limit else view.table
    if shown and shown[0]:
        columns = list(shown[0])
        right = [all(isinstance(row[name], int | float) for row in shown) for name in columns]
        print_table(columns, [[text_of(row[name]) for name in columns] for row in shown], right)
    if len(view.table) > len(shown):
        click.echo(f"The first {len(shown):,} of {len(view.table):,}; --limit 0 prints all.")
    for note in view.notes:
        click.echo(note)


# The views by their names; the first is shown if none is asked for.
VIEWS: dict[str, Callable[[Checkpoint, Request], View]] = {
    "summary": _summary,
    "windows": _windows,
    "shards": _shards,
    "segments": _segments,
    "rows": _rows,
}
