"""The statement's grammar: Spark SQL as sqlglot reads it, and the clauses of stream windows.

Nothing here knows what a window means. Functions keep the name and the arguments they were written
with, and every node learns where it stands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from tidegate.errors import Span
from tidegate.frontend.grammar.marks import SyntaxRefusal
from tidegate.frontend.grammar.nodes import (
    EmitClause,
    OnClause,
    StreamOver,
    UnsignedShift,
    VariantPath,
    WatermarkClause,
    WindowClause,
    WindowParameter,
    mark,
    span_of,
)
from tidegate.frontend.grammar.unions import UnionParser
from tidegate.frontend.refusal import Refusal

# sqlglot warns about JSON paths that it cannot read; Spark decides whether they are valid.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

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

# Calls whose arguments are not a plain list, e.g. ``extract(HOUR FROM ts)``.
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


# Operators on bits, the loosest first, and shifts, the longest first.
_BITS: tuple[tuple[TokenType, type[exp.Binary]], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)
_SHIFTS: tuple[tuple[str, type[exp.Binary]], ...] = (
    (">>>", UnsignedShift),
    (">>", exp.BitwiseRightShift),
    ("<<", exp.BitwiseLeftShift),
)


class StreamParser(UnionParser):
    """Spark's grammar with windows over streams."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in _CALLS_WITH_A_GRAMMAR
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    # current_date is a column where there is one of that name.
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, type[exp.Expr]]] = {}
    # list[0] is an element of a column, not an array literal.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}
    FUNC_TOKENS = SparkParser.FUNC_TOKENS | {TokenType.SESSION}
    # In GROUP BY, ``window`` is a column of that name.
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = SparkParser.QUERY_MODIFIER_TOKENS - {
        TokenType.WINDOW
    }

    # To Spark || binds like +.
    TERM: ClassVar[dict[TokenType, type[exp.Binary]]] = {
        **SparkParser.TERM,
        TokenType.DPIPE: exp.DPipe,
    }

    def _warn_unsupported(self) -> None:
        """Do not warn: statements other than SELECT are refused with our own message."""

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        # Only a literal begins with a type, as DATE '2026-01-01'; list[0] does not.
        if check_func and self._next.token_type != TokenType.STRING:
            return None
        return super()._parse_types(check_func, schema, allow_identifiers, with_collation)

    def _parse_bitwise(self) -> exp.Expr | None:
        """Parse operators on bits: shifts bind closer than &, then come ^ and |."""
        return self._parse_bits(_BITS)

    def _parse_bits(self, levels: Sequence[tuple[TokenType, type[exp.Binary]]]) -> exp.Expr | None:
        if not levels:
            return self._parse_shift()
        (sign, kind), *closer = levels
        this = self._parse_bits(closer)
        while self._match(sign):
            this = self.expression(kind(this=this, expression=self._parse_bits(closer)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while (shift := self._shift_ahead()) is not None:
            signs, kind = shift
            self._advance(len(signs))
            this = self.expression(kind(this=this, expression=self._parse_term()))
        return this

    def _shift_ahead(self) -> tuple[str, type[exp.Binary]] | None:
        """The shift operator at this place: its signs are adjacent tokens."""
        for signs, kind in _SHIFTS:
            tokens = [self._peek(ahead) for ahead in range(len(signs))]
            touch = all(b.start == a.end + 1 for a, b in pairwise(tokens))
            if touch and "".join(each.text for each in tokens) == signs:
                return signs, kind
        return None

    def _parse_column(self) -> exp.Expr | None:
        """Parse a column and, after a colon, a path into it."""
        column = super()._parse_column()
        while column is not None and self._match(TokenType.COLON):
            if self._curr.token_type != TokenType.L_BRACKET:
                self._parse_id_var(any_token=True)
            path = VariantPath(this=column)
            mark(path, span_of(column).start, self._prev.end + 1)
            column = self._parse_column_ops(path)
        return column

    def _replace_lambda(self, node: exp.Expr | None, expressions: list[exp.Expr]) -> Any:  # noqa: ANN401
        """Turn columns in the body of a lambda into its variables, ignoring case."""
        variables = {each.name.lower() for each in expressions}
        for column in node.find_all(exp.Column) if node is not None else ():
            if column.parts[0].name.lower() in variables:
                variable = column.to_dot() if column.table else column.this
                if column is node:
                    node = variable
                else:
                    column.replace(variable)
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:  # noqa: ANN401
        call = super()._parse_function_call(*args, **kwargs)
        if isinstance(call, exp.Anonymous):
            _refuse_arguments(call)
        return call

    def _parse_query_modifiers(self, this: Any) -> Any:  # noqa: ANN401
        this = super()._parse_query_modifiers(this)
        while isinstance(this, exp.Select) and self._parse_stream_clause(this):
            this = super()._parse_query_modifiers(this)
        return this

    def _parse_stream_clause(self, select: exp.Select) -> bool:
        """Parse ON, WATERMARK or EMIT into ``select``; return False if none of them is next."""
        start = self._curr
        if self._at_emit():
            self._set_clause(select, "emit", self._parse_emit(), start)
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

    def _parse_emit(self) -> EmitClause:
        self._advance(1)
        if self._match_text_seq("EARLY"):
            if not self._match_text_seq("EVERY"):
                self.raise_error("EMIT EARLY is followed by EVERY and an INTERVAL")
            return EmitClause(this=self._parse_needed())
        if not all(self._match_text_seq(word) for word in ("ON", "WINDOW", "CLOSE")):
            self.raise_error("EMIT is followed by ON WINDOW CLOSE or by EARLY EVERY")
        return EmitClause()

    def _set_clause(self, select: exp.Select, key: str, clause: exp.Expr, start: Token) -> None:
        mark(clause, start.start, self._prev.end + 1)
        if select.args.get(key):
            raise Refusal(
                f"this is a second {start.text.upper()} clause, and a statement has one",
                span_of(clause),
                "Leave one of the two out.",
            )
        select.set(key, clause)

    def _parse_window_clause(self) -> Any:  # noqa: ANN401
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
        is_call = isinstance(this, exp.Anonymous) and self._match(TokenType.OVER, advance=False)
        if is_call and isinstance(this, exp.Anonymous) and self._over_a_stream_window(this):
            mark(this, this.meta["start"], self._prev.end + 1)
            return self._parse_stream_over(this)
        return super()._parse_window(this, alias)

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
            and (self._next.token_type == TokenType.ON or self._next.text.upper() == "EARLY")
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


def _refuse_arguments(call: exp.Anonymous) -> None:
    """Refuse arguments that sqlglot takes and Spark does not: names, and clauses of a SELECT."""
    name = call.name.lower()
    is_window = name in (*STREAM_WINDOWS, *TIME_WINDOWS)
    for argument in call.expressions:
        is_clause = is_window and isinstance(argument, (exp.HavingMax, exp.Limit, exp.Order))
        if is_clause or (name != "struct" and _has_name(argument)):
            raise Refusal(
                f"an argument of {call.name} must be an expression and nothing else",
                span_of(argument),
                "Leave out what follows the expression: AS, ORDER BY, LIMIT or HAVING.",
            )


def _has_name(node: exp.Expr) -> bool:
    """Whether an expression contains AS outside of structs and subqueries."""
    if isinstance(node, (exp.Alias, exp.Aliases)):
        return True
    if isinstance(node, (exp.Query, exp.Tuple, exp.Anonymous)):
        return False
    return any(_has_name(child) for child in node.iter_expressions())


class StreamDialect(Spark):
    """Spark SQL with windows over streams."""

    Parser = StreamParser
