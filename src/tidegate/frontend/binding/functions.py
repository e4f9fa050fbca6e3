"""The functions a statement may call: Spark's own (a shipped list), Tidegate's, and the user's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlglot import exp

from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.reading.foreign import FOREIGN_NAMES
from tidegate.frontend.refusal import Refusal
from tidegate.names import quoted, suggestion
from tidegate.plan.aggregates.planned import ACCUMULATORS, AGGREGATE_ALIASES
from tidegate.plan.aggregates.registry import registered_accumulators
from tidegate.plan.columns import WINDOW_FUNCTIONS
from tidegate.plan.statement import UserFunction

# Functions that generate rows.
GENERATORS = frozenset(
    outer
    for name in ("explode", "inline", "posexplode", "variant_explode")
    for outer in (name, f"{name}_outer")
) | {"json_tuple", "stack"}

# Functions whose first argument of three is a bare word, e.g. timestampadd(HOUR, 1, ts).
_UNIT_FIRST = ("timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """The names that may be called, in lower case."""

    names: frozenset[str]
    aggregates: frozenset[str]

    def is_aggregate(self, node: exp.Expr) -> bool:
        """Whether a node is the call of an aggregate (without its FILTER)."""
        return isinstance(node, exp.Anonymous) and node.name.lower() in self.aggregates

    def check(self, call: exp.Anonymous) -> None:
        """Refuse a call of an unknown function."""
        name = call.name.lower()
        if name in self.names or isinstance(call.parent, exp.Dot):
            return
        raise Refusal(
            f"there is no function {call.name}",
            span_of(call),
            FOREIGN_NAMES.get(name)
            or suggestion(
                name,
                self.names,
                otherwise="Write one of Spark's functions, or register one by this name.",
            ),
        )


def known_functions(own: Iterable[UserFunction] = ()) -> Functions:
    """Return Spark's functions, Tidegate's, the user's accumulators, and the user's ``own``."""
    scalars, aggregates = _shipped()
    aggregates |= ACCUMULATORS.keys() | AGGREGATE_ALIASES.keys() | registered_accumulators()
    aggregates |= {each.name for each in own if each.aggregate}
    names = scalars | aggregates | WINDOW_FUNCTIONS.keys() | {each.name for each in own}
    return Functions(names=frozenset(names), aggregates=frozenset(aggregates))


def is_window_function(node: exp.Expr) -> bool:
    """Whether a node is the call of ``window_start()`` or one like it."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in WINDOW_FUNCTIONS


def variable_name(node: exp.Identifier) -> str | None:
    """Return what replaces the variable of a lambda over a closed window, None: it may stay.

    Our names begin with ``_``, so variables that do get another name.
    """
    is_field = isinstance(node.parent, exp.Dot) and node.arg_key == "expression"
    if is_field or not node.name.startswith("_"):
        return None
    above: exp.Expr | None = node.parent
    while above is not None:
        if isinstance(above, exp.Lambda) and node.name.lower() in _variables(above):
            return quoted(f"variable{node.name.lower()}")
        above = above.parent
    return None


def _variables(node: exp.Lambda) -> list[str]:
    return [each.name.lower() for each in node.expressions]


def is_unit_word(node: exp.Expr) -> bool:
    """Whether a column is in fact a unit, as in ``timestampadd(HOUR, 1, ts)``."""
    call = node.parent
    return (
        isinstance(call, exp.Anonymous)
        and call.name.lower() in _UNIT_FIRST
        and len(call.expressions) == 3
        and call.expressions[0] is node
    )


@cache
def _shipped() -> tuple[frozenset[str], frozenset[str]]:
    lines = (
        files("tidegate.plan")
        .joinpath("spark_functions.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    words = [line.split() for line in lines if line and not line.startswith("#")]
    aggregates = frozenset(each[0] for each in words if each[1:] == ["aggregate"])
    return frozenset(each[0] for each in words) - aggregates, aggregates
