"""``tidegate state --verify`` and ``--rollback``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from tidegate.inspection.verify import verify
from tidegate.state.reader import StateReader
from tidegate.state.rollback import roll_back


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
