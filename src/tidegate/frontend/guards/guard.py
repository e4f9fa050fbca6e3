"""Row errors: from an expression of the user's to one that never raises, and one that says why.

Spark 4 stops a query on ``1 / 0``, a bad cast, an overflow. ``guard`` writes an expression anew so
that such an operation gives NULL, and beside it an expression that names the first that failed:

    operation                    in ``safe``               condition in ``error``
    total / parts                try_divide(total, parts)  parts = 0 AND total IS NOT NULL
    CAST(raw AS INT)             try_cast(raw AS INT)      .. IS NULL AND raw IS NOT NULL
    list[i]                      get(list, i)              i < 0 OR i >= array_size(list)
    any other that can fail      under a net               the net is NULL (``operations.net``)

A part of CASE, IF, coalesce, AND, OR that is not computed is no error. What cannot fail by its
types stays as it was written, so types matter: of what is not known anything is expected.

Not guarded, because nothing in SQL can be:

* functions of the user's own that raise;
* literals that are wrong for every row: patterns of dates and regular expressions, formats, names
  of charsets and time zones. They are a mistake in the statement, not in a row;
* lack of memory: ``repeat``, ``lpad``, ``array_repeat``, ``sequence`` of a size that does not fit;
* times hundreds of thousands of years away in ``date_trunc`` and in casts of a DATE.

A call with a lambda in which something can fail is guarded, and named, as a whole. An operand that
fails is an error also where the other is NULL, for which Spark may not even compute it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tidegate.frontend.grammar.source import Source, in_brackets, read, read_expression
from tidegate.frontend.guards.guarding import Guarding
from tidegate.frontend.guards.operations import cast
from tidegate.frontend.guards.parts import Part, all_faults
from tidegate.frontend.guards.queries import guarded_query
from tidegate.frontend.guards.rules import RULES
from tidegate.frontend.guards.types import BIGINT, BOOLEAN, DOUBLE, SqlType, read_type
from tidegate.names import path
from tidegate.plan.guarded import Guarded, error_literal

# Aggregates that cast text, after aliases are resolved, by the type that they cast it to.
OF_NUMBERS = frozenset(
    "sum avg var_samp var_pop stddev_samp stddev_pop skewness kurtosis covar_samp covar_pop corr "
    "regr_count regr_avgx regr_avgy regr_sxx regr_syy regr_sxy regr_slope regr_intercept regr_r2 "
    "median percentile percentile_approx histogram_numeric product".split()
)
OF_CONDITIONS = frozenset(("bool_and", "bool_or", "count_if"))
OF_WHOLE_NUMBERS = frozenset(("bitmap_construct_agg",))
_CASTS = ((OF_NUMBERS, DOUBLE), (OF_CONDITIONS, BOOLEAN), (OF_WHOLE_NUMBERS, BIGINT))


Tables: TypeAlias = Mapping[str, Mapping[str, str | None]]


def guard(text: str, columns: Mapping[str, str | None], tables: Tables | None = None) -> Guarded:
    """Return an expression that never raises, and what it says of a row on which it would have.

    Args:
        text: one Spark SQL expression over ``columns``.
        columns: types (DDL, or as Spark calls them) by ``path``, with or without the name of a
            table; a column that is not there, or is None, has a type that is not known.
        tables: types of columns by table and name, for subqueries; what fails in one is NULL.

    >>> guard("total / parts", {"total": "BIGINT", "parts": "BIGINT"}).safe
    'try_divide(total, parts)'

    Raises:
        Refusal: the text is not one expression.
    """
    part = _part(text, columns, tables)
    return Guarded(safe=text) if _is_plain(part) else _guarded(part)


def guard_argument(
    text: str,
    columns: Mapping[str, str | None],
    functions: Iterable[str],
    tables: Tables | None = None,
) -> Guarded:
    """Return ``guard`` of an argument of aggregates, which may cast it themselves.

    An aggregate of numbers casts text to DOUBLE, one of conditions to BOOLEAN; text that is none is
    an error, and NULL.

    Args:
        text: the argument.
        columns: as for ``guard``.
        functions: the aggregates that are given the argument.
        tables: as for ``guard``.
    """
    part = _part(text, columns, tables)
    taking = set(functions)
    wanted = [kind for names, kind in _CASTS if not names.isdisjoint(taking)]
    if part.type is None or not part.type.is_text or not wanted:
        return guard(text, columns, tables)
    made = [cast(part, kind, kind.name, part.written) for kind in wanted]
    known = " AND ".join(f"{each.text} IS NOT NULL" for each in made)
    kept = f"CASE WHEN {known} THEN {part.text} END"
    return _guarded(replace(part, text=kept, faults=part.faults + all_faults(made)))


def guard_from(ctes: str, relation: str, tables: Tables) -> tuple[str, str]:
    """Return the WITH clause and the FROM clause of a statement so that nothing in them raises.

    What fails in a CTE, a subquery or the condition of a join is NULL.

    Args:
        ctes: the WITH clause, '' when there is none.
        relation: the FROM clause with its joins, without the word.
        tables: types (DDL) of columns by table and name.
    """
    middle = "SELECT 'from' AS tidegate_from FROM "
    source = read(f"{ctes} {middle}{relation}")
    guarding = _guarding(source, {}, tables)
    before, after = guarded_query(guarding, source.tree, correlated=False).split(middle)
    return before.strip(), after


def type_of_expression(text: str, columns: Mapping[str, str | None]) -> str | None:
    """Return the type of an expression as DDL, None when it is not known; arguments as ``guard``.

    >>> type_of_expression("total + 1", {"total": "INT"})
    'INT'
    """
    kind = _part(text, columns).type
    return None if kind is None else kind.ddl


def _part(text: str, columns: Mapping[str, str | None], tables: Tables | None = None) -> Part:
    source = read_expression(text)
    return _guarding(source, columns, tables or {}).part(source.tree)


def _guarding(source: Source, columns: Mapping[str, str | None], tables: Tables) -> Guarding:
    return Guarding(
        source=source,
        columns=_types(columns),
        rules=RULES,
        query=guarded_query,
        tables={
            name.lower(): _types({path(column): kind for column, kind in each.items()})
            for name, each in tables.items()
        },
    )


def _types(columns: Mapping[str, str | None]) -> dict[str, SqlType | None]:
    return {name.lower(): read_type(kind) for name, kind in columns.items()}


def _is_plain(part: Part) -> bool:
    return not part.faults and part.text == part.written


def _guarded(part: Part) -> Guarded:
    """Return a part with the text that names the first fault there is.

    Rows on which nothing fails must cost next to nothing. Where a fault makes the value NULL, only
    rows whose value is NULL are suspect: Spark has the value already.
    """
    faults = tuple(dict.fromkeys(part.faults))
    if not faults:
        return Guarded(safe=part.text)
    cases = (
        f"WHEN {fault.when} THEN {error_literal(fault.reason, fault.detail)}" for fault in faults
    )
    return Guarded(
        safe=part.text,
        suspect=" OR ".join(in_brackets(fault.when) for fault in faults)
        if part.hides
        else f"{part.operand} IS NULL",
        error=f"CASE {' '.join(cases)} END",
    )
