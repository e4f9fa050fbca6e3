"""Matching the header of CSV files with the wanted columns: values are assigned by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.connectors.samples import Advice
from tidegate.errors import ConfigError
from tidegate.names import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a CSV file says about its columns.

    Attributes:
        first: the values of the first line.
        is_header: whether the option ``header`` says that they are names.
        of: the source, for messages.
        advise: returns how the user writes an option.
    """

    first: Sequence[str]
    is_header: bool
    of: str
    advise: Advice


def columns_in_file(header: Header, wanted: Sequence[str]) -> list[str]:
    """Return the columns of the file in their order; wanted columns are spelled as wanted.

    Raises:
        ConfigError: the first line contradicts the option, or a wanted column is missing.
    """
    given = [value.strip() for value in header.first]
    names = {name.lower(): name for name in wanted}
    found = [value.lower() for value in given]
    if not header.is_header:
        if found == list(names):
            raise ConfigError(
                f"{header.of}: the first line is a header: {listed(given)}\n\n"
                f"Add {header.advise('header', 'true')}."
            )
        return list(wanted)
    missing = [name for key, name in names.items() if key not in found]
    if len(missing) == len(names):
        raise ConfigError(
            f"{header.of}: the first line is not a header: {listed(given)}; the columns are "
            f"{listed(wanted)}\n\nIf it is a row, add {header.advise('header', 'false')}; "
            "otherwise correct the schema."
        )
    if missing:
        raise ConfigError(
            f"{header.of}: the header names no {listed(missing)}, only {listed(given)}\n\n"
            "Correct the schema, or the header of the file."
        )
    twice = sorted({value for value in found if found.count(value) > 1})
    if twice:
        raise ConfigError(
            f"{header.of}: the header names {listed(twice)} twice\n\n"
            "Correct the header of the file."
        )
    return [names.get(key, value) for key, value in zip(found, given, strict=True)]
