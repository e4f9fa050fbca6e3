"""Cuts expressions over a closed window into keys, aggregates, row values and the rest over them.

Equal parts are found by their canonical text, so each is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Span
from tidegate.frontend.binding.aggregates import AggregateCall, aggregate_call
from tidegate.frontend.binding.functions import (
    Functions,
    is_unit_word,
    is_window_function,
    variable_name,
)
from tidegate.frontend.binding.scope import Scope
from tidegate.frontend.grammar.nodes import place_of, span_of, variant_of
from tidegate.frontend.grammar.source import Source, subtree
from tidegate.frontend.guards import type_of_expression
from tidegate.frontend.refusal import Refusal
from tidegate.names import path, quoted
from tidegate.plan.columns import WINDOW_FUNCTIONS
from tidegate.plan.statement import Aggregate, Argument, Expression, Key

# Returns the text of the select item that a column's name means in a clause, or None.
AliasText = Callable[[exp.Column], str | None]

# Nodes that are not a value by themselves: parts of a call or of CASE.
_NO_VALUES = (
    exp.Alias,
    exp.Distinct,
    exp.Identifier,
    exp.Kwarg,
    exp.Lambda,
    exp.Literal,
    exp.Star,
    exp.DataType,
)

_IN_COLUMN = "\0"


@dataclass(slots=True, kw_only=True)
class Cutter:
    """The parts that have been extracted so far, over one FROM clause."""

    source: Source
    scope: Scope
    functions: Functions
    partition_by: Sequence[exp.Expr] = ()
    keys: dict[str, Key] = field(default_factory=dict)
    arguments: dict[str, Argument] = field(default_factory=dict)
    aggregates: dict[tuple[object, ...], Aggregate] = field(default_factory=dict)

    def canonical(self, node: exp.Expr) -> str:
        """Return a text that equal expressions share."""
        return self.source.canonical(node, self._identity)

    def key(self, node: exp.Expr) -> Key:
        """Return the group key of an expression over a row, made at its first use."""
        self._check_row_columns(node)
        new = Key(name=f"_k{len(self.keys)}", expression=self.source.expression(node))
        return self.keys.setdefault(self.canonical(node), new)

    def argument(self, node: exp.Expr) -> Argument:
        """Return the row value of an expression, made at its first use."""
        self._check_row_columns(node)
        expression = self.source.expression(node)
        return self.named_argument(self.canonical(node), expression, self._known_type(node))

    def named_argument(
        self, canonical: str, expression: Expression, type_: str | None = None
    ) -> Argument:
        """Return the row value of a canonical text."""
        new = Argument(name=f"_x{len(self.arguments)}", expression=expression, type=type_)
        return self.arguments.setdefault(canonical, new)

    def _known_type(self, node: exp.Expr) -> str | None:
        """The type of an expression over columns of declared types, None if it is not known."""
        return type_of_expression(self.source.slice(node), self.scope.types)

    def star_argument(self, identity: str, sql: str, span: Span) -> Argument:
        """Return the row value of a column that ``*`` stands for."""
        return self.named_argument(_IN_COLUMN + identity, Expression(sql=sql, span=span))

    def grouped(self, node: exp.Expr, alias_text: AliasText) -> str:
        """Return the text of an expression over keys, aggregates and the window.

        Raises:
            Refusal: a column in it is neither aggregated nor a key.
        """

        def replace(each: exp.Expr) -> str | None:
            fixed = self._fixed(each)
            if fixed is not None:
                return fixed
            if isinstance(each, exp.Column):
                return self._grouped_column(each, alias_text)
            if isinstance(each, exp.Query):
                raise Refusal(
                    "a subquery cannot read a closed window",
                    span_of(each),
                    "Join the table in FROM instead.",
                )
            if isinstance(each, _NO_VALUES) or place_of(each) is None:
                return None
            key = self._key_of(each)
            if key is not None:
                return key.name
            call = aggregate_call(each, self.functions)
            return self._aggregate(each, call).name if call else None

        return self.source.rewrite(node, lambda each: self._as_field(each, replace(each)))

    def of_row(self, node: exp.Expr, alias_text: AliasText) -> str:
        """Return the text of an expression over row values and the window."""

        def replace(each: exp.Expr) -> str | None:
            fixed = self._fixed(each)
            if fixed is not None:
                return fixed
            if isinstance(each, exp.Column):
                text = alias_text(each)
                if text is None and self.is_call(each):
                    text = self.source.slice(each)
                return text if text is not None else self.argument(each).name
            if isinstance(each, exp.Query):
                return self.argument(each).name
            if self._is_row_value(each, alias_text):
                return self.argument(each).name
            return None

        return self.source.rewrite(node, lambda each: self._as_field(each, replace(each)))

    def _fixed(self, node: exp.Expr) -> str | None:
        """Return the text of what needs no column: a window's function, a unit, a variable."""
        if is_window_function(node):
            return WINDOW_FUNCTIONS[node.name.lower()]
        if is_unit_word(node):
            return self.source.slice(node)
        return variable_name(node) if isinstance(node, exp.Identifier) else None

    def _as_field(self, node: exp.Expr, text: str | None) -> str | None:
        """Return what replaces a node; in ``struct(..)`` it keeps the name that Spark gives it."""
        call = node.parent
        is_field = isinstance(call, exp.Anonymous) and call.name.lower() == "struct"
        if text is None or not is_field or text == self.source.slice(node):
            return text
        field_name = f"col{node.index + 1}" if node.index is not None else "col1"
        if isinstance(node, (exp.Column, exp.Dot)):
            field_name = node.name
        return f"{text} AS {quoted(field_name)}"

    def _is_row_value(self, node: exp.Expr, alias_text: AliasText) -> bool:
        if (
            isinstance(node, _NO_VALUES)
            or not isinstance(node, exp.Condition)
            or place_of(node) is None
        ):
            return False
        if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
            return False
        if node.find_ancestor(exp.Lambda) is not None:
            return False
        below = list(subtree(node))
        if any(is_window_function(each) for each in below):
            return False
        columns = [
            each
            for each in below
            if isinstance(each, exp.Column) and not is_unit_word(each) and not self.is_call(each)
        ]
        return bool(columns) and all(alias_text(each) is None for each in columns)

    def is_call(self, node: exp.Column) -> bool:
        """Whether a word is not a column but a call that Spark accepts without brackets."""
        try:
            return self.scope.resolve(node).is_call
        except Refusal:
            return False

    def _grouped_column(self, node: exp.Column, alias_text: AliasText) -> str:
        text = alias_text(node)
        if text is not None:
            return text
        key = self._key_of(node)
        if key is not None:
            return key.name
        resolved = self.scope.resolve(node)
        if resolved.is_call:
            return self.source.slice(node)
        for end in range(len(resolved.parts) - 1, 1, -1):
            key = self.keys.get(_IN_COLUMN + path(*resolved.parts[:end]))
            if key is not None:
                fields = node.parts[end - len(resolved.parts) :]
                return ".".join([key.name, *(self.source.slice(part) for part in fields)])
        raise self._neither(node)

    def _key_of(self, node: exp.Expr) -> Key | None:
        canonical = self.canonical(node)
        if canonical in self.keys:
            return self.keys[canonical]
        for partition in self.partition_by:
            if self.canonical(partition) == canonical:
                return self.key(partition)
        return None

    def is_key(self, node: exp.Expr) -> bool:
        """Whether an expression is a group key."""
        return self.canonical(node) in self.keys

    def _neither(self, node: exp.Column) -> Refusal:
        text = self.source.slice(node)
        return Refusal(
            f"{text} is neither aggregated nor a group key",
            span_of(node),
            f"Add {text} to GROUP BY, or aggregate it, e.g. max({text}).",
        )

    def _aggregate(self, node: exp.Expr, call: AggregateCall) -> Aggregate:
        args = [
            self._aggregate_argument(each, alone=len(call.arguments) == 1)
            for each in call.arguments
        ]
        if call.ignore_nulls:
            args.append("true")
        filter_ = self.argument(call.filter).name if call.filter is not None else None
        new = Aggregate(
            name=f"_a{len(self.aggregates)}",
            function=call.function,
            args=tuple(args),
            distinct=call.distinct,
            filter=filter_,
            text=self.source.slice(node),
            span=span_of(node),
        )
        return self.aggregates.setdefault((call.function, tuple(args), call.distinct, filter_), new)

    def _aggregate_argument(self, node: exp.Expr, *, alone: bool) -> str:
        has_column = any(
            isinstance(each, exp.Column) and not is_unit_word(each) for each in subtree(node)
        )
        return self.argument(node).name if has_column or alone else self.source.slice(node)

    def _identity(self, node: exp.Expr) -> str | None:
        variant = variant_of(node)
        if variant is not None:
            # Case matters in the keys of a variant.
            path_ = self.source.text[span_of(variant).end : span_of(node).end]
            return self.canonical(variant) + path_
        if (
            not isinstance(node, exp.Column)
            or is_unit_word(node)
            or isinstance(node.this, exp.Star)
        ):
            return None
        try:
            return _IN_COLUMN + self.scope.resolve(node).identity
        except Refusal:
            # An item of the select list, by its name; what is computed for a row cannot have it.
            return _IN_COLUMN + path("item", node.name)

    def _check_row_columns(self, node: exp.Expr) -> None:
        for each in subtree(node):
            is_name = isinstance(each, exp.Column) and not is_unit_word(each)
            if is_name and isinstance(each, exp.Column) and not isinstance(each.this, exp.Star):
                self.scope.resolve(each)
