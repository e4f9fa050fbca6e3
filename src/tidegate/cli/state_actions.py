"""``tidegate state --verify``, ``--rollback`` and ``--forget-shard``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tidegate.inspection.shown import time_text
from tidegate.inspection.verify import verify
from tidegate.state.forgetting import NULL, forget_shards
from tidegate.state.reader import StateReader
from tidegate.state.rollback import roll_back
from tidegate.state.shard_map import Shard


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


def forget(reader: StateReader, values: Sequence[str], *, stopped: bool, as_json: bool) -> None:
    """Forget shards of a checkpoint, and print what was done and what it means for W.

    Raises:
        StateError: a shard is not there, or the checkpoint cannot be changed now.
    """
    checkpoint = str(reader.checkpoint)
    done = forget_shards(reader.every_file, checkpoint, values, stopped=stopped)
    watermark, slowest = done.manifest.watermark, done.slowest
    gone = [{"id": id, **_facts(shard)} for id, shard in done.shards.items()]
    if as_json:
        facts = {
            "epoch": done.manifest.epoch,
            "forgotten": gone,
            "watermark": time_text(watermark.watermark_us),
            "shards": len(watermark.shards),
            "slowest": None if slowest is None else _facts(slowest),
        }
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    name = Path(checkpoint).name
    for shard in gone:
        click.echo(
            f"{name}: forgot shard {_named(shard)}, whose greatest time was {shard['event_time']}"
        )
    click.echo(f"watermark  {time_text(watermark.watermark_us) or 'none'}, as before")
    if slowest is None:
        click.echo("No shard is left: W stays until a row comes.")
        return
    left = _facts(slowest)
    click.echo(
        f"The next batch moves it to {left['event_time']} less the lag, if it is not beyond that: "
        f"the greatest time of {_named(left)}, {_which(len(watermark.shards))}."
    )


def _which(left: int) -> str:
    return "the only shard left" if left == 1 else f"the slowest of the {left:,} shards left"


def _facts(shard: Shard) -> dict[str, str | None]:
    return {"shard": shard.name, "event_time": time_text(shard.event_time_us)}


def _named(facts: Mapping[str, str | None]) -> str:
    return NULL if facts["shard"] is None else facts["shard"]
