"""The nearest name to one that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_LISTED = 12


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.65) -> str | None:
    """Return the known name most like ``name``, case aside, or None when none is like it."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def suggestion(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return the mend of a wrong name: the nearest one, else ``otherwise``."""
    near = nearest(name, known)
    return f"Did you mean {near}?" if near else otherwise


def listed(names: Iterable[str]) -> str:
    """Return names for a message: a, b and c."""
    words = list(names)
    if len(words) > _MOST_LISTED:
        words = [*words[:_MOST_LISTED], f"{len(words) - _MOST_LISTED} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
