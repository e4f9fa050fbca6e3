"""The statement's grammar: Spark SQL as sqlglot reads it, and the clauses of stream windows.

Nothing here knows what a window means. Functions keep the name and the arguments they were written
with, and every node learns where it stands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, ClassVar, TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser

from tidegate.errors import Span
from tidegate.sql.nodes import (
    EmitClause,
    OnClause,
    StreamOver,
    WatermarkClause,
    WindowClause,
    WindowParameter,
    mark,
    place_of,
    span_of,
)
from tidegate.sql.refusal import Refusal

Node = TypeVar("Node", bound=exp.Expr)

# The window functions of StreamDialect, and those that users know from Flink and Calcite.
STREAM_WINDOWS = (
    "tumblingwindow",
    "hoppingwindow",
    "cumulatewindow",
    "sessionwindow",
    "slidingwindow",
    "statewindow",
    "countwindow",
)
TIME_WINDOWS = ("tumble", "hop", "session")

# Calls whose arguments are not a plain list, e.g. ``extract(HOUR FROM ts)``. All others stay as written.
_CALLS_WITH_A_GRAMMAR = (
    "CAST",
    "TRY_CAST",
    "EXTRACT",
    "OVERLAY",
    "POSITION",
    "SUBSTRING",
    "SUBSTR",
    "TRIM",
)

# The parser's methods whose result gets its place: from where they begin to the last token they took.
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


class StreamParser(SparkParser):
    """Spark's grammar with windows over streams."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in _CALLS_WITH_A_GRAMMAR
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    # list[0] is an element of a column, not an array that is written out.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Expr]]] = {}
    FUNC_TOKENS = SparkParser.FUNC_TOKENS | {TokenType.SESSION}
    # GROUP BY window: the column of that name.
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = SparkParser.QUERY_MODIFIER_TOKENS - {
        TokenType.WINDOW
    }

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise at once, with the place of the token that does not fit."""
        place = token or self._curr or self._prev
        start, end = (place.start, place.end + 1) if place else (0, len(self.sql))
        raise SyntaxRefusal(message, Span(start, end))

    def expression(
        self, instance: Node, token: Token | None = None, comments: list[str] | None = None
    ) -> Node:
        """Build a node; one that has no place of its own stands at the token just taken."""
        node = super().expression(instance, token, comments)
        if self._prev and place_of(node) is None:
            mark(node, self._prev.start, self._prev.end + 1)
        return node

    def _warn_unsupported(self) -> None:
        """Say nothing: statements that are not SELECT are refused with a message of their own."""

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        # A type inside an expression is that of a literal, DATE '2026-01-01'; list[0] is a column's.
        if check_func and self._next.token_type != TokenType.STRING:
            return None
        return super()._parse_types(check_func, schema, allow_identifiers, with_collation)

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        while isinstance(this, exp.Select) and self._parse_stream_clause(this):
            this = super()._parse_query_modifiers(this)
        return this

    def _parse_stream_clause(self, select: exp.Select) -> bool:
        """Parse one of ON, WATERMARK and EMIT into ``select``; False when there is none here."""
        start = self._curr
        if self._at_emit():
            self._advance(1)
            if not self._match_text_seq("ON", "WINDOW", "CLOSE"):
                self.raise_error("EMIT is followed by ON WINDOW CLOSE")
            self._set_clause(select, "emit", EmitClause(), start)
        elif self._at_watermark():
            self._advance(1)
            self._set_clause(
                select, "watermark", WatermarkClause(expressions=self._parse_parameters()), start
            )
        elif self._match(TokenType.ON):
            self._set_clause(select, "event_time", OnClause(this=self._parse_needed()), start)
        else:
            return False
        return True

    def _set_clause(self, select: exp.Select, key: str, clause: exp.Expr, start: Token) -> None:
        mark(clause, start.start, self._prev.end + 1)
        if select.args.get(key):
            raise Refusal(
                f"a statement has one {start.text.upper()} clause, this is the second",
                span_of(clause),
                "Leave one of the two out.",
            )
        select.set(key, clause)

    def _parse_window_clause(self) -> Any:
        kind = self._next
        if not (kind and self._peek(2).token_type == TokenType.L_PAREN):
            return super()._parse_window_clause()
        start = self._curr
        self._advance(2)
        clause = WindowClause(this=kind.text.upper(), expressions=self._parse_parameters())
        clause.meta["kind_span"] = (kind.start, kind.end + 1)
        mark(clause, start.start, self._prev.end + 1)
        return clause

    def _parse_parameters(self) -> list[exp.Expr]:
        self._match_l_paren()
        parameters = (
            []
            if self._match(TokenType.R_PAREN, advance=False)
            else self._parse_csv(self._parse_parameter_)
        )
        self._match_r_paren()
        return parameters

    def _parse_parameter_(self) -> exp.Expr:
        start, name = self._curr, ""
        if self._match_text_seq("ALLOWED", "LATENESS"):
            name = "ALLOWED LATENESS"
        elif self._match(TokenType.ON):
            name = "ON"
        elif self._curr.text.isalpha() and self._curr.token_type not in (
            TokenType.INTERVAL,
            TokenType.STRING,
        ):
            name = self._curr.text.upper()
            self._advance(1)
        parameter = WindowParameter(this=name, expression=self._parse_needed())
        mark(parameter, start.start, self._prev.end + 1)
        return parameter

    def _parse_needed(self) -> exp.Expr:
        expression = self._parse_disjunction()
        if expression is None:
            self.raise_error("an expression is missing")
        assert expression is not None
        return expression

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        if isinstance(this, exp.Anonymous) and "start" in this.meta:
            mark(this, this.meta["start"], self._prev.end + 1)
            if self._match(TokenType.OVER, advance=False) and self._over_a_stream_window(this):
                return self._parse_stream_over(this)
        given = place_of(this) if this is not None else None
        begin = given[0] if given else self._curr.start if self._curr else 0
        window = super()._parse_window(this, alias)
        if window is not None and window is not this:
            mark(window, begin, self._prev.end + 1)
        return window

    def _over_a_stream_window(self, call: exp.Anonymous) -> bool:
        return (
            call.name.lower() in (*STREAM_WINDOWS, *TIME_WINDOWS)
            or self._peek(2).text.upper() == "WHEN"
        )

    def _parse_stream_over(self, call: exp.Anonymous) -> StreamOver:
        over_token = self._curr
        self._advance(1)
        if not self._match(TokenType.L_PAREN):
            raise self._over_refusal("a named window", over_token, self._curr)
        over = StreamOver(this=call, partition_by=self._parse_partition_by() or None)
        if self._match(TokenType.WHEN):
            when_token = self._prev
            over.set("when", self._parse_needed())
            over.meta["when_span"] = (when_token.start, self._prev.end + 1)
        if not over.args.get("partition_by"):
            over.set("partition_by", self._parse_partition_by() or None)
        if not self._match(TokenType.R_PAREN):
            raise self._unknown_in_over(over_token)
        mark(over, span_of(call).start, self._prev.end + 1)
        over.meta["over_span"] = (over_token.start, self._prev.end + 1)
        return over

    def _unknown_in_over(self, over_token: Token) -> Refusal | SyntaxRefusal:
        match self._curr.token_type:
            case TokenType.ORDER_BY | TokenType.SORT_BY:
                return self._over_refusal("ORDER BY", over_token, self._curr)
            case TokenType.ROWS | TokenType.RANGE:
                return self._over_refusal("a frame", over_token, self._curr)
            case _ if (
                self._curr.token_type in self.ID_VAR_TOKENS
                and self._prev.token_type == TokenType.L_PAREN
            ):
                return self._over_refusal("a named window", over_token, self._curr)
        place = self._curr or self._prev
        return SyntaxRefusal("OVER ends with ')' here", Span(place.start, place.end + 1))

    @staticmethod
    def _over_refusal(what: str, over_token: Token, token: Token) -> Refusal:
        place = token or over_token
        return Refusal(
            f"the OVER of a stream window does not take {what}",
            Span(place.start, place.end + 1),
            "Write OVER (PARTITION BY expression, ..) and nothing else in it; "
            "slidingwindow takes OVER (WHEN condition) too.",
        )

    def _parse_table_alias(
        self, alias_tokens: Collection[TokenType] | None = None
    ) -> exp.TableAlias | None:
        if self._at_emit() or self._at_watermark():
            return None
        return super()._parse_table_alias(alias_tokens)

    def _at_emit(self) -> bool:
        return (
            bool(self._curr)
            and self._curr.text.upper() == "EMIT"
            and self._next.token_type == TokenType.ON
        )

    def _at_watermark(self) -> bool:
        return (
            bool(self._curr)
            and self._curr.text.upper() == "WATERMARK"
            and self._next.token_type == TokenType.L_PAREN
        )

    def _peek(self, ahead: int) -> Token:
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else self._tokens[-1]


def _marking(name: str) -> Callable[..., Any]:
    inherited = getattr(SparkParser, name)

    @functools.wraps(inherited)
    def parse_and_mark(self: StreamParser, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        given = place_of(args[0]) if args and isinstance(args[0], exp.Expr) else None
        begin = given[0] if given else token.start if token else 0
        node = inherited(self, *args, **kwargs)
        if isinstance(node, exp.Expr) and self._prev and self._prev.end >= begin:
            mark(node, begin, self._prev.end + 1)
        return node

    return parse_and_mark


for _name in _MARKED:
    setattr(StreamParser, _name, _marking(_name))


class StreamDialect(Spark):
    """Spark SQL with windows over streams."""

    Parser = StreamParser
