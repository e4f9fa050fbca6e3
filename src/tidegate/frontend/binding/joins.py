"""The names by which FROM knows the tables that it joins to the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from tidegate.frontend.reading.parse import table_name


def joined_tables(select: exp.Select, stream: str) -> tuple[str, ...]:
    """Return the names (aliases, where given) of what FROM joins and has no row of the stream in.

    Args:
        select: the statement.
        stream: the name of the stream.
    """
    with_ = select.args.get("with_")
    ctes: dict[str, frozenset[str]] = {}
    for cte in with_.expressions if with_ is not None else []:
        ctes[cte.alias.lower()] = _read(cte.this, ctes)
    first = select.args["from_"].this
    joins = [*(first.args.get("joins") or []), *(select.args.get("joins") or [])]
    if not joins:
        return ()
    # A first table has its joins below it, so it is looked up by its name alone.
    reads = {first.alias_or_name: _read_by(first, ctes)}
    reads |= {join.this.alias_or_name: _read_by(join.this, ctes) for join in joins}
    return tuple(name for name, read in reads.items() if read and stream.lower() not in read)


def _read_by(relation: exp.Expr, ctes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    if isinstance(relation, exp.Table):
        return _meant([relation], ctes)
    return _read(relation, ctes)


def _read(query: exp.Expr, ctes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return _meant(query.find_all(exp.Table), ctes)


def _meant(tables: Iterable[exp.Table], ctes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    names = (table_name(table).lower() for table in tables)
    return frozenset().union(*(ctes.get(name, {name}) for name in names))
