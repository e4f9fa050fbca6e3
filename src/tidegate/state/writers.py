"""Writers: one process writes a checkpoint, the one that started last.

A process that is about to write claims the checkpoint: it puts ``writers/<term>.json`` in place,
with a term one greater than any before. Before results are written and before a manifest is put in
place, it looks whether there is a greater claim; then it stops. So of two processes the one that
started later goes on. What a process writes has its id in the name, so that two of them can never
write one file; and a manifest is put in place only where there is none, so that the state never
forks, even if both have looked at the same moment.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from secrets import token_hex

from tidegate.errors import StateError
from tidegate.state.files import Files
from tidegate.state.manifest import Manifest, Writer, reading
from tidegate.state.manifest_log import numbers, reason

FOLDER = "writers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim: who writes, and the id of the checkpoint.

    The id is in the claim, and not only in manifests, since sinks are told of it before the first
    manifest is there.
    """

    writer: Writer
    checkpoint_id: str


def claim(files: Files, newest: Manifest | None) -> Claim:
    """Claim a checkpoint for this process.

    Args:
        files: the checkpoint.
        newest: its newest manifest.

    Raises:
        StateError: the claim cannot be written.
    """
    try:
        for folder in ("manifests", "intents", FOLDER, "segments"):
            # Only here: later a folder that is not there is a disk that is not there.
            files.make_folder(folder)
        while True:
            terms = numbers(files, FOLDER)
            before = _read(files, terms[-1]) if terms else None
            checkpoint_id = newest.checkpoint_id if newest else None
            if before is not None:
                checkpoint_id = checkpoint_id or before.checkpoint_id
            mine = Claim(
                writer=Writer(
                    id=token_hex(4),
                    term=max(terms, default=0) + 1,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    started=datetime.now(UTC).isoformat(timespec="seconds"),
                ),
                checkpoint_id=checkpoint_id or token_hex(16),
            )
            try:
                files.put_if_absent(_name(mine.writer.term), json.dumps(asdict(mine), indent=1))
            except FileExistsError:
                continue  # Another process took the term in between.
            return mine
    except OSError as error:
        raise StateError(
            f"{files.where(FOLDER)} cannot be written: {reason(error)}\n\nNothing has been "
            "changed. Make the checkpoint writable, then start again."
        ) from error


def claimed_id(files: Files) -> str | None:
    """Return the id of a checkpoint; None: no process has claimed it yet.

    Raises:
        OSError, StateError: the last claim cannot be read.
    """
    terms = numbers(files, FOLDER)
    return _read(files, terms[-1]).checkpoint_id if terms else None


def check_claim(files: Files, mine: Writer) -> None:
    """Stop a writer when another has claimed the checkpoint since.

    Raises:
        StateError: says who has.
    """
    try:
        terms = numbers(files, FOLDER)
        other = _read(files, terms[-1]).writer if terms else None
        # By the id, since a copy that was put back may give the same term to another process.
        if other is not None and other.id == mine.id:
            return
    except OSError as error:
        raise StateError(
            f"{files.where(FOLDER)} cannot be read: {reason(error)}\n\nSo it is not known whether "
            "another process writes to this checkpoint; the batch is not committed. Make the "
            "folder readable, then start again: the batch is run again."
        ) from error
    raise displaced(files, mine, other)


def displaced(files: Files, mine: Writer, other: Writer | None) -> StateError:
    """Return what a writer says that stops because another one writes."""
    checkpoint = files.where("").removesuffix("/tidegate/")
    return StateError(
        f"another query writes to checkpoint {checkpoint}: {other or 'it is not known which'}\n\n"
        f"This one, {mine}, stops here, and its batch in hand is not committed. Only one query may "
        "use a checkpoint: stop the other one, or start this one with a checkpoint of its own."
    )


def _read(files: Files, term: int) -> Claim:
    name = _name(term)
    text = files.read(name)
    with reading(files.where(name), "claim"):
        data = json.loads(text)
        return Claim(writer=Writer(**data["writer"]), checkpoint_id=data["checkpoint_id"])


def _name(term: int) -> str:
    return f"{FOLDER}/{term}.json"
