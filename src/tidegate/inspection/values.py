"""The values of open windows: partials merged and evaluated in plain Python.

``plan.json`` says in Spark SQL how columns are merged and evaluated. The two tables here have these
texts for the common aggregates, each with the same in Python. A value whose text is in neither
table (a sketch, say) needs Spark.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from statistics import quantiles
from typing import Any, TypeAlias

from tidegate.plan.aggregates import forms, moments
from tidegate.state.plan_file import PlanFile

Row: TypeAlias = Mapping[str, Any]
# A merge gets the column as it is in each partial, and the partials.
Merge: TypeAlias = "Callable[[list[Any], Sequence[Row], Mapping[str, str]], Any]"
# An evaluation gets the merged columns by the names of the text's placeholders.
Evaluate: TypeAlias = "Callable[[Mapping[str, Any]], Any]"


class NeedsSpark:
    """The value of an aggregate that only Spark can evaluate."""

    def __repr__(self) -> str:
        return "needs Spark"


NEEDS_SPARK = NeedsSpark()


@dataclass(frozen=True, slots=True)
class Values:
    """Merges and evaluates partials.

    Args:
        plan: what the columns of the state mean.
        schema: their types (DDL).
    """

    plan: PlanFile
    schema: Mapping[str, str]

    def of(self, partials: Sequence[Row]) -> dict[str, Any]:
        """Return the values of the partials of one window and group, by the text of the call.

        A value that needs Spark is ``NEEDS_SPARK``.
        """
        merged = {
            column: self._merged(column, text, partials)
            for column, text in self.plan.merges.items()
        }
        return {call: self._evaluated(text, merged) for call, text in self.plan.values.items()}

    def _merged(self, column: str, text: str, partials: Sequence[Row]) -> Any:  # noqa: ANN401
        found = _find(_MERGES, text)
        if found is None:
            return NEEDS_SPARK
        merge, names = found
        return merge([partial[column] for partial in partials], partials, names)

    def _evaluated(self, text: str, merged: Mapping[str, Any]) -> Any:  # noqa: ANN401
        found = _find(_EVALUATIONS, text)
        if found is None:
            return NEEDS_SPARK
        evaluate, names = found
        given = {place: merged.get(name, name) for place, name in names.items()}
        if any(value is NEEDS_SPARK for value in given.values()):
            return NEEDS_SPARK
        value = evaluate(given)
        if isinstance(value, Decimal) and "/" in text:
            types = " ".join(self.schema.get(name, "") for name in names.values())
            return value.quantize(Decimal(1).scaleb(-_scale(types)), ROUND_HALF_UP)
        return value


# --- Merges.


def _known(merge: Callable[[list[Any]], Any]) -> Merge:
    """A merge of the values that are not NULL; NULL if there is none."""

    def merged(values: list[Any], _: Sequence[Row], __: Mapping[str, str]) -> Any:  # noqa: ANN401
        known = [value for value in values if value is not None]
        return merge(known) if known else None

    return merged


def _guarded(values: list[Any], partials: Sequence[Row], names: Mapping[str, str]) -> Any:  # noqa: ANN401
    """A sum that is NULL if a partial that has seen values is NULL: it was out of range."""
    known = [value for value in values if value is not None]
    if len(known) != sum(1 for partial in partials if (partial[names["n"]] or 0) > 0):
        return None
    return sum(known[1:], known[0]) if known else None


def _place(value: Any) -> tuple[int, Any]:  # noqa: ANN401
    """A key that orders values as Spark does: NaN is the greatest number, structs by field."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    if isinstance(value, dict):
        return (0, tuple(_place(field) for field in value.values()))
    return (0, value)


def _by_place(choose: Callable[..., Any]) -> Merge:
    """The value at the least or greatest position; rows without a position do not count."""

    def merged(values: list[Any], _: Sequence[Row], __: Mapping[str, str]) -> Any:  # noqa: ANN401
        known = [value for value in values if value is not None and value["o"] is not None]
        return choose(known, key=lambda value: _place(value["o"])) if known else None

    return merged


def _joined(values: list[Any], _: Sequence[Row], __: Mapping[str, str]) -> list[Any]:
    return [each for value in values if value is not None for each in value]


def _different(values: list[Any], _: Sequence[Row], __: Mapping[str, str]) -> list[Any]:
    """The different elements of lists, in order of their first place."""
    return list({repr(each): each for each in _joined(values, _, __)}.values())


def _spread(states: list[Any]) -> dict[str, float]:
    """The count, the mean and the sum of squared deviations of two groups together."""
    n, mean, m2 = 0.0, 0.0, 0.0
    for state in states:
        if state["n"]:
            both, apart = n + state["n"], state["mean"] - mean
            m2 += state["m2"] + apart * apart * n * state["n"] / both
            mean += apart * state["n"] / both
            n = both
    return {"n": n, "mean": mean, "m2": m2}


def _bits(merge: Callable[[int, int], int]) -> Merge:
    def merged(values: list[Any]) -> int:
        result = values[0]
        for value in values[1:]:
            result = merge(result, value)
        return int(result)

    return _known(merged)


_LISTS = "flatten(collect_list({p}))"
MERGES: dict[str, Merge] = {
    "sum({p})": _known(lambda values: sum(values[1:], values[0])),
    forms.guarded("").merge: _guarded,
    "min({p})": _known(lambda values: min(values, key=_place)),
    "max({p})": _known(lambda values: max(values, key=_place)),
    "bool_and({p})": _known(all),
    "bool_or({p})": _known(any),
    "bit_and({p})": _bits(lambda one, other: one & other),
    "bit_or({p})": _bits(lambda one, other: one | other),
    "bit_xor({p})": _bits(lambda one, other: one ^ other),
    "min_by({p}, {p}.o)": _by_place(min),
    "max_by({p}, {p}.o)": _by_place(max),
    _LISTS: _joined,
    f"array_distinct({_LISTS})": _different,
    moments.SPREAD_MERGE: _known(_spread),
}


# --- Evaluations.


def _scale(types: str) -> int:
    """The digits after the point of a mean of decimals, by the types of its columns."""
    found = re.search(r"decimal\(\d+,(\d+)\)", types)
    return int(found[1]) + 4 if found else 6


def _mean(given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    total, count = given["s"], given["n"]
    return None if total is None or not count else total / count


def _halves(given: Mapping[str, Any]) -> int | None:
    if given["u"] is None:
        return None
    total = (given["u"] << 32) + given["l"]
    return int(total) if -(2**63) <= total < 2**63 else None


def _sum_of_set(given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    values = given["v"] or []
    return sum(values[1:], values[0]) if values else None


def _mean_of_set(given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    values = given["v"] or []
    return sum(values[1:], values[0]) / len(values) if values else None


def _in_order(given: Mapping[str, Any]) -> list[Any]:
    known = [each for each in given["v"] or () if each is not None]
    return [each["v"] for each in sorted(known, key=lambda each: _place(each["o"]))]


def _most_frequent(given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    counts = Counter(given["v"] or ())
    return min(counts, key=lambda value: (-counts[value], _place(value)), default=None)


def _median(given: Mapping[str, Any]) -> float | None:
    values = sorted(given["v"] or ())
    if len(values) < 2:
        return float(values[0]) if values else None
    return float(quantiles(values, n=2, method="inclusive")[0])


def _of_spread(least: int, value: Callable[[float, float], float]) -> Evaluate:
    def evaluated(given: Mapping[str, Any]) -> float | None:
        state = given["m"]
        return value(state["m2"], state["n"]) if state and state["n"] > least else None

    return evaluated


_SPREADS: dict[str, Evaluate] = {
    "var_samp": _of_spread(1, lambda m2, n: m2 / (n - 1)),
    "var_pop": _of_spread(0, lambda m2, n: m2 / n),
    "stddev_samp": _of_spread(1, lambda m2, n: math.sqrt(m2 / (n - 1))),
    "stddev_pop": _of_spread(0, lambda m2, n: math.sqrt(m2 / n)),
}

EVALUATIONS: dict[str, Evaluate] = {
    "{v}": lambda given: given["v"],
    "{v}.v": lambda given: None if given["v"] is None else given["v"]["v"],
    "{s} / nullif({n}, 0)": _mean,
    forms.OF_HALVES: _halves,
    "CAST(size({v}) AS BIGINT)": lambda given: len(given["v"]),
    f"{forms.SET_SUM}.s": _sum_of_set,
    f"{forms.SET_SUM}.s / nullif({forms.SET_SUM}.n, 0)": _mean_of_set,
    forms.LIST.evaluate: _in_order,
    forms.MODE.evaluate: _most_frequent,
    forms.percentile("0.5D").evaluate: _median,
    **{moments.SPREADS[name]: evaluate for name, evaluate in _SPREADS.items()},
}


def _pattern(template: str) -> re.Pattern[str]:
    """A pattern for the texts of a template, with the columns of its placeholders as groups."""
    parts, seen = [], set()
    for part in re.split(r"({\w})", template):
        name = part[1:-1] if re.fullmatch(r"{\w}", part) else None
        if name is None:
            parts.append(re.escape(part))
        elif name in seen:
            parts.append(f"(?P={name})")
        else:
            parts.append(rf"(?P<{name}>\w+)")
            seen.add(name)
    return re.compile("".join(parts))


def _compiled(table: Mapping[str, Any]) -> list[tuple[re.Pattern[str], Any]]:
    return [(_pattern(template), function) for template, function in table.items()]


_MERGES, _EVALUATIONS = _compiled(MERGES), _compiled(EVALUATIONS)


def _find(
    table: Iterable[tuple[re.Pattern[str], Any]], text: str
) -> tuple[Any, dict[str, str]] | None:
    """Return the function for a text, and the columns by their placeholders."""
    for pattern, function in table:
        match = pattern.fullmatch(text)
        if match is not None:
            return function, match.groupdict()
    return None
