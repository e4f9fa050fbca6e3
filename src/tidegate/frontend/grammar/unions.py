"""``FROM a UNION ALL b``: names of streams that are read as one.

The grammar reads it as the subquery that it stands for, ``(SELECT * FROM a UNION ALL SELECT * FROM
b)``, so that the short and the long form are one thing from then on.
"""

from __future__ import annotations

from typing import Any

from sqlglot import TokenType, exp

from tidegate.errors import Span
from tidegate.frontend.grammar.marks import MarkingParser
from tidegate.frontend.grammar.nodes import mark, span_of

_BARE = "bare"

_KINDS: dict[TokenType, type[exp.SetOperation]] = {
    TokenType.UNION: exp.Union,
    TokenType.EXCEPT: exp.Except,
    TokenType.INTERSECT: exp.Intersect,
}


class UnionParser(MarkingParser):
    """Spark's grammar with set operations between the names of tables."""

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:  # noqa: ANN401
        table = super()._parse_table(*args, **kwargs)
        if not (isinstance(table, exp.Table) and self._at_name_of_union()):
            return table
        if table.args.get("alias"):
            self.raise_error("an alias of the whole union goes after it")
        return self._parse_names_of_union(table)

    def _at_name_of_union(self) -> bool:
        """Whether a set operation is next, and a name after it."""
        if self._curr.token_type not in _KINDS:
            return False
        ahead = 1
        while self._ahead(ahead) in ("ALL", "DISTINCT", "BY", "NAME"):
            ahead += 1
        index = self._index + ahead
        if index >= len(self._tokens):
            return False
        return self._tokens[index].token_type in (TokenType.VAR, TokenType.IDENTIFIER)

    def _ahead(self, ahead: int) -> str:
        index = self._index + ahead
        return self._tokens[index].text.upper() if index < len(self._tokens) else ""

    def _parse_names_of_union(self, first: exp.Table) -> exp.Subquery:
        start = span_of(first).start
        union: exp.Query = _rows_of(first)
        while self._at_name_of_union():
            kind = _KINDS[self._curr.token_type]
            self._advance()
            is_all = self._match(TokenType.ALL)
            if not is_all:
                self._match(TokenType.DISTINCT)
            by_name = self._match_text_seq("BY", "NAME") or None
            name = self._curr
            table = self._parse_table_parts()
            assert isinstance(table, exp.Table), "a name is next"
            mark(table, name.start, self._prev.end + 1)
            union = kind(
                this=union, expression=_rows_of(table), distinct=not is_all, by_name=by_name
            )
            mark(union, start, self._prev.end + 1)
        union.meta[_BARE] = True
        subquery = exp.Subquery(
            this=union, alias=self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        )
        mark(subquery, start, self._prev.end + 1)
        return subquery


def _rows_of(table: exp.Table) -> exp.Select:
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
    span = span_of(table)
    mark(select, span.start, span.end)
    return select


def is_bare_union(node: exp.Expr) -> bool:
    """Whether a set operation stands between names."""
    return _BARE in node.meta


def members_of(node: exp.Expr) -> tuple[exp.Table, ...]:
    """Return the tables that a query or an item of FROM unites and does nothing else to.

    Empty if it does something else.
    """
    match node:
        case exp.Subquery() if not _more_than(node, "alias"):
            return members_of(node.this)
        case exp.Union() if not node.args.get("distinct"):
            if _more_than(node, "expression", "distinct", "by_name"):
                return ()
            left, right = _side(node.this), _side(node.expression)
            return (*left, *right) if left and right else ()
    return ()


def _side(node: exp.Expr) -> tuple[exp.Table, ...]:
    """The tables of one side of a union."""
    while isinstance(node, exp.Subquery) and not _more_than(node, "alias"):
        node = node.this
    if not isinstance(node, exp.Select):
        return members_of(node)
    from_ = node.args.get("from_")
    (item, *others) = node.expressions
    is_whole = isinstance(item, exp.Star) and not others and not any(item.args.values())
    if from_ is None or not is_whole or _more_than(node, "expressions", "from_"):
        return ()
    table = from_.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return ()
    return () if _more_than(table, "db", "catalog", "alias") else (table,)


def _more_than(node: exp.Expr, *keys: str) -> bool:
    """Whether a node has another part than ``this`` and the named ones."""
    return any(value for key, value in node.args.items() if key not in ("this", *keys))


def union_table(name: str, place: Span, alias: exp.Expr | None) -> exp.Table:
    """Return the table that a union becomes.

    Args:
        name: its name.
        place: where the union stands, without its alias.
        alias: its alias, if it has one.
    """
    identifier = exp.Identifier(this=name, quoted=True)
    mark(identifier, place.start, place.end)
    table = exp.Table(this=identifier, alias=alias)
    mark(table, place.start, place.end if alias is None else span_of(alias).end)
    return table
