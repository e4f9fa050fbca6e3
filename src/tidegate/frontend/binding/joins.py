"""The names by which FROM knows the stream and the tables that it joins to it."""

from __future__ import annotations

from sqlglot import exp

from tidegate.frontend.reading.parse import cte_of, table_name
from tidegate.names import quoted


def joined_tables(select: exp.Select, stream: str) -> tuple[str, ...]:
    """Return the names (or aliases) of what FROM joins that contains no rows of the stream.

    Args:
        select: the statement.
        stream: the name of the stream.
    """
    relations = _relations(select)
    if len(relations) == 1:
        return ()
    reads = [(each.alias_or_name, _read_by(each)) for each in relations]
    return tuple(name for name, read in reads if read and stream.lower() not in read)


def original_row(select: exp.Select, stream: str) -> str:
    """Return the SQL for all columns of the stream's row, e.g. ``s.*``.

    After a WITH clause or a subquery these are the columns that it provides.
    """
    for relation in _relations(select):
        name = relation.alias_or_name
        if name and stream.lower() in _read_by(relation):
            return f"{quoted(name)}.*"
    return "*"


def _relations(select: exp.Select) -> list[exp.Expr]:
    first = select.args["from_"].this
    joins = [*(first.args.get("joins") or []), *(select.args.get("joins") or [])]
    return [first, *(join.this for join in joins)]


def _read_by(relation: exp.Expr) -> frozenset[str]:
    """The names of what a relation of FROM reads, including what is joined inside it."""
    if isinstance(relation, exp.Table):
        return _meant(relation)
    return frozenset().union(*(_meant(table) for table in relation.find_all(exp.Table)))


def _meant(table: exp.Table) -> frozenset[str]:
    cte = cte_of(table)
    return frozenset({table_name(table).lower()}) if cte is None else _read_by(cte.this)
