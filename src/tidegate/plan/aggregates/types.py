"""The types of aggregates, as far as they are known before Spark is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.plan.aggregates.planned import type_family
from tidegate.plan.statement import Aggregate

_INTEGRALS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)", re.IGNORECASE)
_MOST_DIGITS = 38

# Aggregates that are of one type whatever they are given.
_FIXED = {
    "BIGINT": "count count_if approx_count_distinct regr_count",
    "BOOLEAN": "bool_and bool_or every some any",
    "DOUBLE": (
        "stddev stddev_samp stddev_pop std variance var_samp var_pop skewness kurtosis corr "
        "covar_samp covar_pop regr_slope regr_intercept regr_r2 regr_sxx regr_syy regr_sxy "
        "regr_avgx regr_avgy"
    ),
}
_BY_NAME = {name: kind for kind, names in _FIXED.items() for name in names.split()}

# Aggregates of the type of their first argument.
_OF_ARGUMENT = "min max first last any_value min_by max_by mode bit_and bit_or bit_xor".split()


def aggregate_type(aggregate: Aggregate, types: Mapping[str, str | None]) -> str | None:
    """Return the type of an aggregate as DDL; None when it is not known.

    Args:
        aggregate: the aggregate.
        types: those of the values that it is given, by their names.
    """
    function = aggregate.function
    given = types.get(aggregate.args[0]) if aggregate.args else None
    if function in _BY_NAME:
        return _BY_NAME[function]
    if given is None:
        return None
    if function in _OF_ARGUMENT:
        return given
    if function in ("sum", "avg"):
        return _of_numbers(function, given)
    return None


def _of_numbers(function: str, given: str) -> str | None:
    family = type_family(given)
    decimal = _DECIMAL.fullmatch(given)
    if decimal is not None:
        digits, scale = int(decimal[1]), int(decimal[2])
        more, further = (10, 0) if function == "sum" else (4, 4)
        if digits + more > _MOST_DIGITS and further:
            return None
        return f"DECIMAL({min(_MOST_DIGITS, digits + more)},{scale + further})"
    if family in _INTEGRALS:
        return "BIGINT" if function == "sum" else "DOUBLE"
    return "DOUBLE" if family in ("FLOAT", "DOUBLE", "STRING") else None
