"""The checkpoints in a folder on this machine."""

from __future__ import annotations

from pathlib import Path

from tidegate.state.reader import StateReader


def readers_in(folder: Path) -> dict[str, StateReader]:
    """Return readers of the checkpoints in a folder, by the names of their transforms.

    The folder is the checkpoint of a query, or that of a pipeline, which has one for each
    transform. There are none before a query has begun.
    """
    if is_checkpoint(folder):
        return {folder.resolve().name: StateReader(folder)}
    try:
        folders = [each for each in sorted(folder.iterdir()) if each.is_dir()]
    except OSError:
        return {}
    return {each.name: StateReader(each) for each in folders if is_checkpoint(each)}


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is the checkpoint of a query that has begun."""
    # A transform may be called tidegate; the folder of our state has manifests.
    return (folder / "tidegate" / "manifests").is_dir()
