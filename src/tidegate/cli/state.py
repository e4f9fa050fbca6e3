"""``tidegate state``: shows the state of a checkpoint, checks it, and changes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.errors import StateError

if TYPE_CHECKING:
    from tidegate.state.reader import StateReader

# What may be asked for; one of these may be given.
_VIEWS = ("windows", "shards", "segments", "rows", "verify", "rollback", "forget-shard")


@click.command()
@click.argument("checkpoint")
@click.option("--windows", is_flag=True, help="The open windows, with their groups and state rows.")
@click.option("--shards", is_flag=True, help="The shards of the watermark.")
@click.option("--segments", is_flag=True, help="The segments of each table.")
@click.option(
    "--rows", metavar="WINDOW", help="The groups of an open window, by its START or START/END."
)
@click.option("--verify", is_flag=True, help="Check every file of every kept manifest.")
@click.option("--rollback", type=int, metavar="EPOCH", help="Make this kept epoch the newest one.")
@click.option(
    "--forget-shard",
    "forgotten",
    multiple=True,
    metavar="VALUE",
    help="Forget a shard that is gone for good, by its value; may be repeated.",
)
@click.option(
    "--stopped",
    is_flag=True,
    help="With --rollback or --forget-shard: no query runs on the checkpoint.",
)
@click.option("--epoch", type=int, help="Show the state after this epoch instead of the newest.")
@click.option("--idle-timeout", metavar="DURATION", help="With --shards: mark idle shards.")
@click.option("--spark", is_flag=True, help="With --rows: start Spark for values that need it.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    help="Maximum number of lines in a table; 0 prints all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def state(
    checkpoint: str,
    windows: bool,
    shards: bool,
    segments: bool,
    rows: str | None,
    verify: bool,
    rollback: int | None,
    forgotten: tuple[str, ...],
    stopped: bool,
    epoch: int | None,
    idle_timeout: str | None,
    spark: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show the state in a CHECKPOINT folder, of a query or of a whole pipeline."""
    from tidegate.cli.state_actions import forget, roll_back_to, verify_all
    from tidegate.cli.state_views import Request, show

    asked = (
        windows,
        shards,
        segments,
        rows is not None,
        verify,
        rollback is not None,
        bool(forgotten),
    )
    views = [name for name, is_asked in zip(_VIEWS, asked, strict=True) if is_asked]
    if len(views) > 1:
        raise click.UsageError(f"Give one of --{' --'.join(_VIEWS)}.")
    if spark and rows is None:
        raise click.UsageError("--spark goes with --rows.")
    if idle_timeout is not None and not shards:
        raise click.UsageError("--idle-timeout goes with --shards.")
    if stopped and rollback is None and not forgotten:
        raise click.UsageError("--stopped goes with --rollback and --forget-shard.")
    readers = readers_in(checkpoint)
    if verify:
        sys.exit(0 if verify_all(readers, as_json=as_json) else 1)
    if rollback is not None:
        reader = _only(readers, "rollback")
        _check_local(reader)
        roll_back_to(Path(reader.checkpoint), rollback, stopped=stopped, as_json=as_json)
        return
    if forgotten:
        reader = _only(readers, "forget-shard")
        forget(reader, tuple(dict.fromkeys(forgotten)), stopped=stopped, as_json=as_json)
        return
    request = Request(
        view=views[0] if views else "summary",
        window=rows,
        epoch=epoch,
        idle_timeout=idle_timeout,
        with_spark=spark,
        limit=limit,
        as_json=as_json,
    )
    show(readers, request)


def readers_in(text: str) -> dict[str, StateReader]:
    """Return readers of the checkpoints in a folder, by the names of their transforms.

    A folder that is not on this machine is read with Spark.

    Raises:
        StateError: it holds no checkpoint.
    """
    from tidegate.inspection.folders import readers_in as local_readers_in
    from tidegate.paths import local_path

    folder = local_path(text)
    if folder is None:
        from tidegate.spark.session import local_session
        from tidegate.state.spark_reader import readers_of

        found = readers_of(local_session(), text)
    else:
        found = local_readers_in(folder)
    if not found:
        raise StateError(
            f"{text} holds no state: neither it nor a folder in it has a folder tidegate"
            "\n\nGive the checkpoint of a query or of a pipeline that has run a batch."
        )
    return found


def _only(readers: dict[str, StateReader], option: str) -> StateReader:
    """The one checkpoint that an option changes."""
    if len(readers) > 1:
        first = min(str(reader.checkpoint) for reader in readers.values())
        raise click.UsageError(f"--{option} takes the checkpoint of one transform, e.g. {first}.")
    (reader,) = readers.values()
    return reader


def _check_local(reader: StateReader) -> None:
    """Refuse to roll back a checkpoint that is not on this machine."""
    if not reader.is_local:
        raise StateError(
            f"{reader.checkpoint} is not on this machine, so it cannot be rolled back in place\n\n"
            "Copy the whole folder to a local disk, roll that back, and copy it to a new place."
        )
