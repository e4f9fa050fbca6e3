"""Damage: segment files that differ from what the manifest says, and the error that reports them.

The manifest has the size of each file, so a missing, truncated or swapped file is found before it
is read. On a local disk we check each file; elsewhere Spark has already listed them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.errors import StateError
from tidegate.state.files import Files
from tidegate.state.manifest import Segment, StateFile
from tidegate.time import format_time

FOLDER = "segments"

# What Spark says when it cannot read a file; the name of the file is in the message.
_PATH = re.compile(rf"/{FOLDER}/([^/\s]+)/([^/\s]+?\.parquet)")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of a segment that cannot be used."""

    segment: Segment
    file: str
    what: str

    def error(self, checkpoint: str) -> StateError:
        """Return the error that reports it."""
        segment = self.segment
        return StateError(
            f"checkpoint {checkpoint} is damaged: {self.file} of segment {segment.name} "
            f"{self.what}\n\nThe segment holds {segment.rows:,} rows of the state, of windows from "
            f"{format_time(segment.first_us)} to {format_time(segment.last_us)}; without the file "
            "their results would be wrong, so the query does not go on. Put the file back under "
            f"tidegate/{FOLDER}/{segment.name}, or restore the whole checkpoint from one copy, or "
            "start with a new checkpoint."
        )


def local_damage(root: str, segments: Iterable[Segment]) -> Damage | None:
    """Return the first file on a local disk that differs from what its manifest says."""
    for segment, file in _files(segments):
        try:
            size = os.stat(f"{root}/{FOLDER}/{segment.name}/{file.name}").st_size
        except FileNotFoundError:
            return Damage(segment, file.name, "is missing")
        if size != file.bytes:
            return _of_other_size(segment, file, size)
    return None


def listed_damage(files: Files, segments: Iterable[Segment]) -> Damage | None:
    """Return the first file, on any file system, that differs from what its manifest says.

    Raises:
        OSError: a folder cannot be listed.
    """
    for segment in segments:
        found = {entry.name: entry.bytes for entry in files.entries(f"{FOLDER}/{segment.name}")}
        for file in segment.files:
            if file.name not in found:
                return Damage(segment, file.name, "is missing")
            if found[file.name] != file.bytes:
                return _of_other_size(segment, file, found[file.name])
    return None


def reported_damage(message: str, segments: Iterable[Segment]) -> Damage | None:
    """Return the file of a segment that Spark names in a message about reading it."""
    match = _PATH.search(message)
    if match is None:
        return None
    name, file = match.groups()
    segment = next((each for each in segments if each.name == name), None)
    if segment is None or file not in {each.name for each in segment.files}:
        return None
    return Damage(segment, file, "cannot be read: its content is not what was written")


def _of_other_size(segment: Segment, file: StateFile, size: int) -> Damage:
    return Damage(segment, file.name, f"has {size:,} bytes instead of {file.bytes:,}")


def _files(segments: Iterable[Segment]) -> Iterator[tuple[Segment, StateFile]]:
    return ((segment, file) for segment in segments for file in segment.files)
