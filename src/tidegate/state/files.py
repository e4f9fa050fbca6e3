"""Our files in a checkpoint, on a local disk.

``Files`` is what the state needs from a file system; names are relative to the folder ``tidegate``
of the checkpoint. Every failure is an ``OSError``. ``LocalFiles`` needs neither Spark nor Java;
``hadoop_files`` does the same for all other file systems.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from tidegate.paths import link_or_rename


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or folder: its name, its size, and when it was last changed (seconds since 1970)."""

    name: str
    bytes: int
    modified_s: float


class Files(Protocol):
    """What the state needs from a file system."""

    def where(self, name: str) -> str:
        """The path of a name as people and Spark write it."""

    def read(self, name: str) -> str:
        """Return the text of a file."""

    def entries(self, folder: str) -> list[Entry]:
        """Return what is in a folder, without hidden files; nothing if it does not exist."""

    def unfinished(self, folder: str) -> list[Entry]:
        """Return the hidden files that ``put_if_absent`` leaves when its process is killed."""

    def make_folder(self, name: str) -> None:
        """Make a folder and its parents; it may exist already."""

    def put_if_absent(self, name: str, text: str) -> None:
        """Create a file atomically; its folder must exist.

        Raises:
            FileExistsError: the file exists already, and is left as it is.
        """

    def delete(self, name: str) -> None:
        """Delete a file or a folder with everything in it; it need not exist."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files below a folder of a local disk."""

    root: str

    def where(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str) -> str:
        return Path(self.root, name).read_text("utf-8")

    def entries(self, folder: str) -> list[Entry]:
        return [entry for entry in self._all(folder) if not entry.name.startswith((".", "_"))]

    def unfinished(self, folder: str) -> list[Entry]:
        return [entry for entry in self._all(folder) if is_unfinished(entry.name)]

    def make_folder(self, name: str) -> None:
        Path(self.root, name).mkdir(parents=True, exist_ok=True)

    def put_if_absent(self, name: str, text: str) -> None:
        target = Path(self.root, name)
        aside = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        try:
            aside.write_text(text, "utf-8")
            link_or_rename(aside, target)
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def _all(self, folder: str) -> list[Entry]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as found:
                return [_entry(each) for each in found]
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        path = os.path.join(self.root, name)
        with suppress(FileNotFoundError):
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def is_unfinished(name: str) -> bool:
    """Whether a file is one that ``put_if_absent`` was about to put in place."""
    return name.startswith(".") and name.endswith(".tmp")


def _entry(found: os.DirEntry[str]) -> Entry:
    status = found.stat()
    return Entry(name=found.name, bytes=status.st_size, modified_s=status.st_mtime)
