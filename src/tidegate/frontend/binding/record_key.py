"""The key of a record that a sink sends: an expression over the columns of the results."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.errors import Span
from tidegate.frontend.binding.aggregates import has_aggregate
from tidegate.frontend.binding.functions import known_functions
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.grammar.source import in_brackets, read_expression
from tidegate.frontend.refusal import Refusal
from tidegate.names import listed, suggestion
from tidegate.plan.statement import Expression, OutputItem, UserFunction


def record_key(
    text: str, items: Sequence[OutputItem], functions: Sequence[UserFunction] = ()
) -> Expression:
    """Return a key as an expression over the names of a closed window.

    Args:
        text: the key, over the columns of the results.
        items: these columns.
        functions: the functions that the user registered in Spark.

    Raises:
        QueryError: the key is not one expression, or names a column that the results lack.
    """
    columns = {item.name.lower(): in_brackets(item.expression.sql) for item in items}

    def value(node: exp.Expr) -> str | None:
        if not isinstance(node, exp.Column):
            return None
        name = node.parts[0]
        if name.name.lower() not in columns:
            names = [item.name for item in items]
            raise Refusal(
                f"the results have no column {name.name}",
                span_of(node),
                suggestion(name.name, names, otherwise=f"They have {listed(names)}."),
            )
        # What follows are fields of a struct.
        return columns[name.name.lower()] + source.text[span_of(name).end : span_of(node).end]

    try:
        source = read_expression(text)
        if has_aggregate(source.tree, known_functions(functions)):
            raise Refusal(
                "the key of a record has no aggregates",
                Span(0, len(text)),
                "Aggregate in the select list, and use the name of the column.",
            )
        written = source.rewrite(source.tree, value)
    except Refusal as refusal:
        raise refusal.error(text, "key") from None
    return Expression(sql=f"({written})", span=Span(0, len(text)))
