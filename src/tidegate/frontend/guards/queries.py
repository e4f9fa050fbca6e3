"""Guards queries: an expression of a subquery, a CTE or a join yields NULL where it would raise.

An expression that fails while FROM is computed cannot be attributed to a row of the stream. So it
yields NULL, as with ``error_policy = "null"``.

The condition of a join stays as it is if the types of its columns are unknown: a net would turn a
hash join into a nested loop. An expression of a subquery also stays as it is if it may refer to a
column outside the subquery, by a name that is unknown inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidegate.frontend.grammar.nodes import place_of
from tidegate.frontend.grammar.source import subtree
from tidegate.frontend.guards.guarding import Columns, Guarding
from tidegate.frontend.guards.parts import Part
from tidegate.names import is_path, path
from tidegate.plan.types import SqlType


def guarded_query(guarding: Guarding, query: exp.Expr, *, correlated: bool = True) -> str:
    """Return the text of a query in which no expression raises.

    Args:
        guarding: the source, the rules, and the tables with known columns.
        query: the query, including nested ones.
        correlated: whether it is part of an expression, whose columns it may use.
    """
    rewriting = _Rewriting(outside=guarding.columns if correlated else None)
    rewriting.query(guarding, query)
    return guarding.source.rewrite(query, lambda node: rewriting.texts.get(id(node)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewriting:
    """The new texts of expressions, by the identity of their nodes.

    ``outside`` are the columns of the enclosing expression; None if there is none.
    """

    outside: Columns | None
    texts: dict[int, str] = field(default_factory=dict)

    def query(self, guarding: Guarding, query: exp.Expr) -> Columns:
        """Rewrite a query; return its output columns with their types, as far as they are known."""
        for cte in query.args["with_"].expressions if query.args.get("with_") else ():
            columns = self.query(guarding, cte.this)
            renamed = cte.args["alias"].args.get("columns")
            tables = {**guarding.tables, cte.alias.lower(): {} if renamed else columns}
            guarding = replace(guarding, tables=tables)
        if isinstance(query, exp.Subquery):
            return self.query(guarding, query.this)
        if isinstance(query, exp.SetOperation):
            left, right = (self.query(guarding, each) for each in (query.left, query.right))
            return left if left == right else {}
        return self._select(guarding, query) if isinstance(query, exp.Select) else {}

    def _select(self, guarding: Guarding, select: exp.Select) -> Columns:
        columns = self._columns(guarding, select)
        inside = replace(guarding, columns={**(self.outside or {}), **columns}, names={})
        given: dict[str, SqlType | None] = {}
        for item in select.expressions:
            if isinstance(item, exp.Star):
                given |= {name: kind for name, kind in columns.items() if not is_path(name)}
            elif isinstance(item, exp.Alias):
                given[path(item.alias)] = self._write(inside, item.this).type
            elif isinstance(item, exp.Column):
                given[path(item.name)] = inside.part(item).type
            # Any other item is named by its text, so it stays as it is.
        for node in _clauses(select):
            self._write(inside, node)
        for join in select.args.get("joins") or ():
            on = join.args.get("on")
            if on is not None and _is_known(on, inside.columns):
                self._write(inside, on)
        return given

    def _columns(self, guarding: Guarding, select: exp.Select) -> Columns:
        """Return the types of the columns of FROM, except names that two relations have."""
        sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
        known: dict[str, SqlType | None] = {}
        for relation in (each.this for each in sources if each is not None):
            match relation:
                case exp.Table():
                    columns = guarding.tables.get(relation.name.lower(), {})
                case exp.Subquery():
                    columns = self.query(guarding, relation)
                case _:
                    columns = {}
            alias = path(relation.alias_or_name)
            for name, kind in columns.items():
                known[f"{alias}.{name}"] = kind
                known[name] = None if name in known else kind
        return known

    def _write(self, inside: Guarding, node: exp.Expr) -> Part:
        part = inside.part(node)
        if self.outside is not None and not _is_known(node, inside.columns):
            return part
        if place_of(node) is not None and part.text != inside.source.slice(node):
            self.texts[id(node)] = part.text
        return part


def _clauses(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the expressions of the clauses of one SELECT, except its items and joins."""
    for name in ("where", "having", "qualify"):
        clause = select.args.get(name)
        if clause is not None:
            yield clause.this
    for name in ("group", "order", "sort"):
        clause = select.args.get(name)
        for each in clause.expressions if clause is not None else ():
            yield each.this if isinstance(each, exp.Ordered) else each


def _is_known(node: exp.Expr, columns: Columns) -> bool:
    """Whether the types of all columns of an expression are known."""
    return all(
        columns.get(path(*(part.name for part in each.parts))) is not None
        for each in subtree(node)
        if isinstance(each, exp.Column)
    )
