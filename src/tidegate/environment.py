"""Variables of the environment in options: ``${NAME}`` stands for a value that is never shown.

Options keep ``${NAME}`` until the connector needs the value, so plans and messages of ours show the
name. Values that were put in are remembered, because Spark or a driver may repeat one in an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")

# A shorter value cannot be a secret, and would be found in every other word.
_SHORTEST = 4

_put_in: dict[str, str] = {}


def missing_variables(text: str) -> list[str]:
    """Return the names in ``${NAME}`` that are no variables of the environment."""
    return [name for name in _VARIABLE.findall(text) if name not in os.environ]


def with_values(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with the values of their variables; one that is not set stays as it is."""
    return {name: _VARIABLE.sub(_value, text) for name, text in options.items()}


def without_values(text: str) -> str:
    """Return a text that may be shown: values that options got from variables are ``${NAME}``."""
    for value, name in sorted(_put_in.items(), key=lambda item: -len(item[0])):
        text = text.replace(value, f"${{{name}}}")
    return text


def _value(found: re.Match[str]) -> str:
    value = os.environ.get(found[1], "")
    if found[1] not in os.environ:
        return found[0]
    if len(value) >= _SHORTEST:
        _put_in[value] = found[1]
    return value
