"""Calls of scalar functions; COALESCE, IF and the like evaluate only the arguments they need."""

from __future__ import annotations

from difflib import get_close_matches

from .aggregates import AGGREGATES
from .arithmetic import divide
from .built import Built, choose, compare, constant, strict
from .functions import FUNCTIONS
from .parse import Refused


def call(name: str, parts: list[Built]) -> Built:
    """A function of built arguments; raises Refused when there is none of the name."""
    if name in LAZY:
        return LAZY[name](parts)
    if name not in FUNCTIONS:
        near = get_close_matches(name, [*FUNCTIONS, *LAZY, *AGGREGATES], 1)
        raise Refused(
            f"there is no function {name}" + (f"; did you mean {near[0]}?" if near else "")
        )
    function = FUNCTIONS[name]
    kind = function.type([part.type for part in parts])
    if not function.sees_null:
        return strict(kind, function.compute, *parts)
    return Built(kind, lambda env: function.compute(*(part.run(env) for part in parts)))


def _known(part: Built) -> Built:
    return Built("BOOLEAN", lambda env: part.run(env) is not None)


def _coalesce(parts: list[Built]) -> Built:
    return choose([(_known(part), part) for part in parts], constant(None, "NULL"))


def _if(parts: list[Built]) -> Built:
    return choose([(parts[0], parts[1])], parts[2])


def _nullif(parts: list[Built]) -> Built:
    equal = compare(parts[0], parts[1], lambda a, b: a == b)
    return choose([(equal, constant(None, "NULL"))], parts[0])


def _nvl2(parts: list[Built]) -> Built:
    return choose([(_known(parts[0]), parts[1])], parts[2])


def _try_divide(parts: list[Built]) -> Built:
    def safe(a: object, b: object) -> object:
        return None if b == 0 else divide(float(a), float(b))

    return strict("DOUBLE", safe, *parts)


LAZY = {
    "coalesce": _coalesce,
    "nvl": _coalesce,
    "ifnull": _coalesce,
    "if": _if,
    "iff": _if,
    "nullif": _nullif,
    "nvl2": _nvl2,
    "try_divide": _try_divide,
}
