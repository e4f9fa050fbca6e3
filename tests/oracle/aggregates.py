"""Aggregates over the list of a group's values, NULLs included, in (time, arrival) order.

Each entry takes the values of its arguments, a list for each argument (constants too), and the
type of the first one; ``AGGREGATES`` also has the type of the result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

from .values import EXACT, RowError, cast, decimal_type, family, fit, order_key, precision

Values = list


@dataclass(frozen=True)
class Aggregate:
    compute: Callable[[list[Values], str], object]
    type: Callable[[list[str]], str]
    skips_null: bool = True


def same(kinds: list[str]) -> str:
    return kinds[0]


def always(kind: str) -> Callable[[list[str]], str]:
    return lambda kinds: kind


def array(kinds: list[str]) -> str:
    return f"ARRAY<{kinds[0]}>"


def sum_type(kinds: list[str]) -> str:
    name = family(kinds[0])
    if name == "DECIMAL":
        digits, scale = precision(kinds[0])
        return decimal_type(min(38, digits + 10), scale)
    return "BIGINT" if name in ("TINYINT", "SMALLINT", "INT", "BIGINT") else "DOUBLE"


def avg_type(kinds: list[str]) -> str:
    if family(kinds[0]) == "DECIMAL":
        digits, scale = precision(kinds[0])
        return decimal_type(min(38, digits + 4), min(38, scale + 4))
    return "DOUBLE"


def total(args: list[Values], kind: str) -> object:
    xs = [cast(x, kind, "DOUBLE") for x in args[0]] if kind == "STRING" else args[0]
    if not xs:
        return None
    result = sum_type([kind])
    if result == "DOUBLE":
        return math.fsum(xs) if all(map(math.isfinite, xs)) else sum(xs)
    try:
        return fit(reduce(EXACT.add, map(Decimal, xs)), result)
    except RowError:
        # A sum that does not fit its type is NULL.
        return None


def average(args: list[Values], kind: str) -> object:
    xs = [cast(x, kind, "DOUBLE") for x in args[0]] if kind == "STRING" else args[0]
    if not xs:
        return None
    if family(kind) == "DECIMAL":
        return fit(EXACT.divide(sum(xs, Decimal(0)), Decimal(len(xs))), avg_type([kind]))
    return math.fsum(xs) / len(xs)


def moment_sum(xs: Values, power: int) -> float:
    mean = math.fsum(xs) / len(xs)
    return math.fsum((float(x) - mean) ** power for x in xs)


def variance(divisor: int) -> Callable[[list[Values], str], object]:
    def compute(args: list[Values], kind: str) -> object:
        xs = [float(x) for x in args[0]]
        return moment_sum(xs, 2) / (len(xs) - divisor) if len(xs) > divisor else None

    return compute


def deviation(divisor: int) -> Callable[[list[Values], str], object]:
    def compute(args: list[Values], kind: str) -> object:
        value = variance(divisor)(args, kind)
        return None if value is None else math.sqrt(value)

    return compute


def skewness(args: list[Values], kind: str) -> object:
    xs = [float(x) for x in args[0]]
    if not xs or moment_sum(xs, 2) == 0:
        return None
    return math.sqrt(len(xs)) * moment_sum(xs, 3) / moment_sum(xs, 2) ** 1.5


def kurtosis(args: list[Values], kind: str) -> object:
    xs = [float(x) for x in args[0]]
    if not xs or moment_sum(xs, 2) == 0:
        return None
    return len(xs) * moment_sum(xs, 4) / moment_sum(xs, 2) ** 2 - 3


def products(xs: Values, ys: Values) -> float:
    """The sum of (x - mean x) * (y - mean y)."""
    mx, my = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    return math.fsum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))


def covariance(divisor: int) -> Callable[[list[Values], str], object]:
    def compute(args: list[Values], kind: str) -> object:
        xs, ys = ([float(v) for v in arg] for arg in args)
        return products(xs, ys) / (len(xs) - divisor) if len(xs) > divisor else None

    return compute


def correlation(args: list[Values], kind: str) -> object:
    xs, ys = ([float(v) for v in arg] for arg in args)
    spread = math.sqrt(products(xs, xs) * products(ys, ys)) if xs else 0.0
    return products(xs, ys) / spread if spread else None


def unique(xs: Values) -> Values:
    seen: Values = []
    for x in xs:
        if x not in seen:
            seen.append(x)
    return seen


def edge(place: int) -> Callable[[list[Values], str], object]:
    """The first or last value; a second argument ``true`` skips NULLs."""

    def compute(args: list[Values], kind: str) -> object:
        xs = args[0]
        if len(args) > 1 and args[1] and args[1][0]:
            xs = [x for x in xs if x is not None]
        return xs[place] if xs else None

    return compute


def by_key(choose: Callable) -> Callable[[list[Values], str], object]:
    """The value that goes with the least or greatest key; rows without a key do not count."""

    def compute(args: list[Values], kind: str) -> object:
        pairs = [(x, y) for x, y in zip(*args, strict=True) if y is not None]
        return choose(pairs, key=lambda pair: order_key(pair[1]))[0] if pairs else None

    return compute


def percentile_exact(xs: Values, share: float) -> float | None:
    if not xs:
        return None
    ordered = sorted(float(x) for x in xs)
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentile_of_rows(xs: Values, share: float) -> object:
    """The least value of the rows that at least this share of the rows does not exceed."""
    ordered = sorted(xs)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def with_share(single: Callable) -> Callable[[list[Values], str], object]:
    def compute(args: list[Values], kind: str) -> object:
        share = args[1][0] if args[1] else 0.5
        if isinstance(share, list):
            return [single(args[0], float(s)) for s in share] if args[0] else None
        return single(args[0], float(share))

    return compute


def most_frequent(args: list[Values], kind: str) -> object:
    return Counter(args[0]).most_common(1)[0][0] if args[0] else None


def top_k(args: list[Values], kind: str) -> object:
    k = args[1][0] if len(args) > 1 and args[1] else 5
    return [{"item": item, "count": n} for item, n in Counter(args[0]).most_common(k)]


def bits(operation: Callable[[int, int], int]) -> Callable[[list[Values], str], object]:
    return lambda args, kind: reduce(operation, args[0]) if args[0] else None


VAR_SAMP = Aggregate(variance(1), always("DOUBLE"))
STDDEV_SAMP = Aggregate(deviation(1), always("DOUBLE"))
BOOL_AND = Aggregate(lambda a, k: all(a[0]) if a[0] else None, always("BOOLEAN"))
BOOL_OR = Aggregate(lambda a, k: any(a[0]) if a[0] else None, always("BOOLEAN"))
FIRST = Aggregate(edge(0), same, skips_null=False)
LAST = Aggregate(edge(-1), same, skips_null=False)
AVG = Aggregate(average, avg_type)
DIFFERENT = Aggregate(lambda a, k: len(unique(a[0])), always("BIGINT"))
COLLECT_SET = Aggregate(lambda a, k: unique(a[0]), array)
COLLECT_LIST = Aggregate(lambda a, k: a[0], array)

AGGREGATES: dict[str, Aggregate] = {
    # count(a, b) counts the rows in which no argument is NULL; count(*) has none.
    "count": Aggregate(lambda a, k: len(a[0]), always("BIGINT")),
    "count_if": Aggregate(lambda a, k: sum(map(bool, a[0])), always("BIGINT")),
    "sum": Aggregate(total, sum_type),
    "avg": AVG,
    "mean": AVG,
    "min": Aggregate(lambda a, k: min(a[0], default=None, key=order_key), same),
    "max": Aggregate(lambda a, k: max(a[0], default=None, key=order_key), same),
    "first": FIRST,
    "first_value": FIRST,
    "any_value": FIRST,
    "last": LAST,
    "last_value": LAST,
    "last_row": LAST,
    "min_by": Aggregate(by_key(min), same, skips_null=False),
    "max_by": Aggregate(by_key(max), same, skips_null=False),
    "bool_and": BOOL_AND,
    "every": BOOL_AND,
    "bool_or": BOOL_OR,
    "some": BOOL_OR,
    "any": BOOL_OR,
    "bit_and": Aggregate(bits(lambda x, y: x & y), same),
    "bit_or": Aggregate(bits(lambda x, y: x | y), same),
    "bit_xor": Aggregate(bits(lambda x, y: x ^ y), same),
    "var_samp": VAR_SAMP,
    "variance": VAR_SAMP,
    "vars": VAR_SAMP,
    "var_pop": Aggregate(variance(0), always("DOUBLE")),
    "stddev_samp": STDDEV_SAMP,
    "stddev": STDDEV_SAMP,
    "std": STDDEV_SAMP,
    "stddevs": STDDEV_SAMP,
    "stddev_pop": Aggregate(deviation(0), always("DOUBLE")),
    "skewness": Aggregate(skewness, always("DOUBLE")),
    "kurtosis": Aggregate(kurtosis, always("DOUBLE")),
    "covar_pop": Aggregate(covariance(0), always("DOUBLE")),
    "covar_samp": Aggregate(covariance(1), always("DOUBLE")),
    "corr": Aggregate(correlation, always("DOUBLE")),
    "collect_list": COLLECT_LIST,
    "array_agg": COLLECT_LIST,
    "collect_set": COLLECT_SET,
    "deduplicate": COLLECT_SET,
    "approx_count_distinct": DIFFERENT,
    "ndv": DIFFERENT,
    "theta_sketch_agg": Aggregate(lambda a, k: unique(a[0]), array),
    "median": Aggregate(lambda a, k: percentile_exact(a[0], 0.5), always("DOUBLE")),
    "percentile": Aggregate(with_share(percentile_exact), always("DOUBLE")),
    "percentile_approx": Aggregate(with_share(percentile_of_rows), same),
    "approx_percentile": Aggregate(with_share(percentile_of_rows), same),
    "mode": Aggregate(most_frequent, same),
    "approx_top_k": Aggregate(top_k, always("ARRAY<STRUCT>")),
}


def aggregate(name: str, rows: list[tuple], kinds: list[str], *, distinct: bool) -> object:
    """The result of an aggregate over the argument values of each row, in order."""
    entry = AGGREGATES[name]
    if entry.skips_null:
        rows = [row for row in rows if not any(value is None for value in row)]
    if distinct:
        rows = unique(rows)
    width = max(1, len(kinds))
    columns = [[row[i] for row in rows] if kinds else rows for i in range(width)]
    return entry.compute(columns, kinds[0] if kinds else "NULL")
