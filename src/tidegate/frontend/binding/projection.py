"""The select list, HAVING and ORDER BY over a closed window."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Span
from tidegate.frontend.binding.aggregates import has_aggregate
from tidegate.frontend.binding.extract_aggregates import AliasText, Cutter
from tidegate.frontend.binding.window_placement import group_nodes
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.grammar.source import in_brackets
from tidegate.frontend.reading.parse import order_nodes
from tidegate.frontend.reading.windows import window_call
from tidegate.frontend.refusal import Refusal
from tidegate.plan.statement import Expression, OrderItem, OutputItem, SelectStmt


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The expressions computed when a window closes; ``star`` is set if a ``*`` is left.

    ``grouped`` says whether they are over groups, not over rows.
    """

    items: tuple[OutputItem, ...]
    having: Expression | None
    order_by: tuple[OrderItem, ...]
    star: bool
    grouped: bool


def cut(select: exp.Select, statement: SelectStmt, cutter: Cutter) -> Outputs:
    """Return the outputs of a statement; keys, aggregates and row values gather in ``cutter``.

    Raises:
        Refusal: a column is neither aggregated nor a group key, or two results have one name.
    """
    key_nodes = [node for node in group_nodes(select) if not window_call(node)]
    for node in key_nodes:
        cutter.key(_key_expression(node, select, cutter))
    having = select.args.get("having")
    closing = [*select.expressions, *(each.this for each in order_nodes(select))]
    closing += [having.this] if having else []
    is_grouped = bool(key_nodes) or any(has_aggregate(node, cutter.functions) for node in closing)
    if having and not is_grouped:
        raise Refusal(
            "HAVING filters groups, but this query has only rows",
            span_of(having),
            "Filter rows with WHERE.",
        )
    writer = Writer(cutter, select.expressions, is_grouped=is_grouped)
    items = writer.items()
    return Outputs(
        items=tuple(items),
        having=Expression(sql=writer.having(having.this), span=span_of(having.this))
        if having
        else None,
        order_by=tuple(
            OrderItem(
                expression=Expression(sql=writer.order(node.this), span=span_of(node.this)),
                descending=item.descending,
                nulls_first=item.nulls_first,
            )
            for node, item in zip(order_nodes(select), statement.order_by, strict=True)
        ),
        star=writer.star,
        grouped=is_grouped,
    )


class Writer:
    """Writes expressions over the names of a closed window; an unknown ``*`` sets ``star``."""

    def __init__(self, cutter: Cutter, nodes: Sequence[exp.Expr], *, is_grouped: bool) -> None:
        self.star = False
        self._cutter = cutter
        self._nodes = nodes
        self._is_grouped = is_grouped
        self._aliases = {
            node.alias.lower(): node.this for node in nodes if isinstance(node, exp.Alias)
        }

    def items(self) -> list[OutputItem]:
        """Return the columns of the result."""
        found: list[OutputItem] = []
        for node in self._nodes:
            if _is_star(node):
                found += self._star_items(node)
                continue
            value = node.this if isinstance(node, exp.Alias) else node
            text = self.item(value)
            name = node.alias if isinstance(node, exp.Alias) else self._own_name(value)
            found.append(OutputItem(name=name, expression=Expression(sql=text, span=span_of(node))))
        _refuse_doubles(found)
        return found

    def item(self, node: exp.Expr) -> str:
        """Return an expression of the select list."""
        return self._text(node, lambda _: None)

    def having(self, node: exp.Expr) -> str:
        """Return HAVING; a name means a group key rather than an item of the select list."""
        return self._text(
            node, lambda column: None if self._is_key(column) else self._alias_text(column)
        )

    def order(self, node: exp.Expr) -> str:
        """Return an ORDER BY item; a name is first one of the select list, a number a place."""
        ordinal = self._ordinal(node)
        if ordinal is not None:
            return self.item(ordinal)
        return self._text(node, self._alias_text)

    def _text(self, node: exp.Expr, alias_text: AliasText) -> str:
        if self._is_grouped:
            return self._cutter.grouped(node, alias_text)
        return self._cutter.of_row(node, alias_text)

    def _alias_text(self, column: exp.Column) -> str | None:
        item = self._aliases.get(column.name.lower()) if len(column.parts) == 1 else None
        return None if item is None else in_brackets(self.item(item))

    def _is_key(self, column: exp.Column) -> bool:
        scope = self._cutter.scope
        return (scope.has(column.name) or not scope.is_known) and self._cutter.is_key(column)

    def _ordinal(self, node: exp.Expr) -> exp.Expr | None:
        return ordinal_item(node, self._nodes, "ORDER BY")

    def _own_name(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Column):
            return str(node.name)
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return str(node.expression.name)
        return re.sub(r"\s+", " ", self._cutter.source.slice(node))

    def _star_items(self, node: exp.Expr) -> list[OutputItem]:
        span = span_of(node)
        if self._is_grouped:
            raise Refusal(
                "* is beside group keys or aggregates, which have no rows to show",
                span,
                "Name the columns: group keys, and aggregates of the others.",
            )
        star = node.this if isinstance(node, exp.Column) else node
        assert isinstance(star, exp.Star)
        if star.args.get("replace") or star.args.get("rename") or star.args.get("ilike"):
            raise Refusal("* takes only EXCEPT", span, "Name the columns.")
        columns = self._cutter.scope.star(node.table if isinstance(node, exp.Column) else None)
        if columns is None:
            self.star = True
            return []
        left_out = {each.name.lower() for each in star.args.get("except_") or ()}
        return [
            OutputItem(
                name=column.name,
                expression=Expression(
                    sql=self._cutter.star_argument(column.identity, column.sql, span).name,
                    span=span,
                ),
            )
            for column in columns
            if column.name.lower() not in left_out
        ]


def ordinal_item(node: exp.Expr, items: Sequence[exp.Expr], clause: str) -> exp.Expr | None:
    """Return the item of the select list that a number in GROUP BY or ORDER BY means, or None.

    Raises:
        Refusal: there is no such item.
    """
    if not (isinstance(node, exp.Literal) and node.is_int):
        return None
    place = int(node.name)
    if not 1 <= place <= len(items):
        raise Refusal(
            f"{clause} {place}: the select list has {len(items)} items",
            span_of(node),
            "Write the expression itself.",
        )
    item = items[place - 1]
    if _is_star(item):
        raise Refusal(f"{clause} {place} is *", span_of(node), "Write the column's name.")
    return item.this if isinstance(item, exp.Alias) else item


def _key_expression(node: exp.Expr, select: exp.Select, cutter: Cutter) -> exp.Expr:
    """Return the expression of a group key, which may be named by an alias or a number."""
    expression = ordinal_item(node, select.expressions, "GROUP BY")
    if expression is None:
        expression = _aliased(node, select.expressions, cutter) or node
    if has_aggregate(expression, cutter.functions):
        raise Refusal(
            f"{cutter.source.slice(node)} in GROUP BY is an aggregate; "
            "aggregates are computed after grouping, so they cannot be group keys",
            span_of(node),
            "Group by columns of the stream.",
        )
    return expression


def _aliased(node: exp.Expr, items: Sequence[exp.Expr], cutter: Cutter) -> exp.Expr | None:
    """Return the item that a key names; a column of FROM goes before an item of the same name."""
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or cutter.scope.has(node.name):
        return None
    for item in items:
        if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
            own = any(
                column.name.lower() == node.name.lower() for column in item.find_all(exp.Column)
            )
            return None if own else item.this
    return None


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _refuse_doubles(items: Sequence[OutputItem]) -> None:
    seen: dict[str, Span] = {}
    for item in items:
        if item.name.lower() in seen:
            raise Refusal(
                f"two columns of the result are called {item.name}",
                item.expression.span,
                f"Give one of them another name with AS, e.g. AS {item.name}_2.",
            )
        seen[item.name.lower()] = item.expression.span
