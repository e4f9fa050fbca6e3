"""Rewrites a user's expression to one that never raises and one that returns the error.

Spark 4 stops a query on ``1 / 0``, a bad cast, an overflow. ``guard`` rewrites an expression so
that such an operation yields NULL, and makes a second one that names the first failed operation:

    operation                    in ``safe``               condition in ``error``
    total / parts                try_divide(total, parts)  parts = 0 AND total IS NOT NULL
    CAST(raw AS INT)             try_cast(raw AS INT)      .. IS NULL AND raw IS NOT NULL
    list[i]                      get(list, i)              i < 0 OR i >= array_size(list)
    any other that can fail      in a net                  the net is NULL (``parts.net``)

A part of CASE, IF, coalesce, AND, OR that is not computed cannot fail. An expression whose types
rule out a failure stays as written; an operation on an unknown type can fail.

Not guarded, because SQL has no means for it:

* the user's own functions that raise;
* literals that are wrong for every row: date patterns, regular expressions, formats, names of
  charsets and time zones. They are a mistake in the statement, not in a row;
* lack of memory: ``repeat``, ``lpad``, ``array_repeat``, ``sequence`` with too large a size;
* times hundreds of thousands of years away in ``date_trunc`` and in casts of a DATE.

If something in a lambda can fail, the whole call is guarded and named. A failing operand is an
error even if the other operand is NULL, although Spark may not compute it then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.frontend.grammar.source import Source, in_brackets, read, read_expression
from tidegate.frontend.guards.guarding import Columns, Guarding
from tidegate.frontend.guards.operations import cast
from tidegate.frontend.guards.parts import Part, all_faults
from tidegate.frontend.guards.queries import guarded_query
from tidegate.frontend.guards.rules import RULES
from tidegate.frontend.guards.types import read_type
from tidegate.frontend.refusal import Refusal
from tidegate.names import path
from tidegate.plan.aggregates.planned import text_cast
from tidegate.plan.guarded import Guarded, error_literal
from tidegate.plan.types import BIGINT, BOOLEAN, DOUBLE, SqlType

Types: TypeAlias = Mapping[str, str | None]
Tables: TypeAlias = Mapping[str, Types]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTypes:
    """The types of the columns that expressions are over, read once for all of them.

    Attributes:
        columns: types by ``path``, with or without the name of a table, in lower case.
        tables: types of columns by table and ``path``, for subqueries.
    """

    columns: Columns
    tables: Mapping[str, Columns]


def known_types(columns: Types, tables: Tables | None = None) -> KnownTypes:
    """Read types.

    Args:
        columns: types (DDL or Spark's names) by ``path``, with or without the name of a table; a
            column that is missing or None has an unknown type.
        tables: types of columns by table and name, for subqueries.
    """
    return KnownTypes(
        columns=_types(columns),
        tables={
            name.lower(): _types({path(column): kind for column, kind in each.items()})
            for name, each in (tables or {}).items()
        },
    )


def guard(text: str, types: KnownTypes) -> Guarded:
    """Return an expression that never raises, with the error of a row on which it would have.

    A subquery that fails yields NULL.

    Args:
        text: one Spark SQL expression.
        types: the types of its columns.

    >>> guard("total / parts", known_types({"total": "BIGINT", "parts": "BIGINT"})).safe
    'try_divide(total, parts)'

    Raises:
        Refusal: the text is not one expression.
    """
    part = _part(text, types)
    return Guarded(safe=text) if _is_plain(part) else _guarded(part)


def guard_argument(text: str, types: KnownTypes, functions: Iterable[str]) -> Guarded:
    """Return ``guard`` of an argument of aggregates, which may cast text themselves.

    Numeric aggregates cast text to DOUBLE, boolean ones to BOOLEAN; text that cannot be cast is an
    error and becomes NULL.

    Args:
        text: the argument.
        types: the types of its columns.
        functions: the aggregates that take the argument.
    """
    part = _part(text, types)
    taken = {text_cast(each) for each in functions}
    wanted = [kind for kind in (DOUBLE, BOOLEAN, BIGINT) if kind in taken]
    if part.type is None or not part.type.is_text or not wanted:
        return Guarded(safe=text) if _is_plain(part) else _guarded(part)
    made = [cast(part, kind, kind.name, part.written) for kind in wanted]
    known = " AND ".join(f"{each.text} IS NOT NULL" for each in made)
    kept = f"CASE WHEN {known} THEN {part.text} END"
    return _guarded(replace(part, text=kept, faults=part.faults + all_faults(made)))


def guard_from(ctes: str, relation: str, types: KnownTypes) -> tuple[str, str]:
    """Return the WITH clause and the FROM clause of a statement, rewritten so that nothing raises.

    A failing expression in a CTE, a subquery or the condition of a join yields NULL.

    Args:
        ctes: the WITH clause, '' if there is none.
        relation: the FROM clause with its joins, without the word FROM.
        types: the types of the columns of its tables.
    """
    middle = "SELECT 'from' AS tidegate_from FROM "
    source = read(f"{ctes} {middle}{relation}")
    guarding = _guarding(source, KnownTypes(columns={}, tables=types.tables))
    before, after = guarded_query(guarding, source.tree, correlated=False).split(middle)
    return before.strip(), after


def type_of_expression(text: str, types: KnownTypes) -> str | None:
    """Return the type of an expression as DDL, None if unknown; arguments as for ``guard``.

    >>> type_of_expression("total + 1", known_types({"total": "INT"}))
    'INT'
    """
    kind = _part(text, types).type
    return None if kind is None else kind.ddl


def _part(text: str, types: KnownTypes) -> Part:
    try:
        source = read_expression(text)
    except Refusal as refusal:
        # ``bind`` has read it as a part of its statement; alone it may not be an expression.
        raise refusal.error(text, "an expression of the query") from None
    return _guarding(source, types).part(source.tree)


def _guarding(source: Source, types: KnownTypes) -> Guarding:
    return Guarding(
        source=source,
        columns=types.columns,
        rules=RULES,
        query=guarded_query,
        tables=types.tables,
    )


def _types(columns: Types) -> dict[str, SqlType | None]:
    return {name.lower(): read_type(kind) for name, kind in columns.items()}


def _is_plain(part: Part) -> bool:
    return not part.faults and part.text == part.written


def _guarded(part: Part) -> Guarded:
    """Return a part with the SQL that names its first fault.

    Rows without faults must cost next to nothing. If every fault makes the value NULL, only rows
    whose value is NULL are suspect, and Spark has computed the value anyway.
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
