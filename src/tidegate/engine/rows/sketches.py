"""Sketches: a few numbers that a job observes, each for a key, within bounds.

A *tuple sketch* is an aggregate of Spark that keeps a value for each distinct hash of a key. It is
exact as long as it has room for all of them, and says when it had not. So a job can hand over, for
example, the places of some rows without the risk that there are millions.
"""

from __future__ import annotations

import sys
from array import array

# No sketch has room for more than ``2**MOST_BITS`` keys. It takes as much as it needs.
MOST_BITS = 26

# Integers beyond this are no longer all DOUBLEs.
_EXACT = 1 << 53

# Of a sketch: the most words before its entries when all had room, and the bytes of an entry.
_WORDS_OF_ALL = 2
_ENTRY_BYTES = 17


def sketch_sql(key: str, value: str, bits: int, mode: str = "max") -> str:
    """Return the aggregate (Spark SQL) of a sketch.

    Args:
        key: what the values are for; rows where it is NULL are not in the sketch.
        value: a DOUBLE; rows where it is NULL are not in the sketch.
        bits: it has room for ``2**bits`` keys.
        mode: what is kept of the values of a key: ``max``, or their ``sum``.
    """
    return f"tuple_sketch_agg_double({key}, {value}, {bits}, '{mode}')"


def read_sketch(sketch: bytes | None) -> dict[str, int] | None:
    """Return the values of a tuple sketch of DOUBLEs by the hex of their hash.

    None if they are not exact: some had no room, or one is beyond the integers of a DOUBLE. The
    format is that of a compact tuple sketch of Apache DataSketches. Its first byte says how many
    words of 8 bytes precede the entries: one if there is at most one entry, two with their number,
    three if some had no room. An entry is a hash of 8 bytes, a DOUBLE, and a byte with the mode.
    """
    if sketch is None:
        return {}
    words = sketch[0]
    if words > _WORDS_OF_ALL:
        return None
    # There may be thousands, so the first bytes of all are taken at once, then the second ones, ..
    entries = bytes(sketch[8 * words :])
    room = 8 * (len(entries) // _ENTRY_BYTES)
    hashes, doubles = bytearray(room), bytearray(room)
    for at in range(8):
        hashes[at::8] = entries[at::_ENTRY_BYTES]
        doubles[at::8] = entries[8 + at :: _ENTRY_BYTES]
    values = array("d", bytes(doubles))
    if sys.byteorder == "big":
        values.byteswap()
    if values and max(-min(values), max(values)) >= _EXACT:
        return None
    return dict(zip(hashes.hex(" ", 8).split(), map(int, values), strict=True))
