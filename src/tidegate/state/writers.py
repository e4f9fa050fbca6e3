"""Writers: only one process writes a checkpoint, the one that started last.

Before a process writes anything else, it claims the checkpoint: it creates
``writers/<term>.json``, with a term one greater than all before. Before it writes results or a
manifest, it looks for a claim with a greater term; if there is one, it stops. So of two processes
the one that started later continues. Segment names contain the writer's id, so two processes never
write the same file; and a manifest is never overwritten, so the state cannot fork even if both
processes check at the same moment.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from secrets import token_hex

from tidegate.errors import StateError
from tidegate.processes import is_running
from tidegate.state.files import Files
from tidegate.state.manifest import Manifest, Writer, reading
from tidegate.state.manifest_log import numbers, reason

FOLDER = "writers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim: the writer, and the id of the checkpoint.

    The id is in the claim as well as in manifests, because sinks need it before the first manifest
    exists.
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
            # Only here: if the folder is missing later, its disk is.
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
                continue  # Another process took this term in the meantime.
            return mine
    except OSError as error:
        raise StateError(
            f"{files.where(FOLDER)} cannot be written: {reason(error)}\n\nNothing has been "
            "changed. Make the checkpoint writable, then start the query again."
        ) from error


def claimed_id(files: Files) -> str | None:
    """Return the id of a checkpoint, None if no process has claimed it yet.

    Raises:
        OSError, StateError: the last claim cannot be read.
    """
    terms = numbers(files, FOLDER)
    return _read(files, terms[-1]).checkpoint_id if terms else None


def check_claim(files: Files, mine: Writer) -> None:
    """Check that no other process has claimed the checkpoint since.

    Raises:
        StateError: one has; the message names it.
    """
    try:
        terms = numbers(files, FOLDER)
        other = _read(files, terms[-1]).writer if terms else None
        # Compare ids: after a restore from a copy, another process may have the same term.
        if other is not None and other.id == mine.id:
            return
    except OSError as error:
        raise StateError(
            f"{files.where(FOLDER)} cannot be read: {reason(error)}\n\nTherefore it is unknown "
            "whether another process writes to this checkpoint, and the batch is not committed. "
            "Make the folder readable, then restart the query: it completes the batch."
        ) from error
    raise displaced(files, mine, other)


def check_stopped(files: Files, *, stopped: bool) -> None:
    """Check that the process that claimed the checkpoint last has ended.

    Args:
        files: the checkpoint.
        stopped: the user says so; needed if it ran on another machine.

    Raises:
        StateError: it runs, or it may.
    """
    try:
        terms = numbers(files, FOLDER)
        writer = _read(files, terms[-1]).writer if terms else None
    except OSError as error:
        raise StateError(
            f"{files.where(FOLDER)} cannot be read: {reason(error)}\n\nMake it readable."
        ) from error
    if writer is None or stopped:
        return
    checkpoint = files.where("").removesuffix("/tidegate/")
    if writer.host != socket.gethostname():
        raise StateError(
            f"the last query on checkpoint {checkpoint} ran on another machine, so it is unknown "
            f"whether it has ended: {writer}\n\nStop it, then add --stopped."
        )
    if writer.pid != os.getpid() and is_running(writer.pid, datetime.fromisoformat(writer.started)):
        raise StateError(
            f"a query runs on checkpoint {checkpoint}: {writer}\n\nStop it first. If that process "
            "has nothing to do with the checkpoint any more, add --stopped."
        )


def newest_term(files: Files) -> int:
    """Return the term of the newest claim, 0 if no process has claimed the checkpoint yet.

    Raises:
        StateError: the claims cannot be listed.
    """
    try:
        return max(numbers(files, FOLDER), default=0)
    except OSError as error:
        raise StateError(
            f"{files.where(FOLDER)} cannot be listed: {reason(error)}\n\nMake the checkpoint "
            "readable, then start the query again."
        ) from error


def check_unclaimed(files: Files, known_term: int) -> None:
    """Check that no process has claimed the checkpoint since its newest claim was ``known_term``.

    Raises:
        StateError: one has; the message names it.
    """
    term = newest_term(files)
    if term <= known_term:
        return
    checkpoint = files.where("").removesuffix("/tidegate/")
    raise StateError(
        f"another query has written to checkpoint {checkpoint} since this one was started: "
        f"{_read(files, term).writer}\n\nNothing has been changed. Use the handle of the other "
        "query, or start this one again once the other one has stopped."
    )


def displaced(files: Files, mine: Writer, other: Writer | None) -> StateError:
    """Return the error with which a writer stops because another one has taken over."""
    checkpoint = files.where("").removesuffix("/tidegate/")
    return StateError(
        f"another query writes to checkpoint {checkpoint}: {other or 'unknown process'}\n\n"
        f"This one, {mine}, stops, and its current batch is not committed. Only one query may use "
        "a checkpoint: stop the other one, or start this one with a checkpoint of its own."
    )


def _read(files: Files, term: int) -> Claim:
    name = _name(term)
    text = files.read(name)
    with reading(files.where(name), "claim"):
        data = json.loads(text)
        return Claim(writer=Writer(**data["writer"]), checkpoint_id=data["checkpoint_id"])


def _name(term: int) -> str:
    return f"{FOLDER}/{term}.json"
