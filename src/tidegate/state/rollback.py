"""Rolling a checkpoint on a local disk back to a kept epoch.

What came after the epoch is moved to ``tidegate/rolled_back/<time>``, nothing is deleted:

    commits/8, offsets/8      Spark's batches after that of the epoch
    sources/0/8               what Spark's file sources noted in them
    intents/8-1.json, segments/8-.., manifests/8.json

While files are moved, ``tidegate/rollback.json`` says so: no query starts then, and the same
command continues where it was interrupted. It is moved last. Before anything is moved the process
claims the checkpoint, so a query that runs nevertheless stops at its next step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.batch import offsets_hash
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.damage import listed_damage
from tidegate.state.files import Files, LocalFiles
from tidegate.state.intents import FOLDER as INTENTS
from tidegate.state.intents import intent_name, intent_terms
from tidegate.state.manifest import MANIFEST_VERSION, Manifest, check_version, reading
from tidegate.state.manifest_log import FOLDER as MANIFESTS
from tidegate.state.manifest_log import ManifestLog
from tidegate.state.source_log import cut_source_log
from tidegate.state.writers import check_stopped, claim

MARKER = "rollback.json"
FOLDER = "rolled_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """A rollback that has begun.

    Attributes:
        epoch: the epoch that becomes the newest.
        from_epoch: the newest epoch when it began.
        folder: where files are moved to, below ``tidegate``.
    """

    epoch: int
    from_epoch: int
    folder: str


@dataclass(slots=True, kw_only=True)
class RolledBack:
    """What a rollback has done.

    Attributes:
        rollback: the rollback.
        manifest: the manifest that is the newest now.
        moved: how many files and folders this run has moved, by their folder.
        notes: what the user should know.
    """

    rollback: Rollback
    manifest: Manifest
    moved: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def roll_back(checkpoint: Path, epoch: int, *, stopped: bool = False) -> RolledBack:
    """Make a kept epoch of a checkpoint the newest one.

    Args:
        checkpoint: the checkpoint of a query.
        epoch: the epoch.
        stopped: the user has made sure that no query runs on the checkpoint.

    Raises:
        StateError: the epoch is not kept or damaged, Spark's part has other batches, or a query may
            be running; nothing is changed then.
    """
    files = LocalFiles(str(checkpoint / "tidegate"))
    log = ManifestLog(files)
    begun = rollback_of(files)
    if begun is not None and begun.epoch != epoch:
        raise _unfinished(files, begun)
    epochs = log.epochs()
    if epoch not in epochs:
        raise StateError(
            f"checkpoint {checkpoint} has no epoch {epoch}: kept are "
            f"{f'{epochs[0]} to {epochs[-1]}' if epochs else 'none'}\n\nGive one of these."
        )
    manifest = log.read(epoch)
    damage = listed_damage(files, manifest.segments)
    if damage is not None:
        raise damage.error(str(checkpoint))
    spark = _SparkLogs(checkpoint, manifest)
    spark.check()
    check_stopped(files, stopped=stopped)
    if begun is None:
        begun = _begin(files, epoch, epochs[-1])
    claim(files, manifest)
    done = RolledBack(rollback=begun, manifest=manifest)
    mover = _Mover(checkpoint, checkpoint / "tidegate" / begun.folder, done.moved)
    spark.cut(mover, done.notes)
    _cut_state(files, log, epoch, mover)
    mover.move("tidegate", [MARKER])
    return done


def rollback_of(files: Files) -> Rollback | None:
    """Return the rollback that has begun and not ended, None if there is none.

    Raises:
        StateError: the file that says so cannot be read.
    """
    path = files.where(MARKER)
    try:
        text = files.read(MARKER)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error}\n\nMake it readable.") from error
    with reading(path, "rollback"):
        data = json.loads(text)
        check_version(data.pop("version"), path)
        return Rollback(**data)


def check_no_rollback(files: Files) -> None:
    """Refuse a checkpoint on which a rollback was interrupted.

    Raises:
        StateError: one was.
    """
    begun = rollback_of(files)
    if begun is not None:
        raise _unfinished(files, begun)


def _unfinished(files: Files, begun: Rollback) -> StateError:
    checkpoint = files.where("").removesuffix("/tidegate/")
    return StateError(
        f"a rollback of checkpoint {checkpoint} to epoch {begun.epoch} was interrupted, and its "
        "files are partly moved\n\nFinish it: tidegate state "
        f"{checkpoint} --rollback {begun.epoch}"
    )


def _begin(files: Files, epoch: int, from_epoch: int) -> Rollback:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    taken = {entry.name for entry in files.entries(FOLDER)}
    name = next(n for n in (stamp, *(f"{stamp}-{i}" for i in range(2, 99))) if n not in taken)
    begun = Rollback(epoch=epoch, from_epoch=from_epoch, folder=f"{FOLDER}/{name}")
    files.make_folder(begun.folder)
    text = json.dumps({"version": MANIFEST_VERSION, **asdict(begun)}, indent=1)
    files.put_if_absent(MARKER, text)
    return begun


def _cut_state(files: Files, log: ManifestLog, epoch: int, mover: _Mover) -> None:
    """Move intents, segments and manifests of later epochs.

    Segments go before the manifests that name them, so an interrupted move can go on. A process
    that was past its last check may still write a manifest meanwhile; so look again at the end.
    """
    kept = _segments_of(log, (each for each in log.epochs() if each <= epoch))
    while True:
        terms = {n: each for n, each in intent_terms(files).items() if n > epoch}
        names = [intent_name(n, term) for n, each in terms.items() for term in each]
        mover.move(f"tidegate/{INTENTS}", [name.removeprefix(f"{INTENTS}/") for name in names])
        later = [each for each in log.epochs() if each > epoch]
        if not later:
            return
        mover.move(f"tidegate/{SEGMENTS}", sorted(_segments_of(log, later) - kept))
        mover.move(f"tidegate/{MANIFESTS}", [f"{each}.json" for each in reversed(later)])


def _segments_of(log: ManifestLog, epochs: Iterable[int]) -> set[str]:
    """The names of the segments of manifests; one that is damaged may be why to roll back."""
    names: set[str] = set()
    for epoch in epochs:
        with suppress(StateError):
            names |= {segment.name for segment in log.read(epoch).segments}
    return names


@dataclass(frozen=True, slots=True)
class _Mover:
    """Moves files of a checkpoint to the same place below another folder."""

    checkpoint: Path
    target: Path
    moved: dict[str, int]

    def move(self, folder: str, names: Iterable[str]) -> None:
        """Move files or folders, with Hadoop's checksums; those that are gone already are left."""
        below = self.target / folder.removeprefix("tidegate").lstrip("/")
        for name in names:
            for each in (f".{name}.crc", name):
                source = self.checkpoint / folder / each
                if source.exists():
                    below.mkdir(parents=True, exist_ok=True)
                    os.replace(source, below / each)
                    self.moved[folder] = self.moved.get(folder, 0) + (each == name)


@dataclass(frozen=True, slots=True)
class _SparkLogs:
    """Spark's part of a checkpoint, and the manifest that it has to fit."""

    checkpoint: Path
    manifest: Manifest

    def check(self) -> None:
        """Check that Spark's part has the batch of the manifest.

        Raises:
            StateError: it has another one, or it is of another query.
        """
        batch_id, query_id = self.manifest.batch_id, self.manifest.query_id
        if query_id is None or self._is_missing():
            return  # No streaming query of its own has written the state.
        try:
            found = json.loads((self.checkpoint / "metadata").read_text("utf-8"))["id"]
            offsets = self._offsets(batch_id) if batch_id >= 0 else ()
        except (OSError, ValueError, KeyError) as error:
            raise StateError(
                f"checkpoint {self.checkpoint} cannot be rolled back to epoch "
                f"{self.manifest.epoch}: batch {batch_id} of Spark's part cannot be read: {error}"
                "\n\nSpark keeps its last 100 batches. Roll back to an epoch that is in both, "
                "or restore the whole checkpoint from one copy."
            ) from error
        same = batch_id < 0 or offsets_hash(offsets) == self.manifest.offsets_hash
        if found != query_id or not same:
            raise StateError(
                f"checkpoint {self.checkpoint} cannot be rolled back to epoch "
                f"{self.manifest.epoch}: batch {batch_id} of Spark's part is not the one that the "
                "epoch is made of\n\nThe two parts come from different copies. Restore the whole "
                "checkpoint from one copy."
            )

    def cut(self, mover: _Mover, notes: list[str]) -> None:
        """Move what Spark has noted of later batches: the commits first, as Spark expects."""
        batch_id = self.manifest.batch_id
        if self._is_missing() and self.manifest.query_id is not None:
            notes.append(
                f"Its rows come from another transform, of which it has all up to {batch_id}: roll "
                f"that one back too, to epoch {batch_id} if it reads its results, to batch "
                f"{batch_id} if it reads its source"
            )
        planned = self._numbers("offsets")
        newest = self._offsets(planned[-1]) if planned else ()
        reached = self._offsets(batch_id) if batch_id >= 0 and newest else ()
        for place, last in enumerate(newest):
            if _log_offset(last) is None:
                continue  # No file source; others have no log of their own.
            kept = _log_offset(reached[place]) if place < len(reached) else None
            folder = f"sources/{place}"
            later = cut_source_log(self.checkpoint / folder, -1 if kept is None else kept)
            if later is None:
                notes.append(
                    f"Spark's log of source {place} no longer has its batches one by one: the "
                    "next batch reads all their files at once"
                )
            mover.move(folder, later or ())
        for folder in ("commits", "offsets"):
            after = [number for number in self._numbers(folder) if number > batch_id]
            mover.move(folder, map(str, reversed(after)))

    def _is_missing(self) -> bool:
        """Whether there is nothing of Spark, as where another query brings the rows."""
        return not any((self.checkpoint / name).exists() for name in ("metadata", "offsets"))

    def _offsets(self, batch_id: int) -> tuple[str, ...]:
        _, _, *offsets = (self.checkpoint / "offsets" / str(batch_id)).read_text().split("\n")
        return tuple(offsets)

    def _numbers(self, folder: str) -> list[int]:
        found = (self.checkpoint / folder).glob("*")
        return sorted(int(each.name) for each in found if each.name.isdecimal())


def _log_offset(offset: str) -> int | None:
    """The batch of a file source's own log, None if it is the offset of another source."""
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    number = found.get("logOffset") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None
