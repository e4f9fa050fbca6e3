"""Spark's parser, which records the place of every node; sqlglot records only those of names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from sqlglot import Token, exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser

from tidegate.errors import Span
from tidegate.frontend.grammar.nodes import mark, place_of

Node = TypeVar("Node", bound=exp.Expr)

# The parser methods whose result is marked, from their first token to their last.
_MARKED = (
    "_parse_atom",
    "_parse_bitwise",
    "_parse_bracket",
    "_parse_column",
    "_parse_column_ops",
    "_parse_comparison",
    "_parse_conjunction",
    "_parse_cte",
    "_parse_cube_or_rollup",
    "_parse_disjunction",
    "_parse_equality",
    "_parse_expression",
    "_parse_factor",
    "_parse_from",
    "_parse_function_call",
    "_parse_group",
    "_parse_grouping_sets",
    "_parse_having",
    "_parse_hint",
    "_parse_interval",
    "_parse_join",
    "_parse_lambda",
    "_parse_lateral",
    "_parse_limit",
    "_parse_offset",
    "_parse_order",
    "_parse_ordered",
    "_parse_primary",
    "_parse_qualify",
    "_parse_range",
    "_parse_select",
    "_parse_set_operations",
    "_parse_sort",
    "_parse_subquery",
    "_parse_table",
    "_parse_table_sample",
    "_parse_term",
    "_parse_type",
    "_parse_unary",
    "_parse_where",
    "_parse_with",
)


class SyntaxRefusal(ParseError):
    """A token that the grammar does not allow at its place."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


class MarkingParser(SparkParser):
    """Marks what each of its methods returns."""

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise at once, with the place of the unexpected token."""
        raise SyntaxRefusal(message, self.place(token))

    def place(self, token: Token | None = None) -> Span:
        """Return the place of a token, by default of the one that the parser has reached."""
        token = token or self._curr or self._prev
        return Span(token.start, token.end + 1) if token else Span(0, len(self.sql))

    def expression(
        self, instance: Node, token: Token | None = None, comments: list[str] | None = None
    ) -> Node:
        """Build a node; if it has no place of its own, it is at the last token."""
        node = super().expression(instance, token, comments)
        if self._prev and place_of(node) is None:
            mark(node, self._prev.start, self._prev.end + 1)
        return node

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        """Mark the call that ends here, and the FILTER and OVER around it."""
        if isinstance(this, exp.Anonymous) and "start" in this.meta:
            mark(this, this.meta["start"], self._prev.end + 1)
        given = place_of(this) if this is not None else None
        begin = given[0] if given else self._curr.start if self._curr else 0
        window = super()._parse_window(this, alias)
        if window is not None and window is not this:
            mark(window, begin, self._prev.end + 1)
        return window


def _marking(name: str) -> Callable[..., Any]:
    inherited = getattr(SparkParser, name)

    @functools.wraps(inherited)
    def parse_and_mark(self: MarkingParser, *args: object, **kwargs: object) -> object:
        token = self._curr
        given = place_of(args[0]) if args and isinstance(args[0], exp.Expr) else None
        begin = given[0] if given else token.start if token else 0
        node = inherited(self, *args, **kwargs)
        if isinstance(node, exp.Expr) and self._prev and self._prev.end >= begin:
            mark(node, begin, self._prev.end + 1)
        return node

    return parse_and_mark


for _name in _MARKED:
    setattr(MarkingParser, _name, _marking(_name))
