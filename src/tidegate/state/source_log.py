"""The log in which Spark's file source notes the files of each of its batches.

    sources/0/8           the files of batch 8: "v1", then a line of JSON for each
    sources/0/9.compact   those of batches 0 to 9; the single ones are deleted some time later

A batch number is a compaction if it is the last of ``interval`` ones. Spark finds a batch by the
name that its number gives it, so a log that ends earlier must have exactly these files.
"""

from __future__ import annotations

import json
from pathlib import Path

_COMPACT = ".compact"
_INTERVAL = 10


def cut_source_log(folder: Path, last: int) -> list[str] | None:
    """Return the files of a log that have to go so that it ends with a batch.

    Single batches that are only in a later compaction are written again first.

    Args:
        folder: the log.
        last: the batch; -1: none is kept.

    Returns:
        The names, the latest first; None if the log cannot end there, and then it stays as it is.
    """
    numbered = {
        int(name.removesuffix(_COMPACT)): name
        for name in (each.name for each in folder.glob("*"))
        if name.removesuffix(_COMPACT).isdecimal()
    }
    later = [numbered[number] for number in sorted(numbered, reverse=True) if number > last]
    if not later:
        return []
    needed = _needed(numbered, last)
    missing = [number for number in needed if number not in numbered]
    if missing and not _rebuild(folder, numbered, last, missing):
        return None
    return later


def _needed(numbered: dict[int, str], last: int) -> range:
    """The batches whose files a log needs that ends with ``last``."""
    compacted = [n for n, name in numbered.items() if name.endswith(_COMPACT) and n <= last]
    return range(max(compacted, default=0), last + 1)


def _rebuild(folder: Path, numbered: dict[int, str], last: int, missing: list[int]) -> bool:
    """Write missing batches from a later compaction; return whether that is possible."""
    compacted = sorted(n for n, name in numbered.items() if name.endswith(_COMPACT))
    source = next((number for number in compacted if number > last), None)
    interval = compacted[-1] - compacted[-2] if len(compacted) > 1 else _INTERVAL
    if source is None or interval < 1 or (source + 1) % interval:
        return False
    try:
        header, *lines = (folder / numbered[source]).read_text("utf-8").split("\n")
        batches = [(int(json.loads(line)["batchId"]), line) for line in lines if line]
    except (OSError, ValueError, KeyError):
        return False
    for number in missing:
        is_compaction = (number + 1) % interval == 0
        kept = [line for of, line in batches if of == number or (is_compaction and of < number)]
        aside = folder / f".{number}.tidegate.tmp"
        aside.write_text("\n".join([header, *kept]), "utf-8")
        aside.replace(folder / f"{number}{_COMPACT if is_compaction else ''}")
    return True
