"""The accumulators: how an aggregate is updated, merged and evaluated, as Spark SQL text.

``ACCUMULATORS`` is the one table. An accumulator has one or more *parts*; a part is a column of the
state. ``update`` aggregates rows into a part, ``merge`` aggregates parts into a part of the same type,
``evaluate`` turns merged parts into the result. The law that holds for every entry: evaluating the merge
of the updates of any split of the rows equals the aggregate over all rows.

Placeholders in ``update``: ``{x}``, ``{y}`` (arguments), ``{time}`` (BIGINT, the row's time), ``{order}`` (a
STRUCT that orders rows by time, then by arrival), ``{filter}`` (the FILTER clause or nothing; goes after each
aggregate function). In ``merge`` ``{p}`` is the part's own column and ``{NAME}`` the column of another part;
in ``evaluate`` ``{NAME}`` is a merged part.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from tidegate.plan.statement import Aggregate, Argument

TIME = "_t"
ORDER = "_order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One column of an accumulator's state."""

    name: str
    update: str
    merge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """A mergeable aggregate; ``nulls`` and ``state`` are for the reference, ``exact`` is False for sketches."""

    parts: tuple[Part, ...]
    evaluate: str
    arity: tuple[int, ...]
    nulls: str
    state: str
    exact: bool = True


def _one(update: str, merge: str, *, arity: int = 1, nulls: str = "skips NULL", state: str = "1 value", evaluate: str = "{v}") -> Accumulator:
    return Accumulator(
        parts=(Part(name="v", update=update, merge=merge),),
        evaluate=evaluate,
        arity=(arity,),
        nulls=nulls,
        state=state,
    )


# Moments are kept as (n, mean, m2) and merged pairwise (Chan, Golub, LeVeque 1979): no cancellation.
_MOMENTS = Part(
    name="m",
    update=(
        "named_struct('n', CAST(count({x}){filter} AS DOUBLE), 'mean', avg(CAST({x} AS DOUBLE)){filter}, "
        "'m2', var_pop(CAST({x} AS DOUBLE)){filter} * count({x}){filter})"
    ),
    merge=(
        "aggregate(collect_list({p}), named_struct('n', 0D, 'mean', 0D, 'm2', 0D), (a, b) -> "
        "IF(b.n = 0D, a, named_struct('n', a.n + b.n, 'mean', a.mean + (b.mean - a.mean) * b.n / (a.n + b.n), "
        "'m2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.n * b.n / (a.n + b.n))))"
    ),
)


def _moment(evaluate: str) -> Accumulator:
    return Accumulator(
        parts=(_MOMENTS,), evaluate=evaluate, arity=(1,), nulls="skips NULL", state="3 doubles"
    )


_VAR_SAMP = _moment("CASE WHEN {m}.n > 1 THEN {m}.m2 / ({m}.n - 1) END")
_STDDEV_SAMP = _moment("CASE WHEN {m}.n > 1 THEN sqrt({m}.m2 / ({m}.n - 1)) END")

ACCUMULATORS: dict[str, Accumulator] = {
    "count": Accumulator(
        parts=(Part(name="n", update="count({x}){filter}", merge="sum({p})"),),
        evaluate="{n}",
        arity=(0, 1),
        nulls="count(*) counts every row, count(x) those where x is not NULL",
        state="1 value",
    ),
    "count_if": _one("count_if({x}){filter}", "sum({p})", nulls="NULL counts as false"),
    "sum": _one("sum({x}){filter}", "sum({p})"),
    "avg": Accumulator(
        parts=(
            # x / 1 is DOUBLE for integers and DECIMAL for decimals, as in Spark's own average: the sum
            # of a BIGINT column may be out of the range of BIGINT where its average is not.
            Part(name="s", update="sum({x} / 1){filter}", merge="sum({p})"),
            Part(name="n", update="count({x}){filter}", merge="sum({p})"),
        ),
        evaluate="CASE WHEN {n} > 0 THEN {s} / {n} END",
        arity=(1,),
        nulls="skips NULL",
        state="2 values",
    ),
    "min": _one("min({x}){filter}", "min({p})"),
    "max": _one("max({x}){filter}", "max({p})"),
    "first": _one(
        "min_by(named_struct('v', {x}, 'o', {order}), {order}){filter}",
        "min_by({p}, {p}.o)",
        nulls="takes NULL like any value",
        state="1 value and its place",
        evaluate="{v}.v",
    ),
    "last": _one(
        "max_by(named_struct('v', {x}, 'o', {order}), {order}){filter}",
        "max_by({p}, {p}.o)",
        nulls="takes NULL like any value",
        state="1 value and its place",
        evaluate="{v}.v",
    ),
    "var_samp": _VAR_SAMP,
    "variance": _VAR_SAMP,
    "var_pop": _moment("CASE WHEN {m}.n > 0 THEN {m}.m2 / {m}.n END"),
    "stddev_samp": _STDDEV_SAMP,
    "stddev": _STDDEV_SAMP,
    "std": _STDDEV_SAMP,
    "stddev_pop": _moment("CASE WHEN {m}.n > 0 THEN sqrt({m}.m2 / {m}.n) END"),
}

# Other names of the same aggregates: Spark's own synonyms, and the words of StreamDialect.
AGGREGATE_ALIASES: dict[str, str] = {
    "mean": "avg",
    "first_value": "first",
    "last_value": "last",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "last_row": "last",
    "ndv": "approx_count_distinct",
    "deduplicate": "collect_set",
    "stddevs": "stddev_samp",
    "vars": "var_samp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialColumn:
    """A column of the state: its name there, its update over rows, its merge over partials.

    The name is made from the meaning of the column, so that aggregates that need the same part share it
    and the order of the select list does not matter.
    """

    name: str
    update: str
    merge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAccumulator:
    """An aggregate of a query with its columns, and the text that makes column ``aggregate.name`` of them."""

    aggregate: Aggregate
    columns: tuple[PartialColumn, ...]
    evaluate: str


def has_merge(aggregate: Aggregate) -> bool:
    """Whether an aggregate can be kept as an accumulator instead of whole rows."""
    return aggregate.function in ACCUMULATORS and not aggregate.distinct


def plan_accumulator(aggregate: Aggregate, arguments: tuple[Argument, ...]) -> PlannedAccumulator:
    """Return the state columns and the evaluation of one aggregate; ``has_merge`` holds for it."""
    accumulator = ACCUMULATORS[aggregate.function]
    meaning = {argument.name: argument.expression.sql for argument in arguments}
    args = aggregate.args or ("*",)
    words = {
        "x": args[0],
        "y": args[1] if len(args) > 1 else "NULL",
        "time": TIME,
        "order": ORDER,
        "filter": f" FILTER (WHERE {aggregate.filter})" if aggregate.filter else "",
    }
    names = {}
    for part in accumulator.parts:
        digest = sha256(
            "\0".join([part.update, *(meaning.get(a, a) for a in args), meaning.get(aggregate.filter or "", "")]).encode()
        ).hexdigest()[:8]
        names[part.name] = f"{part.update.partition('(')[0].strip()}_{digest}"
    columns = tuple(
        PartialColumn(
            name=names[part.name],
            update=part.update.format(**words),
            merge=part.merge.format(p=names[part.name], **names),
        )
        for part in accumulator.parts
    )
    return PlannedAccumulator(
        aggregate=aggregate, columns=columns, evaluate=accumulator.evaluate.format(**names)
    )


# Aggregates over whole rows that depend on the order of rows: Spark's own take any order.
_ROW_AGGREGATES: dict[str, str] = {
    "first": "min_by({args}, {order}){filter}",
    "last": "max_by({args}, {order}){filter}",
    "collect_list": "transform(array_sort(collect_list(IF({args} IS NULL, NULL, "
    "named_struct('o', {order}, 'v', {args}))){filter}), s -> s.v)",
}


def row_aggregate(aggregate: Aggregate) -> str:
    """Return the aggregate over rows kept whole, as Spark SQL: Spark's own function where it can be."""
    filtered = f" FILTER (WHERE {aggregate.filter})" if aggregate.filter else ""
    args = ", ".join(aggregate.args) or "*"
    if aggregate.distinct:
        return f"{aggregate.function}(DISTINCT {args}){filtered}"
    text = _ROW_AGGREGATES.get(aggregate.function, f"{aggregate.function}({{args}}){{filter}}")
    return text.format(args=args, order=ORDER, filter=filtered)
