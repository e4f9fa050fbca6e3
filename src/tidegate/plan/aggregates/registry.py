"""The accumulators that users register: three texts, with checked placeholders.

Spark checks the texts when a query that uses them starts.
"""

from __future__ import annotations

import re

from tidegate.errors import ConfigError
from tidegate.plan.aggregates.forms import Accumulator, Part
from tidegate.plan.aggregates.table import ACCUMULATORS, AGGREGATE_ALIASES

REGISTERED: dict[str, Accumulator] = {}


def register_accumulator(name: str, *, update: str, merge: str, evaluate: str = "{v}") -> None:
    """Register an aggregate of your own, for all later statements.

    Args:
        name: its name in statements; case does not matter.
        update: aggregates rows, as Spark SQL over ``{x}``, ``{y}``, ``{z}`` (the arguments),
            ``{time}`` and ``{order}``; write ``{filter}`` after every aggregate function.
        merge: aggregates states ``{p}`` from ``update`` and ``merge`` to one of the same type.
        evaluate: computes the value from the merged state ``{v}``.

    >>> register_accumulator(
    ...     "geo_mean",
    ...     update="named_struct('l', sum(ln({x})){filter}, 'n', count({x}){filter})",
    ...     merge="named_struct('l', sum({p}.l), 'n', sum({p}.n))",
    ...     evaluate="exp({v}.l / nullif({v}.n, 0))",
    ... )

    Raises:
        ConfigError: the name is taken or invalid, or a placeholder is unknown or missing.
    """
    example = (
        "Write e.g. register_accumulator('total', update='sum({x}){filter}', merge='sum({p})')."
    )
    for argument, value in (
        ("name", name),
        ("update", update),
        ("merge", merge),
        ("evaluate", evaluate),
    ):
        if not isinstance(value, str):
            raise ConfigError(f"{argument} is {value!r:.80}, it must be text\n\n{example}")
    key = name.lower()
    if not re.fullmatch(r"[a-z_]\w*", key, re.ASCII):
        raise ConfigError(
            f"{name!r} is not a valid name\n\nUse letters, digits and _, e.g. geo_mean."
        )
    if key in ACCUMULATORS or key in AGGREGATE_ALIASES:
        raise ConfigError(f"there is an aggregate {name} already\n\nChoose another name.")
    texts = {"update": update, "merge": merge, "evaluate": evaluate}
    for text_name, (known, needed) in _OWN_PLACEHOLDERS.items():
        _check_placeholders(f"{name}, {text_name}", texts[text_name], known, needed)
    used = placeholders(update)
    least = 3 if "z" in used else 2 if "y" in used else 1 if "x" in used else 0
    REGISTERED[key] = Accumulator(
        parts=(Part(name="v", update=update, merge=merge),),
        evaluate=evaluate,
        arity=(least,),
        over_rows=None,
    )


def registered_accumulators() -> frozenset[str]:
    """Return the names that ``register_accumulator`` has added, in lower case."""
    return frozenset(REGISTERED)


# The placeholders that the texts of a user's accumulator can have, and those they must have.
_OWN_PLACEHOLDERS: dict[str, tuple[tuple[str, ...], str]] = {
    "update": (("x", "y", "z", "args", "row", "time", "order", "filter"), "filter"),
    "merge": (("p",), "p"),
    "evaluate": (("v",), "v"),
}


def _check_placeholders(place: str, text: str, known: tuple[str, ...], needed: str) -> None:
    used = placeholders(text)
    listed = f"There are {', '.join(f'{{{word}}}' for word in known)}."
    for word in used:
        if word not in known:
            raise ConfigError(
                f"accumulator {place}: {{{word}}} is not a placeholder\n\n  {text}\n\n{listed}"
            )
    if needed not in used:
        mend = (
            "Put it after every aggregate function, e.g. sum({x}){filter}."
            if needed == "filter"
            else listed
        )
        raise ConfigError(f"accumulator {place}: {{{needed}}} is missing\n\n  {text}\n\n{mend}")


def placeholders(text: str) -> list[str]:
    """Return the names in curly brackets in a text, with repetitions."""
    return re.findall(r"{(\w*)}", text)
