"""The manifests of a checkpoint, used by the writer of the state and by mere readers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.errors import StateError
from tidegate.state.files import Files
from tidegate.state.manifest import Manifest

FOLDER = "manifests"


@dataclass(frozen=True, slots=True)
class ManifestLog:
    """Reads manifests."""

    files: Files

    def epochs(self) -> list[int]:
        """Return the epochs of all manifests, ascending.

        Raises:
            StateError: the folder cannot be listed.
        """
        return sorted(self.commits())

    def commits(self) -> dict[int, float]:
        """Return the epochs of all manifests, each with the time at which it was last changed.

        Times are seconds since 1970.

        Raises:
            StateError: the folder cannot be listed.
        """
        try:
            found = self.files.entries(FOLDER)
        except OSError as error:
            raise StateError(
                f"{self.files.where(FOLDER)} cannot be listed: {reason(error)}\n\nMake the "
                "checkpoint readable, then start the query again."
            ) from error
        return {
            int(stem): entry.modified_s
            for entry in found
            if (stem := entry.name.removesuffix(".json")).isdecimal()
        }

    def newest(self) -> Manifest | None:
        """Return the newest manifest, None when there is none.

        Raises:
            StateError: it cannot be read.
        """
        epochs = self.epochs()
        return self.read(epochs[-1]) if epochs else None

    def read(self, epoch: int) -> Manifest:
        """Return the manifest of an epoch.

        Raises:
            StateError: it does not exist or cannot be read.
        """
        name = manifest_name(epoch)
        path = self.files.where(name)
        try:
            text = self.files.read(name)
        except OSError as error:
            raise StateError(
                f"{path} cannot be read: {reason(error)}\n\nRestore the file, or start with "
                "another checkpoint."
            ) from error
        return Manifest.from_json(text, path=path)

    def is_silent(self, epoch: int) -> bool:
        """Return whether an epoch only forgot shards; False if its manifest is not there.

        Raises:
            StateError: it cannot be read.
        """
        if not {epoch - 1, epoch} <= set(self.epochs()):
            return False
        before, after = self.read(epoch - 1), self.read(epoch)
        same = replace(
            after,
            epoch=before.epoch,
            writer=before.writer,
            watermark=before.watermark,
            tables=replace(after.tables, shards=before.tables.shards),
        )
        return same == before


def manifest_name(epoch: int) -> str:
    """Return the name of the manifest of an epoch."""
    return f"{FOLDER}/{epoch}.json"


def numbers(files: Files, folder: str) -> list[int]:
    """Return the numbers of the files ``<number>.json`` of a folder, ascending."""
    stems = (entry.name.removesuffix(".json") for entry in files.entries(folder))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def reason(error: OSError) -> str:
    """Return in a few words why a call failed."""
    return error.strerror or str(error)
