"""Folders that must not overlap: those a pipeline reads, those it writes, and its checkpoint.

A query that reads what it writes never ends, and two writers of one folder replace each other's
files. ``check`` and ``Query.start`` call ``clashes`` before anything is written.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from itertools import combinations

from tidegate.paths import StrPath, local_path

WILDCARDS = "*?[{"


class Role(Enum):
    """What a query uses a folder for."""

    SOURCE = "source"
    SINK = "sink"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder of a query; ``name`` is its name in messages, e.g. ``sinks.out``."""

    role: Role
    name: str
    path: StrPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two places that overlap: the ``one`` that is wrong, what is wrong, and how to mend it."""

    one: Place
    other: Place
    what: str
    mend: str


def clashes(places: Sequence[Place]) -> Iterator[Clash]:
    """Yield every two places that overlap and must not.

    Folders whose name begins with ``_`` or ``.`` are hidden from sources and readers, so they may
    lie inside one; nothing may lie inside a checkpoint.
    """
    for first, second in combinations(places, 2):
        # Of a source and a sink, the sink is the wrong one: the input exists already.
        other, one = (first, second) if second.role is not Role.SOURCE else (second, first)
        found = _meeting(one, other)
        if found is not None:
            yield found


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern: it has wildcards, and no file has exactly this name."""
    if not any(character in path for character in WILDCARDS):
        return False
    local = local_path(path)
    return local is None or not os.path.lexists(local)


def _meeting(one: Place, other: Place) -> Clash | None:
    if one.role is other.role and one.role is not Role.SINK:
        return None
    mine, theirs = _parts(one), _parts(other)
    if _holds(mine, theirs) and _holds(theirs, mine):
        what = f"{one.name} and {other.name} are one folder: {_text(one)}"
    elif _holds(theirs, mine) and _matters(other, mine[len(theirs) :]):
        what = f"{one.name} lies inside {other.name}: {_text(one)} is in {_text(other)}"
    elif _holds(mine, theirs) and _matters(one, theirs[len(mine) :]):
        what = f"{other.name} lies inside {one.name}: {_text(other)} is in {_text(one)}"
    else:
        return None
    return Clash(one=one, other=other, what=what, mend=_MENDS[frozenset((one.role, other.role))])


_MENDS = {
    frozenset((Role.SINK,)): "Give each sink a folder of its own: one replaces the other's files.",
    frozenset((Role.SINK, Role.SOURCE)): "Write to another folder: the query would read its own "
    "results, or results would be lost among the input.",
    frozenset((Role.SINK, Role.CHECKPOINT)): "Keep results and the checkpoint in folders of their "
    "own, side by side.",
    frozenset((Role.SOURCE, Role.CHECKPOINT)): "Keep the checkpoint outside of what is read.",
}


def _text(place: Place) -> str:
    return os.fspath(place.path)


def _matters(outer: Place, below: tuple[str, ...]) -> bool:
    """Whether something at this path below a place disturbs it."""
    return outer.role is Role.CHECKPOINT or not any(part.startswith(("_", ".")) for part in below)


def _holds(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Whether ``inner`` is the same folder as ``outer`` or inside of it.

    Parts of ``outer`` may be patterns.
    """
    return len(outer) <= len(inner) and all(
        part == pattern or fnmatchcase(part, pattern)
        for part, pattern in zip(inner, outer, strict=False)
    )


def _parts(place: Place) -> tuple[str, ...]:
    """Return a path as a root and names, the same for all spellings of it.

    Wildcards are kept in the pattern of a source and escaped elsewhere.
    """
    path = os.fspath(place.path)
    fixed, pattern = path, ""
    if place.role is Role.SOURCE and is_pattern(path):
        names = path.split("/")
        first = next(i for i, name in enumerate(names) if any(c in name for c in WILDCARDS))
        fixed, pattern = "/".join(names[:first]), "/".join(names[first:])
        fixed = fixed or ("/" if path.startswith("/") else ".")
    local = local_path(fixed)
    if local is not None:
        root, names = "file", os.path.realpath(local).split(os.sep)
    else:
        root, below = _remote(fixed)
        names = posixpath.normpath(f"/{below}").split("/")
    literal = [_escaped(name) for name in names if name]
    # Alternatives, {a,b}, match anything: better one clash too many than one missed.
    wild = [re.sub(r"\{[^{}]*\}", "*", name) for name in pattern.split("/") if name]
    return (root, *literal, *wild)


def _remote(path: str) -> tuple[str, str]:
    """Split a URL into file system and path; the three schemes of S3 count as one."""
    scheme, _, rest = path.partition(":")
    host, _, below = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    return f"{'s3a' if scheme in ('s3', 's3n') else scheme}://{host}", below


def _escaped(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
