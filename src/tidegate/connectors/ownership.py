"""The owner of a results folder: the one checkpoint whose query may write there.

A new query that writes into the results of another one would replace some epochs and leave others;
two running queries would replace each other's. So the folder contains a file that names its owner.
Its name begins with ``_``, so readers skip it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.spark.folders import Folder

OWNER_FILE = "_tidegate_owner"
# The folder for files of an epoch that is being written.
STAGING = "_staging"
STAGING_GRACE_S = 86_400

_EPOCH = re.compile(r"emit_epoch=(\d+)")
_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A checkpoint: its id, and its path when it became the owner."""

    id: str
    checkpoint: str


def owner_of(folder: Folder) -> Owner | None:
    """Return the owner of a folder, None if it has none."""
    text = folder.read(OWNER_FILE)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Owner(id=str(found["id"]), checkpoint=str(found["checkpoint"]))
    except (ValueError, KeyError, TypeError):
        return Owner(id="unknown", checkpoint="unknown")


def check_owner(folder: Folder, path: str, owner_id: str | None) -> None:
    """Refuse a folder that belongs to another checkpoint; nothing is written.

    Args:
        folder: the folder.
        path: its path, for messages.
        owner_id: the id of the query's checkpoint, None if the checkpoint is new.

    Raises:
        ConfigError: it does, or it holds results although the checkpoint is new.
    """
    found = owner_of(folder)
    if found is not None and found.id != owner_id:
        raise ConfigError(
            f"{path} holds the results of another query: its owner is checkpoint "
            f"{found.checkpoint} (id {found.id})\n\nWrite to another folder. If that query is gone "
            "for good, move its results away or delete the folder."
        )
    if found is None and owner_id is None and _epochs(folder):
        raise ConfigError(_unowned(path))


def take(folder: Folder, path: str, owner: Owner, newest_epoch: int | None) -> None:
    """Make a checkpoint the owner of a folder, and delete epochs that it did not commit.

    Raises:
        ConfigError: the folder belongs to another checkpoint, or holds results without an owner
            although the checkpoint has no epoch yet.
    """
    check_owner(folder, path, owner.id)
    text = json.dumps({"id": owner.id, "checkpoint": owner.checkpoint})
    known = -1 if newest_epoch is None else newest_epoch
    if owner_of(folder) is None:
        # A query becomes the owner before it writes, so these results are not from this one.
        if any(epoch > known for epoch in _epochs(folder)):
            raise ConfigError(_unowned(path))
        if not folder.put_if_absent(OWNER_FILE, text):
            check_owner(folder, path, owner.id)
    # Another process may still be writing files that are young.
    folder.sweep(STAGING, older_than_s=STAGING_GRACE_S)
    unknown = [epoch for epoch in _epochs(folder) if epoch > known]
    for epoch in unknown:
        folder.delete(f"emit_epoch={epoch}")
    if unknown:
        _LOG.warning(
            "%s: deleted epochs %s: the checkpoint ends at %s, so they had been interrupted or "
            "rolled back and will be written again",
            path,
            ", ".join(map(str, unknown)),
            "its start" if newest_epoch is None else f"epoch {newest_epoch}",
        )


def _unowned(path: str) -> str:
    return (
        f"{path} holds results that this checkpoint did not write, and new results would replace "
        "some of them\n\nWrite to another folder, or move the old results away."
    )


def _epochs(folder: Folder) -> list[int]:
    matches: Iterable[re.Match[str] | None] = map(_EPOCH.fullmatch, folder.names())
    return sorted(int(match[1]) for match in matches if match)
