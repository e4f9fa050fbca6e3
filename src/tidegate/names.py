"""Names as text: quoted paths, lists, and the known name most similar to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_MOST_LISTED = 12
# Words that Spark takes for something else than a column where they stand alone.
_NO_NAMES = frozenset(
    "all any array case cast distinct exists false interval not null some true".split()
)
_WORD = re.compile(r"[^\W\d]\w*")


def quoted(name: str) -> str:
    """Return a name as SQL text, in backticks where it needs them."""
    is_plain = name.isidentifier() and name.isascii() and name.lower() not in _NO_NAMES
    return name if is_plain else in_backticks(name)


def path(*names: str) -> str:
    """Return names, case aside, as one text that no other names have: ``a.b``, but `` `a.b` ``."""
    return ".".join(_part(name.lower()) for name in names)


def is_path(text: str) -> bool:
    """Whether a text that ``path`` made has more than one name in it."""
    return "." in re.sub(r"`(?:[^`]|``)*`", "", text)


def _part(name: str) -> str:
    return name if _WORD.fullmatch(name) else in_backticks(name)


def in_backticks(name: str) -> str:
    """Return a name as SQL text in backticks, whatever it consists of."""
    return "`" + name.replace("`", "``") + "`"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.65) -> str | None:
    """Return the known name most similar to ``name``, ignoring case; None if none is similar."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def suggestion(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return advice on a wrong name: the most similar known one, else ``otherwise``."""
    near = nearest(name, known)
    return f"Did you mean {near}?" if near else otherwise


def listed(names: Iterable[str]) -> str:
    """Return names as a list for a message: a, b and c."""
    words = list(names)
    if len(words) > _MOST_LISTED:
        words = [*words[:_MOST_LISTED], f"{len(words) - _MOST_LISTED} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
