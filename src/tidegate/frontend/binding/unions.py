"""Streams that FROM unites: ``FROM a UNION ALL b``, or a subquery that does no more than that.

Such a union is a stream of its own. In the tree it becomes a table, whose name is its text, and
what reaches Spark names that table; so a row can tell from which of the streams it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import TokenType, exp

from tidegate.errors import Span
from tidegate.frontend.binding.scope import find_relation
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.grammar.source import Source
from tidegate.frontend.grammar.unions import is_bare_union, members_of, union_table
from tidegate.frontend.reading.parse import (
    ParsedStatement,
    cte_of,
    read_select,
    select_of,
    streams_of,
    table_name,
)
from tidegate.frontend.refusal import Refusal
from tidegate.names import in_backticks
from tidegate.plan.statement import Relation
from tidegate.plan.unions import difference


def unite(
    statement: ParsedStatement, relations: Sequence[Relation]
) -> tuple[ParsedStatement, Sequence[Relation]]:
    """Return a statement with the union of its FROM as one stream, and all relations with it.

    Raises:
        QueryError: streams are combined in a way that does not work.
    """
    try:
        return _united(statement, relations)
    except Refusal as refusal:
        raise refusal.error(statement.text, statement.origin) from None


def _united(
    statement: ParsedStatement, relations: Sequence[Relation]
) -> tuple[ParsedStatement, Sequence[Relation]]:
    source, select = statement.source, select_of(statement.source)
    by_name = {relation.name.lower(): relation for relation in relations}
    found = next((op for op in _outermost(select) if _unites_streams(op, by_name)), None)
    if found is None:
        return statement, relations
    first = select.args["from_"].this
    union = _relation(found, first, by_name)
    place = _place(source, first)
    first.replace(union_table(union.name, place, first.args.get("alias")))
    source = replace(source, renamed=((place, in_backticks(union.name)),))
    again = replace(read_select(source, statement.origin), united=union.members)
    return again, [*relations, union]


def _outermost(node: exp.Expr) -> Iterator[exp.SetOperation]:
    """The set operations of a statement that are not part of another one."""
    if isinstance(node, exp.SetOperation):
        yield node
        return
    for child in node.iter_expressions():
        yield from _outermost(child)


def _place(source: Source, first: exp.Expr) -> Span:
    """Where the union stands, with its brackets and without its alias."""
    span, alias = span_of(first), first.args.get("alias")
    if alias is None:
        return span
    inside = [
        token
        for token in source.tokens
        if span.start <= token.start < span_of(alias).start and token.token_type != TokenType.ALIAS
    ]
    return Span(span.start, inside[-1].end + 1)


def _unites_streams(operation: exp.SetOperation, by_name: Mapping[str, Relation]) -> bool:
    names = {each.sql.lower() for each in streams_of(operation)}
    streams = [name for name in names if name in by_name and by_name[name].streaming]
    return is_bare_union(operation) or len(streams) > 1


def _relation(
    operation: exp.SetOperation, first: exp.Expr, by_name: Mapping[str, Relation]
) -> Relation:
    """Return the stream that a set operation gives.

    Raises:
        Refusal: it does something else than to read streams as one.
    """
    span = span_of(operation)
    names = list(dict.fromkeys(each.sql for each in streams_of(operation)))
    mend = f"Write FROM {' UNION ALL '.join(names)}, and select and filter in the statement itself."
    word = _not_union_all(operation)
    if word is not None:
        raise Refusal(
            f"{word} compares all rows of the streams with each other, and they never end",
            span,
            mend,
        )
    tables = members_of(operation)
    if not tables:
        raise Refusal(
            "streams are united as they are, and a query in between hides which of them a row is "
            "from",
            span,
            mend,
        )
    if members_of(first) != tables:
        raise Refusal("streams are united only right after FROM", span, mend)
    members = [_member(table, by_name) for table in tables]
    _refuse_twice(tables)
    columns = {each.name: each.columns for each in members}
    differs = difference(columns)
    if differs is not None:
        raise Refusal(
            f"UNION ALL of streams with different columns: {differs}",
            span,
            "Columns are matched by name, in any order. Give the streams the same columns, with "
            "the same types, before this statement.",
        )
    return Relation(
        name=" UNION ALL ".join(each.name for each in members),
        columns=next((each for each in columns.values() if each is not None), None),
        malformed=any(each.malformed for each in members),
        united=True,
        members=tuple(each.name for each in members),
    )


def _not_union_all(operation: exp.SetOperation) -> str | None:
    """The first set operation that is not UNION ALL, None if there is none."""
    for each in operation.find_all(exp.SetOperation):
        if not isinstance(each, exp.Union) or each.args.get("distinct"):
            return type(each).__name__.upper()
    return None


def _member(table: exp.Table, by_name: Mapping[str, Relation]) -> Relation:
    name, span = table_name(table), span_of(table)
    if cte_of(table) is not None:
        raise Refusal(
            f"{name} is a query in WITH, and UNION ALL in FROM unites streams",
            span,
            "Name the streams themselves.",
        )
    relation = find_relation(name, span, by_name)
    if relation.upstream is not None:
        raise Refusal(
            f"{name} is a transform, and UNION ALL in FROM unites streams",
            span,
            "Read the transform alone.",
        )
    if not relation.streaming:
        raise Refusal(
            f"{name} is a table, and UNION ALL in FROM unites streams",
            span,
            "Leave it out; its rows can be joined to those of the streams.",
        )
    return relation


def _refuse_twice(tables: Sequence[exp.Table]) -> None:
    seen: set[str] = set()
    for table in tables:
        name = table_name(table).lower()
        if name in seen:
            raise Refusal(
                f"{table_name(table)} is united with itself, and each of its rows would count "
                "twice",
                span_of(table),
                "Name each stream once.",
            )
        seen.add(name)
