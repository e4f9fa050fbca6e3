"""The types of the state's columns, and which changes of them are allowed.

A column may become wider if Spark's Parquet reader can read the older files as the wider type. Any
other change is refused before a batch runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.errors import StateError

if TYPE_CHECKING:
    from tidegate.state.manifest import Manifest

# The types, besides itself, that values of a type may be read as.
WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}

# The tokens of a type: a simple type or field name, or the punctuation between them.
_PARTS = re.compile(r"decimal\(\d+,\d+\)|[^<>,:]+|[<>,:]")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def check_schema(
    state: Manifest, schema: Mapping[str, str], texts: Mapping[str, str], checkpoint: str
) -> None:
    """Refuse a query whose state columns have other types than those in the checkpoint.

    Args:
        state: the newest manifest.
        schema: the columns of the query's state and their types (DDL).
        texts: columns with their text in the statement, for the message.
        checkpoint: for the message.

    Raises:
        StateError: names each column with both types.
    """
    if not state.segments:
        return  # There is no state to read.
    differing = [
        (texts.get(name, name), before, schema.get(name, "nothing"))
        for name, before in state.schema.items()
        if not can_be_read_as(before, schema.get(name, "nothing"))
    ]
    differing += [
        (texts.get(name, name), "nothing", kind)
        for name, kind in schema.items()
        if name not in state.schema
    ]
    if not differing:
        return
    lines = "\n".join(
        f"  {text}: {before}  in the checkpoint\n  {' ' * len(text)}  {now}  in the query"
        for text, before, now in differing
    )
    raise StateError(
        f"checkpoint {checkpoint} holds other types; this differs: "
        f"{', '.join(text for text, _, _ in differing)}\n\n{lines}\n\n"
        "Cast the column back to the type in the checkpoint where the query reads it, or start "
        "with a new checkpoint. Integers and decimals may become wider, and FLOAT may become "
        "DOUBLE."
    )


def can_be_read_as(before: str, now: str) -> bool:
    """Return whether what was written as one type (DDL) can be read as another, also nested."""
    old, new = _PARTS.findall(before), _PARTS.findall(now)
    return len(old) == len(new) and all(map(_part_can_be_read_as, old, new))


def _part_can_be_read_as(before: str, now: str) -> bool:
    if before == now or now in WIDER.get(before, ()):
        return True
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(now)
    return bool(old and new and old[2] == new[2] and int(old[1]) <= int(new[1]))
