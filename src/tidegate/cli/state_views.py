"""What ``tidegate state`` prints: tables for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from tidegate.cli.tables import print_table
from tidegate.errors import StateError
from tidegate.inspection.open_windows import OpenWindow, OpenWindows
from tidegate.inspection.shown import json_value, text_of, time_text, utc_rows
from tidegate.inspection.summary import segment_facts, shard_facts, summary
from tidegate.inspection.values import NEEDS_SPARK, Values
from tidegate.inspection.verify import verify
from tidegate.plan.columns import ORDER
from tidegate.state.manifest import Manifest
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader
from tidegate.state.rollback import roll_back
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
class Checkpoint:
    """A checkpoint, and the manifest of it that is shown."""

    reader: StateReader
    manifest: Manifest
    plan: PlanFile

    def open_windows(self, start_us: int) -> list[OpenWindow]:
        """Return the open windows with a given start."""
        return OpenWindows(self.reader, self.manifest, self.plan).all(start_us)

    def counted_windows(self) -> list[OpenWindow]:
        """Return all open windows; their rows may have no other columns than those of groups."""
        return OpenWindows(self.reader, self.manifest, self.plan, counts_only=True).all()


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


def verify_all(readers: Mapping[str, StateReader], *, as_json: bool) -> bool:
    """Check the files of checkpoints; return whether all are as their manifests say."""
    answers = []
    for name, reader in readers.items():
        found = verify(reader)
        facts = {
            "name": name,
            "faults": found.faults,
            "manifests": found.manifests,
            "files": found.files,
            "bytes": found.bytes,
            "checksums": found.checksums,
            "row_counts": found.counted,
        }
        answers.append(facts)
        if as_json:
            continue
        for fault in found.faults:
            click.echo(f"{name}: {fault}")
        if not found.faults:
            counted = "" if found.counted else ", row counts not checked"
            click.echo(
                f"{name}: ok, {found.manifests} manifests, {found.files} files, "
                f"{found.bytes:,} bytes, {found.checksums} with checksums{counted}"
            )
    if as_json:
        click.echo(json.dumps(answers[0] if len(answers) == 1 else answers, indent=2))
    return not any(answer["faults"] for answer in answers)


def roll_back_to(folder: Path, epoch: int, *, stopped: bool, as_json: bool) -> None:
    """Roll a checkpoint back to an epoch, and print what was done.

    Raises:
        StateError: it cannot be rolled back.
    """
    done = roll_back(folder, epoch, stopped=stopped)
    begun, batch_id = done.rollback, done.manifest.batch_id
    if as_json:
        facts = {"epoch": epoch, "from_epoch": begun.from_epoch, "batch_id": batch_id}
        more = {"moved_to": begun.folder, "moved": done.moved, "notes": done.notes}
        click.echo(json.dumps(facts | more, indent=2))
        return
    click.echo(
        f"{folder.name}: rolled back from epoch {begun.from_epoch} to epoch {epoch}; the next "
        f"start goes on with batch {batch_id + 1}"
    )
    click.echo(f"moved to {folder}/tidegate/{begun.folder}, which may be deleted:")
    for name, number in sorted(done.moved.items()):
        click.echo(f"  {name:<20} {number:,}")
    for note in done.notes:
        click.echo(note)
    if begun.from_epoch > epoch:
        click.echo(
            f"Results of epochs {epoch + 1} to {begun.from_epoch} are emitted again. File sinks "
            "drop the old ones at the next start; others may get them twice."
        )


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
            "window": _interval(window),
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
    shown = [
        {
            "shard": shard["shard"] if shard["id"] else "(the whole stream)",
            "greatest time": shard["event_time"],
            "last row's clock": shard["clock"],
            "silent for": format_duration(shard["silent_us"]),
            **({} if timeout_us is None else {"idle": shard["idle"]}),
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
    # A state of whole rows has their order of arrival.
    if ORDER in checkpoint.manifest.schema:
        entries = [entry for window in windows for entry in _whole_rows(checkpoint, window)]
    else:
        entries = _groups(checkpoint, windows, with_spark=request.with_spark)
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


def _groups(
    checkpoint: Checkpoint, windows: Sequence[OpenWindow], *, with_spark: bool
) -> list[dict[str, Any]]:
    """Return the groups of windows, with their values."""
    plan, schema = checkpoint.plan, checkpoint.manifest.schema
    groups = [(window, rows) for window in windows for rows in window.groups.values()]
    partials = [utc_rows(rows, schema) for _, rows in groups]
    values = [Values(plan, schema).of(rows) for rows in partials]
    if with_spark and any(NEEDS_SPARK in each.values() for each in values):
        from tidegate.cli.state_spark import values_by_spark

        values = values_by_spark(partials, plan, schema)
    return [
        {"window": _interval(window), "key": _keys(plan, rows[0]), "values": of_group}
        for (window, _), rows, of_group in zip(groups, partials, values, strict=True)
    ]


def _whole_rows(checkpoint: Checkpoint, window: OpenWindow) -> list[dict[str, Any]]:
    """Return the rows of a window, each with its event time and the values that are kept of it."""
    plan, schema = checkpoint.plan, checkpoint.manifest.schema
    kept = {name: text for name, text in plan.columns.items() if name.startswith("_x")}
    return [
        {
            "window": _interval(window),
            "key": _keys(plan, row),
            "values": {"event time": time_text(row[ORDER]["t"])}
            | {text: row[name] for name, text in kept.items() if name in row},
        }
        for rows in window.groups.values()
        for row in utc_rows(rows, schema)
    ]


def _keys(plan: PlanFile, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the keys and of PARTITION BY, by their texts."""
    partition = {name: text for name, text in plan.columns.items() if name.startswith("_p")}
    names = {**partition, **plan.keys}
    return {text: row[name] for name, text in names.items() if name in row}


def _lacking(entry: Mapping[str, Any]) -> list[str]:
    return [name for name, value in entry["values"].items() if value is NEEDS_SPARK]


def _interval(window: OpenWindow) -> str:
    return f"{time_text(window.start_us)}/{time_text(window.end_us)}"


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
