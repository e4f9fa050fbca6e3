"""Streams that are read as one: they must have the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.plan.statement import Column


def difference(columns: Mapping[str, Sequence[Column] | None]) -> str | None:
    """Return how the columns of some streams differ, None if they do not.

    Their order does not matter, nor does the case of names. Columns that are not known yet (None)
    are left out.

    Args:
        columns: the columns of each stream by its name.
    """
    known = {name: each for name, each in columns.items() if each is not None}
    if not known:
        return None
    first, *others = known
    wanted = {column.name.lower(): column for column in known[first]}
    for other in others:
        found = {column.name.lower(): column for column in known[other]}
        for name in [*wanted, *found]:
            left, right = wanted.get(name), found.get(name)
            if left is None or right is None:
                has, lacks = (first, other) if right is None else (other, first)
                column = left or right
                assert column is not None, "one of the two has it"
                return f"{has} has the column {column.name}, {lacks} has not"
            if left.type.upper() != right.type.upper():
                return f"{left.name} is {left.type} in {first} and {right.type} in {other}"
    return None
