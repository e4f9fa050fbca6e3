"""Moments as Spark SQL: the state for variances, skewness, kurtosis, and for pairs.

The state has the count, the mean and the sums of powers of the deviations from it. States are
merged pairwise (Chan, Golub and LeVeque 1979; Pebay 2008), which avoids cancellation. Placeholders
are described in ``table``.
"""

from __future__ import annotations

_X = "CAST({x} AS DOUBLE)"


def _mean(value: str) -> str:
    """The mean, exact if all values are equal, so that a constant always has variance 0."""
    least, greatest = f"min({value}){{filter}}", f"max({value}){{filter}}"
    return f"IF({least} = {greatest}, {least}, avg({value}){{filter}})"


def _count(value: str) -> str:
    return f"CAST(count({value}){{filter}} AS DOUBLE)"


def _struct(fields: dict[str, str]) -> str:
    return "named_struct(" + ", ".join(f"'{name}', {text}" for name, text in fields.items()) + ")"


def _pairwise(fields: dict[str, str]) -> str:
    """The pairwise merge of structs, given each field as an expression of structs a and b."""
    zero = _struct(dict.fromkeys(fields, "0D"))
    merged = f"CASE WHEN b.n = 0D THEN a WHEN a.n = 0D THEN b ELSE {_struct(fields)} END"
    return f"aggregate(collect_list({{p}}), {zero}, (a, b) -> {merged})"


_N = "(a.n + b.n)"


def _apart(field: str) -> str:
    """The difference of the means of b and a."""
    return f"(b.{field} - a.{field})"


def _joint(field: str) -> str:
    return f"a.{field} + {_apart(field)} * b.n / {_N}"


def _product(sum_: str, one: str, other: str) -> str:
    return f"a.{sum_} + b.{sum_} + {_apart(one)} * {_apart(other)} * a.n * b.n / {_N}"


_D = _apart("mean")
_TWO = {"n": _N, "mean": _joint("mean"), "m2": _product("m2", "mean", "mean")}

# count, mean, m2
SPREAD_UPDATE = _struct(
    {
        "n": _count("{x}"),
        "mean": _mean(_X),
        "m2": f"var_pop({_X}){{filter}} * count({{x}}){{filter}}",
    }
)
SPREAD_MERGE = _pairwise(_TWO)
SPREADS: dict[str, str] = {
    "var_samp": "CASE WHEN {m}.n > 1 THEN {m}.m2 / ({m}.n - 1) END",
    "var_pop": "CASE WHEN {m}.n > 0 THEN {m}.m2 / {m}.n END",
    "stddev_samp": "CASE WHEN {m}.n > 1 THEN sqrt({m}.m2 / ({m}.n - 1)) END",
    "stddev_pop": "CASE WHEN {m}.n > 0 THEN sqrt({m}.m2 / {m}.n) END",
}

# Spark has m3 and m4 only as skewness and kurtosis, which are NULL if m2 is 0.
_VAR, _SKEW, _KURT = (f"{name}({_X}){{filter}}" for name in ("var_pop", "skewness", "kurtosis"))
SHAPE_UPDATE = _struct(
    {
        "n": _count("{x}"),
        "mean": _mean(_X),
        "m2": f"{_VAR} * count({{x}}){{filter}}",
        "m3": f"coalesce({_SKEW} * pow({_VAR}, 1.5D), 0D) * count({{x}}){{filter}}",
        "m4": f"coalesce(({_KURT} + 3D) * {_VAR} * {_VAR}, 0D) * count({{x}}){{filter}}",
    }
)
SHAPE_MERGE = _pairwise(
    {
        **_TWO,
        "m3": (
            f"a.m3 + b.m3 + pow({_D}, 3) * a.n * b.n * (a.n - b.n) / pow({_N}, 2) "
            f"+ 3D * {_D} * (a.n * b.m2 - b.n * a.m2) / {_N}"
        ),
        "m4": (
            f"a.m4 + b.m4 + pow({_D}, 4) * a.n * b.n * (a.n * a.n - a.n * b.n + b.n * b.n) "
            f"/ pow({_N}, 3) + 6D * {_D} * {_D} * (a.n * a.n * b.m2 + b.n * b.n * a.m2) "
            f"/ pow({_N}, 2) + 4D * {_D} * (a.n * b.m3 - b.n * a.m3) / {_N}"
        ),
    }
)
SHAPES: dict[str, str] = {
    "skewness": (
        "CASE WHEN {m}.m2 > 0D THEN try_divide(sqrt({m}.n) * {m}.m3, pow({m}.m2, 1.5D)) END"
    ),
    "kurtosis": "CASE WHEN {m}.m2 > 0D THEN try_divide({m}.n * {m}.m4, {m}.m2 * {m}.m2) - 3D END",
}

# Only rows where both are known count. As in SQL the first argument is the dependent one: it is the
# y of regr_*, but {x} here.
_OF_X = "IF({x} IS NULL, NULL, CAST({y} AS DOUBLE))"
_OF_Y = "IF({y} IS NULL, NULL, CAST({x} AS DOUBLE))"
_PAIRS = f"count({_OF_X}){{filter}}"
PAIRS_UPDATE = _struct(
    {
        "n": _count(_OF_X),
        "mx": _mean(_OF_X),
        "my": _mean(_OF_Y),
        "xx": f"var_pop({_OF_X}){{filter}} * {_PAIRS}",
        "yy": f"var_pop({_OF_Y}){{filter}} * {_PAIRS}",
        "xy": f"covar_pop({_OF_X}, {_OF_Y}){{filter}} * {_PAIRS}",
    }
)
PAIRS_MERGE = _pairwise(
    {
        "n": _N,
        "mx": _joint("mx"),
        "my": _joint("my"),
        "xx": _product("xx", "mx", "mx"),
        "yy": _product("yy", "my", "my"),
        "xy": _product("xy", "mx", "my"),
    }
)
_SLOPE = "{c}.xy / {c}.xx"
OF_PAIRS: dict[str, str] = {
    "covar_pop": "CASE WHEN {c}.n > 0 THEN {c}.xy / {c}.n END",
    "covar_samp": "CASE WHEN {c}.n > 1 THEN {c}.xy / ({c}.n - 1) END",
    # Products of small numbers may underflow to 0, hence try_divide.
    "corr": (
        "CASE WHEN {c}.xx != 0D AND {c}.yy != 0D THEN try_divide({c}.xy, sqrt({c}.xx * {c}.yy)) END"
    ),
    "regr_count": "CAST({c}.n AS BIGINT)",
    "regr_avgx": "CASE WHEN {c}.n > 0 THEN {c}.mx END",
    "regr_avgy": "CASE WHEN {c}.n > 0 THEN {c}.my END",
    "regr_sxx": "CASE WHEN {c}.n > 0 THEN {c}.xx END",
    "regr_syy": "CASE WHEN {c}.n > 0 THEN {c}.yy END",
    "regr_sxy": "CASE WHEN {c}.n > 0 THEN {c}.xy END",
    "regr_slope": f"CASE WHEN {{c}}.xx != 0D THEN {_SLOPE} END",
    "regr_intercept": f"CASE WHEN {{c}}.xx != 0D THEN {{c}}.my - {_SLOPE} * {{c}}.mx END",
    "regr_r2": (
        "CASE WHEN {c}.xx != 0D "
        "THEN IF({c}.yy = 0D, 1D, try_divide({c}.xy * {c}.xy, {c}.xx * {c}.yy)) END"
    ),
}
