"""The forms of accumulators: sums, values with their positions, lists and sets, sketches.

Placeholders are described in ``table``, which uses the forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegate.plan.aggregates.results import OF_AVG, OF_BIGINT, OF_SUM, OF_X, Result, told
from tidegate.plan.types import SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One column of an accumulator's state."""

    name: str
    update: str
    merge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """A mergeable aggregate.

    Attributes:
        parts: the columns of its state.
        evaluate: the result, over the merged parts.
        decimal: the result if Spark's is a DECIMAL and needs another text.
        arity: the numbers of arguments it can have; empty for any number.
        constants: the defaults of the arguments after the first, which must be constants. If
            empty, all arguments are values of rows.
        nulls: what it does with NULL.
        state: what a group stores.
        result: the type of the result.
        over_rows: the call over rows kept whole; None: ``evaluate`` over the updates of all rows.
        exact: False for sketches.
        distinct: the entry of the call with DISTINCT; None if it needs the rows.
        ignore_nulls: the entry of the call with IGNORE NULLS; None if it cannot be called so.
        typed: cheaper entries by the type of the first argument (see ``type_family``).
        casts: the type to which Spark casts an argument that is text; None: it does not.
    """

    parts: tuple[Part, ...]
    evaluate: str
    decimal: str | None = None
    arity: tuple[int, ...] = (1,)
    constants: tuple[str, ...] = ()
    nulls: str = "skips NULL"
    state: str = "1 value"
    result: Result = OF_X
    over_rows: str | None = "{function}({args}){filter}"
    exact: bool = True
    distinct: Accumulator | None = None
    ignore_nulls: Accumulator | None = None
    typed: tuple[tuple[frozenset[str], Accumulator], ...] = ()
    casts: SqlType | None = None


def indifferent(entry: Accumulator) -> Accumulator:
    """An aggregate to which repeated values make no difference: DISTINCT is its plain call."""
    return replace(entry, distinct=entry)


def one_part(update: str, merge: str, evaluate: str = "{v}") -> Accumulator:
    """An aggregate of a single part, ``{v}``."""
    return Accumulator(parts=(Part(name="v", update=update, merge=merge),), evaluate=evaluate)


def merges_itself(function: str) -> Accumulator:
    """An aggregate that is its own merge, such as ``min``."""
    return one_part(f"{function}({{x}}){{filter}}", f"{function}({{p}})")


# --- Sums. If a sum leaves its range, try_sum makes it NULL. So a part that is NULL although it has
# seen values is out of range, and so is everything it is merged into.

COUNT = Part(name="n", update="count({x}){filter}", merge="sum({p})")


def guarded(update: str) -> Part:
    """A sum that becomes NULL if it leaves its range; it needs ``COUNT`` beside it."""
    merge = "CASE WHEN count({p}) = count_if({n} > 0) THEN try_sum({p}) END"
    return Part(name="s", update=update, merge=merge)


# BIGINTs are summed as their upper and their lower 32 bits. For 2 ** 31 rows neither sum leaves its
# range, so a sum that leaves the range of BIGINT and comes back is exact, however batches are cut.
# Functions instead of << and >>: after the word ARRAY Spark's lexer takes >> for the end of a type.
UPPER = Part(name="u", update="sum(shiftright({x}, 32)){filter}", merge="sum({p})")
LOWER = Part(name="l", update="sum({x} & 4294967295){filter}", merge="sum({p})")
_UPPER_WITH_CARRY = "{u} + shiftright({l}, 32)"
OF_HALVES = (
    f"IF({_UPPER_WITH_CARRY} BETWEEN -2147483648 AND 2147483647, "
    f"shiftleft({_UPPER_WITH_CARRY}, 32) + ({{l}} & 4294967295), NULL)"
)

PLAIN_SUM = Part(name="s", update="sum({x}){filter}", merge="sum({p})")
GUARDED_SUM = guarded("try_sum({x}){filter}")


def sum_of(part: Part, *others: Part) -> Accumulator:
    """A sum by its part, and the further parts that it needs."""
    state = f"{1 + len(others)} value" + ("s" if others else "")
    return Accumulator(
        parts=(part, *others),
        evaluate="{s}",
        state=state,
        result=OF_SUM,
        over_rows="try_sum({args}){filter}",
    )


def let(value: str, name: str, body: str) -> str:
    """``body``, in which ``name`` is a value computed once."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def quotient(total: str, count: str) -> str:
    """A decimal mean, exact to the last digit; Spark reduces the scale of a quotient."""
    n = f"CAST(nullif({count}, 0) AS DECIMAL(12, 0))"
    rest = f"{total} % {n}"
    return f"try_cast(({total} - {rest}) / {n} AS {{whole}}) + CAST(({rest}) / {n} AS {{part}})"


def wide_quotient(total: str, count: str) -> str:
    """``quotient`` of decimals of any width.

    Spark keeps 6 digits after the point of a quotient of wide decimals and at most 32 before it, so
    the whole part is divided by itself, in two steps; ``{mean}`` puts it together with the rest.
    """
    n = f"CAST(nullif({count}, 0) AS DECIMAL(12,0))"
    rest = f"{total} % {n}"
    million = f"({n} * 1000000BD)"
    whole = (
        f"CAST((w - w % {million}) / {million} AS DECIMAL(32,0)) * 1000000BD "
        f"+ CAST((w % {million}) / {n} AS DECIMAL(7,0))"
    )
    mean = let(whole, "q", let(f"({rest}) / {n}", "r", "{mean}"))
    return let(f"CAST({total} - {rest} AS DECIMAL(38,0))", "w", mean)


def avg_of(part: Part, divided: Callable[[str, str], str] = wide_quotient) -> Accumulator:
    """An average by the part of its sum, and by how a DECIMAL is divided."""
    return Accumulator(
        parts=(part, COUNT),
        evaluate="{s} / nullif({n}, 0)",
        decimal=divided("{s}", "{n}"),
        state="2 values",
        result=OF_AVG,
        over_rows="try_avg({args}){filter}",
    )


# --- Order of rows: a value is stored with its position. In ties the first row wins.

LEAST = "IF({y} IS NULL, NULL, named_struct('y', {y}, 'o', {order}))"
GREATEST = (
    "IF({y} IS NULL, NULL, named_struct('y', {y}, 't', -{order}.t, 'b', -{order}.b, "
    "'i', -{order}.i))"
)


def placed(function: str, place: str, only: str = "{filter}") -> Accumulator:
    """The value at the least or greatest position; NULL positions do not count."""
    value = f"named_struct('v', {{x}}, 'o', {place})"
    entry = one_part(f"{function}({value}, {place}){only}", f"{function}({{p}}, {{p}}.o)", "{v}.v")
    return replace(
        entry, nulls="takes NULL like any value", state="1 value and its place", over_rows=None
    )


FIRST, LAST = (
    replace(placed(function, "{order}"), arity=(1, 2), constants=("false",))
    for function in ("min_by", "max_by")
)
FIRST_KNOWN, LAST_KNOWN = (
    replace(
        placed(function, "{order}", "{known}"), nulls="skips NULL", arity=(2,), constants=("true",)
    )
    for function in ("min_by", "max_by")
)
BY_KEY = "takes NULL like any value; skips rows where y is NULL"

# --- All values, and all distinct ones.


_JOINED = "flatten(collect_list({p}))"
_VALUES = Part(name="v", update="collect_list({x}){filter}", merge=_JOINED)
# Unary plus converts a string to a number, as Spark does for the argument of a percentile.
_NUMBERS = Part(name="v", update="collect_list(+{x}){filter}", merge=_JOINED)
# Sorted by position alone, so that values without an order (maps) can be listed, too.
LIST = Accumulator(
    parts=(
        Part(
            name="v",
            update=(
                "collect_list(IF({x} IS NULL, NULL, named_struct('v', {x}, 'o', {order}))){filter}"
            ),
            merge=_JOINED,
        ),
    ),
    evaluate=let(
        "{v}",
        "l",
        "transform(array_sort(transform(l, (e, i) -> named_struct('o', e.o, 'i', i))), "
        "k -> l[k.i].v)",
    ),
    state="every value and its place",
    result=told("ARRAY of the type of x, in order of event time, then of arrival"),
    over_rows=None,
)

# The current run of equal values, and the longest one so far.
_RUN = "IF(e <=> a.v, a.n + 1, 1)"
MODE = Accumulator(
    parts=(_VALUES,),
    evaluate=(
        "aggregate(array_sort({v}), named_struct('v', get({v}, 0), 'n', 0, 'best', get({v}, 0), "
        f"'top', 0), (a, e) -> named_struct('v', e, 'n', {_RUN}, 'best', "
        f"IF({_RUN} > a.top, e, a.best), 'top', greatest({_RUN}, a.top)), a -> a.best)"
    ),
    arity=(1, 2),
    constants=("true",),
    state="every value",
    result=replace(OF_X, text="the type of x; if there are several, the least"),
    over_rows="mode({x}, true){filter}",
)


def percentile(share: str) -> Accumulator:
    """The exact percentile, interpolated between the two nearest values as in Spark."""
    low, high = "get(s, CAST(floor(p) AS INT))", "get(s, CAST(ceil(p) AS INT))"
    between = f"IF(p = floor(p), {low} * 1D, {low} * (ceil(p) - p) + {high} * (p - floor(p)))"
    place = f"(size(s) - 1) * CAST({share} AS DOUBLE)"
    return Accumulator(
        parts=(_NUMBERS,),
        evaluate=let("array_sort({v})", "s", let(place, "p", between)),
        state="every value",
        result=told("DOUBLE; an interval for intervals, rounded to its last digit"),
    )


_AT_SHARE = "get(s, CAST(greatest(ceil({y} * size(s)) - 1, 0) AS INT))"
PERCENTILE_APPROX = Accumulator(
    parts=(_VALUES,),
    evaluate=let("array_sort({v})", "s", _AT_SHARE),
    arity=(2, 3),
    constants=("0.5", "10000"),
    state="every value",
    # Of text it is a DOUBLE.
    result=told("the type of x"),
)


def kll(kind: str) -> Accumulator:
    """A KLL sketch with the requested accuracy: its rank error is 2.296 / k ** 0.9."""
    k = "CAST(least(65535, greatest(200, ceil(pow(2.296 * {z}, 1 / 0.9)))) AS INT)"
    return replace(
        PERCENTILE_APPROX,
        parts=(
            Part(
                name="v",
                update=f"kll_sketch_agg_{kind}({{x}}, {k}){{filter}}",
                merge=f"kll_merge_agg_{kind}({{p}}, {k})",
            ),
        ),
        evaluate=(
            f"IF(kll_sketch_get_n_{kind}({{v}}) > 0, "
            f"kll_sketch_get_quantile_{kind}({{v}}, CAST({{y}} AS DOUBLE)), NULL)"
        ),
        state="a KLL sketch: every value of a small group, at most about 200,000",
        # Spark's exact form treats NaN as the greatest number; a sketch cannot.
        nulls="skips NULL and NaN" if kind == "double" else PERCENTILE_APPROX.nulls,
        exact=False,
    )


SET = replace(
    one_part("collect_set({row}){filter}", f"array_distinct({_JOINED})"),
    state="every different value",
    result=told("ARRAY of the type of x, in no particular order"),
)
_AS_RESULT = "array_distinct(transform({v}, e -> try_cast(e AS {wide})))"
SET_SUM = let(
    _AS_RESULT,
    "l",
    "named_struct('n', size(l), 's', aggregate(slice(l, 2, size(l)), get(l, 0), "
    "(a, e) -> try_cast(try_add(a, e) AS {wide})))",
)

# --- Spark's own sketches. They get a hash of the value, so that every type works.

_LG_K = "CAST(least(21, greatest(12, ceil(2 * log2(1.04 / {y})))) AS INT)"
_HASH = "IF({x} IS NULL, NULL, xxhash64({x}))"
APPROX_COUNT_DISTINCT = replace(
    one_part(
        f"hll_sketch_agg({_HASH}, {_LG_K}){{filter}}",
        "hll_union_agg({p}, false)",
        "hll_sketch_estimate({v})",
    ),
    arity=(1, 2),
    constants=("0.05",),
    state="an HLL sketch: at most 4 KiB, more if y asks for less than 1.6 %",
    result=OF_BIGINT,
    over_rows=None,
    exact=False,
)


def sketch(update: str, merge: str, default: str) -> Accumulator:
    """A call whose result is the sketch itself; {y} is its size."""
    return replace(
        one_part(f"{update}({{x}}, {{y}}){{filter}}", merge),
        arity=(1, 2),
        constants=(default,),
        state="a sketch",
        result=told("BINARY, a sketch"),
        exact=False,
    )


TOP_K = replace(
    one_part(
        "approx_top_k_accumulate({x}, {z}){filter}",
        "approx_top_k_combine({p}, {z})",
        "approx_top_k_estimate({v}, {y})",
    ),
    arity=(1, 2, 3),
    constants=("5", "10000"),
    nulls="takes NULL like any value",
    state="a sketch of at most z values",
    result=told("ARRAY of STRUCT of item and count"),
    exact=False,
)
