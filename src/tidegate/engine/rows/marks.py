"""Marks: few duplicates of a batch, listed by the job that finds them.

A mark is the place of a row in its batch, and above it a part of its key's hash. So a condition can
find the row when the batch is read again, and holds for no other row if its order has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidegate.plan.columns import DEDUP_KEY, KEY_PLACE, MARK

# The places of a thousand tasks have no more bits.
PLACE_BITS, _HASH_BITS = 43, 20

# Up to 1,000 marks of a task, and 40,000 characters in all (about 2,000 marks), are returned with
# the counts.
MOST_OF_TASK = 1_000
_MOST_CHARACTERS = 40_000

# The mark of a key that is less than the one before it. Those of duplicates are not negative.
FALLS = -1

_LISTED = f"array_join(CAST(collect_list({MARK}) AS ARRAY<STRING>), ',')"

# What is observed of the rows of a search: a BINARY for ``read_marks``.
MARKS = {"marks": f"CAST(left({_LISTED}, {_MOST_CHARACTERS}) AS BINARY)"}


def mark_of_row() -> str:
    """Return the mark that a row with a place has if it is a duplicate (Spark SQL, BIGINT)."""
    short_hash = f"hash({DEDUP_KEY}) & {(1 << _HASH_BITS) - 1}L"
    return f"({KEY_PLACE} | shiftleft({short_hash}, {PLACE_BITS}))"


def place_of_mark(mark: int) -> int:
    """Return the place of a duplicate from its mark."""
    return mark & ((1 << PLACE_BITS) - 1)


def read_marks(text: bytes) -> Sequence[int] | None:
    """Return the marks that a job has listed; None if they are too many."""
    if len(text) >= _MOST_CHARACTERS:
        return None
    return [int(each) for each in text.decode().split(",") if each]


def all_of(duplicates: int, marks: Sequence[int] | None) -> Sequence[int] | None:
    """Return the marks if they are those of all duplicates."""
    return marks if marks is not None and len(marks) == duplicates else None


def found_all(marks: Sequence[int] | None) -> bool:
    """Return whether ``rising_keys`` has found all duplicates, if it has listed these marks.

    Not if a key falls, nor if a key may have three rows: then two marks in a row have equal hashes,
    because equal keys have.
    """
    if marks is None or FALLS in marks:
        return False
    hashes = [mark >> PLACE_BITS for mark in sorted(marks, key=place_of_mark)]
    return all(before != after for before, after in pairwise(hashes))
