"""Plans an aggregate: the columns of its state, and the text that computes its value from them.

Finds the entry of a call in ``table`` and fills in its placeholders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from tidegate.plan.aggregates.forms import Accumulator, Part
from tidegate.plan.aggregates.registry import REGISTERED
from tidegate.plan.aggregates.table import (
    ACCUMULATORS,
    AGGREGATE_ALIASES,
    ONLY_OVER_ROWS,
    OTHER_CASTS,
)
from tidegate.plan.columns import ORDER, TIME
from tidegate.plan.statement import Aggregate, Argument
from tidegate.plan.types import NUMBER_SYNONYMS, SqlType

__all__ = [
    "ACCUMULATORS",
    "AGGREGATE_ALIASES",
    "Accumulator",
    "Part",
    "PartialColumn",
    "PlannedAccumulator",
    "evaluation",
    "has_merge",
    "plan_accumulator",
    "row_aggregate",
    "text_cast",
    "type_family",
]

# Of a DECIMAL: digits, and those after the point that Spark keeps when a result has too many.
_MOST_DIGITS = 38
_KEPT_SCALE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialColumn:
    """A column of the state: its name, its update over rows, its merge over partials.

    The name is made from the meaning of the column, so that aggregates share equal parts and the
    order of the select list does not matter.
    """

    name: str
    update: str
    merge: str

    @property
    def needs_order(self) -> bool:
        """Whether it depends on the order of rows."""
        return ORDER in self.update


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAccumulator:
    """An aggregate of a query: its state columns, and the text that computes its value.

    ``decimal`` replaces ``evaluate`` if Spark's result is a DECIMAL; see ``evaluation``.
    """

    aggregate: Aggregate
    columns: tuple[PartialColumn, ...]
    evaluate: str
    decimal: str | None = None


def has_merge(aggregate: Aggregate, arguments: tuple[Argument, ...] = ()) -> bool:
    """Whether an aggregate can use an accumulator instead of stored rows."""
    return _entry(aggregate, arguments) is not None


def plan_accumulator(aggregate: Aggregate, arguments: tuple[Argument, ...]) -> PlannedAccumulator:
    """Return the state columns and the evaluation of one aggregate; ``has_merge`` holds for it."""
    entry = _entry(aggregate, arguments)
    assert entry is not None, "only aggregates with a merge are planned"
    words = _words(aggregate, entry)
    meaning = {argument.name: argument.expression.sql for argument in arguments}
    names = {part.name: _column_name(part, words, meaning) for part in entry.parts}
    return PlannedAccumulator(
        aggregate=aggregate,
        columns=tuple(
            PartialColumn(
                name=names[part.name],
                update=_filled(part.update, words),
                merge=_filled(part.merge, {**words, **names, "p": names[part.name]}),
            )
            for part in entry.parts
        ),
        evaluate=_filled(entry.evaluate, {**words, **names}),
        decimal=_filled(entry.decimal, {**words, **names}) if entry.decimal else None,
    )


def evaluation(planned: PlannedAccumulator, native_type: str | None) -> str:
    """Return the value of merged columns, with the type that Spark gives the call.

    Args:
        planned: an accumulator.
        native_type: the type as DDL; None if Spark does not know the aggregate.
    """
    if native_type is None:
        return planned.evaluate
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", native_type)
    if decimal is not None:
        scale = int(decimal[1])
        types = {
            "wide": _widest(scale),
            "mean": _mean(scale),
            "whole": f"DECIMAL({max(1, _MOST_DIGITS - 1 - scale)},0)",
            "part": f"DECIMAL({min(_MOST_DIGITS, scale + 1)},{scale})",
        }
        value = _filled(planned.decimal or planned.evaluate, types)
        return f"try_cast({value} AS {native_type})"
    value = planned.evaluate.replace("{wide}", native_type)
    # Nested types need no cast, and their fields may have names that a cast cannot express.
    return value if "<" in native_type else f"CAST({value} AS {native_type})"


def _widest(scale: int) -> str:
    """A DECIMAL of as many digits as a sum of two of them can keep without losing one."""
    digits = _MOST_DIGITS if scale <= _KEPT_SCALE else max(_MOST_DIGITS - 1, scale)
    return f"DECIMAL({digits},{scale})"


def _mean(scale: int) -> str:
    """The sum of a whole part ``q`` and of a rest ``r``, with ``scale`` digits after the point.

    Where all 38 digits are used and more than 6 of them stand after the point, Spark rounds a sum
    to 37 digits.
    """
    whole = max(1, _MOST_DIGITS - scale)
    rest = f"CAST(r AS DECIMAL({min(_MOST_DIGITS, scale + 1)},{scale}))"
    if scale <= _KEPT_SCALE:
        return f"try_add(try_cast(q AS DECIMAL({whole},0)), {rest})"
    exact = f"try_cast(q AS DECIMAL({max(1, whole - 1)},0)) + {rest}"
    rounded = f"try_add(try_cast(q AS DECIMAL({whole},0)), CAST(r AS DECIMAL({scale},{scale - 1})))"
    # Of one type, or CASE would have one of fewer digits after the point.
    rest, exact, rounded = (
        f"try_cast({each} AS DECIMAL({_MOST_DIGITS},{scale}))" for each in (rest, exact, rounded)
    )
    least = f"{10 ** max(0, whole - 1)}BD"
    return f"CASE WHEN q = 0 THEN {rest} WHEN abs(q) < {least} THEN {exact} ELSE {rounded} END"


def row_aggregate(aggregate: Aggregate) -> str:
    """Return the aggregate over stored rows, as Spark SQL: Spark's own if possible.

    That is not possible if it depends on the order of rows, if Spark stops the query because a sum
    leaves its range or a correlation divides by zero, or if both paths must give the same estimate.
    """
    function = aggregate.function
    if aggregate.distinct:
        name = f"try_{function}" if function in ("sum", "avg") else function
        return _filled(f"{name}(DISTINCT {{args}}){{filter}}", _words(aggregate, None))
    entry = _entry(aggregate, ())
    if entry is not None and entry.over_rows is None:
        words = _words(aggregate, entry)
        updates = {part.name: f"({_filled(part.update, words)})" for part in entry.parts}
        return _filled(entry.evaluate, {**words, **updates})
    known = ACCUMULATORS.get(function)
    call = known.over_rows if known is not None else ONLY_OVER_ROWS.get(function)
    words = {**_words(aggregate, None), "function": function}
    return _filled(call or _PLAIN_CALL, words)


_PLAIN_CALL = "{function}({args}){filter}"


def _entry(aggregate: Aggregate, arguments: tuple[Argument, ...]) -> Accumulator | None:
    """Return the entry for a call, or None if it needs stored rows."""
    name, args = aggregate.function, aggregate.args
    types = {argument.name: argument.type for argument in arguments}
    entry = REGISTERED.get(name) or ACCUMULATORS.get(name)
    if aggregate.distinct:
        loses = bool(args) and _loses_digits(name, types.get(args[0]))
        entry = None if loses or entry is None else entry.distinct
    elif entry is not None and entry.ignore_nulls is not None and len(args) == 2:
        entry = {"true": entry.ignore_nulls, "false": entry}.get(args[1].lower())
    elif entry is not None and args:
        family = type_family(types.get(args[0]))
        typed = (form for families, form in entry.typed if family in families)
        entry = next(typed, entry)
    if entry is None or (entry.arity and len(args) not in entry.arity):
        return None
    if entry.constants and not all(_is_scalar_constant(each) for each in args[1:]):
        return None
    # Spark counts distinct maps, but cannot collect a set of them.
    is_set = any("collect_set" in part.update for part in entry.parts)
    if is_set and any((types.get(each) or "").startswith("MAP") for each in args):
        return None
    return entry


def text_cast(function: str) -> SqlType | None:
    """Return the type to which Spark casts text that an aggregate (aliases resolved) is given."""
    entry = ACCUMULATORS.get(function)
    return OTHER_CASTS.get(function) if entry is None else entry.casts


def type_family(type_: str | None) -> str | None:
    """Return a key of ``Accumulator.typed``; DECIMALs of over 28 digits are WIDE DECIMAL."""
    if type_ is None:
        return None
    word, _, rest = type_.upper().partition("(")
    word = NUMBER_SYNONYMS.get(word.strip(), word.strip())
    if word != "DECIMAL":
        return word
    digits = int(rest.split(",")[0].strip(" )")) if rest else 10
    return "DECIMAL" if digits <= 28 else "WIDE DECIMAL"


def _loses_digits(name: str, type_: str | None) -> bool:
    """Whether a sum of different values would lose a digit, so that Spark had better do it."""
    scale = {"sum": 0, "avg": 4}.get(name)
    if scale is None or type_family(type_) != "WIDE DECIMAL":
        return False
    digits = re.search(r",\s*(\d+)", type_ or "")
    return scale + int(digits[1] if digits else 0) > _KEPT_SCALE


def _is_scalar_constant(argument: str) -> bool:
    return not re.match(r"_x\d+$|array\b", argument, re.IGNORECASE)


def _words(aggregate: Aggregate, entry: Accumulator | None) -> dict[str, str]:
    """Return the placeholders over rows with their texts; without an entry no constants."""
    args = list(aggregate.args)
    if entry is not None and args:
        args += entry.constants[len(args) - 1 :]
    given = aggregate.args or ("*",)
    several = len(given) > 1
    known = " AND ".join(f"{each} IS NOT NULL" for each in given)
    kept = [f"{args[0]} IS NOT NULL"] if args else []
    kept += [aggregate.filter] if aggregate.filter else []
    return {
        **dict(zip("xyz", args or ["*"], strict=False)),
        "args": ", ".join(given),
        "row": f"CASE WHEN {known} THEN struct({', '.join(given)}) END" if several else given[0],
        "time": TIME,
        "order": ORDER,
        "filter": f" FILTER (WHERE {aggregate.filter})" if aggregate.filter else "",
        "known": f" FILTER (WHERE {' AND '.join(kept)})",
    }


def _column_name(part: Part, words: dict[str, str], meaning: dict[str, str]) -> str:
    """Return a column name for its meaning: what it computes, from which expressions."""
    update = _filled(part.update, words)
    meant = re.sub(r"_x\d+\b", lambda match: meaning.get(match[0], match[0]), update)
    digest = sha256(meant.encode()).hexdigest()[:8]
    function = re.match(r"\w+", part.update)
    return f"{function[0] if function else part.name}_{digest}".lower()


def _filled(text: str, words: dict[str, str]) -> str:
    """Return the text with known placeholders filled in; others stay as they are."""
    return re.sub(r"{(\w+)}", lambda match: words.get(match[1], match[0]), text)
