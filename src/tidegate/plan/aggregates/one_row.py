"""What a state column holds after a single row, without aggregating, where its update tells.

Where hardly any two rows have the same group, to group them costs more than it saves.
"""

from __future__ import annotations

import re

_COUNT = "count"
# Aggregates whose value of one row is their argument, or NULL.
_ITSELF = ("sum", "try_sum", "min", "max", "any_value", "bool_and", "bool_or")
_CALL = re.compile(rf"({'|'.join([_COUNT, *_ITSELF])})\(")
_FILTER = re.compile(r" FILTER \(WHERE (.*)\)", re.DOTALL)


def of_one_row(update: str) -> str | None:
    """Return an update over one row as a scalar, whose type may be narrower; None: it needs more.

    >>> of_one_row("sum(_x0 / 2)"), of_one_row("count(1)"), of_one_row("collect_list(_x0)")
    ('(_x0 / 2)', '1L', None)
    >>> of_one_row("count(_x0) FILTER (WHERE _x1 > 0)")
    'IF((_x1 > 0) AND (_x0) IS NOT NULL, 1L, 0L)'
    """
    call = _CALL.match(update)
    if call is None:
        return None
    end = closing_bracket(update, call.end() - 1)
    filtered = _FILTER.fullmatch(update, end + 1)
    argument = update[call.end() : end].strip()
    if (filtered is None and update[end + 1 :]) or not _is_one_value(argument):
        return None
    conditions = [] if filtered is None else [f"({filtered[1]})"]
    if call[1] != _COUNT:
        return f"IF({conditions[0]}, {argument}, NULL)" if conditions else f"({argument})"
    if argument not in ("1", "*"):
        conditions.append(f"({argument}) IS NOT NULL")
    return f"IF({' AND '.join(conditions)}, 1L, 0L)" if conditions else "1L"


def closing_bracket(text: str, opening: int) -> int:
    """Return the place of the bracket that closes one; brackets in quotes do not count."""
    depth = 0
    for token in re.finditer(r"'(?:[^'\\]|\\.)*'|[()]", text[opening:]):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0:
            return opening + token.start()
    raise AssertionError(f"unbalanced brackets in {text}")


def _is_one_value(argument: str) -> bool:
    """Whether it is neither a list of arguments nor one with DISTINCT."""
    if re.match(r"(DISTINCT|ALL)\b", argument, re.IGNORECASE):
        return False
    depth = 0
    for token in re.finditer(r"'(?:[^'\\]|\\.)*'|[()\[\],]", argument):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token[0], 0)
        if token[0] == "," and depth == 0:
            return False
    return True
