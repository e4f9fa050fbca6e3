"""From ``SelectStmt`` to ``BoundQuery``: resolves names and splits a statement into its parts.

A grouped query is cut into group keys, aggregates and what is computed of both once a window
closes; a row query into the values of a row. Every refusal that needs no event time is made here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import QueryError, Span
from tidegate.frontend.binding.clauses import Clause
from tidegate.frontend.binding.early import with_identity
from tidegate.frontend.binding.extract_aggregates import Cutter
from tidegate.frontend.binding.functions import known_functions
from tidegate.frontend.binding.joins import joined_tables, original_row
from tidegate.frontend.binding.over_keys import over_keys
from tidegate.frontend.binding.projection import cut
from tidegate.frontend.binding.queries import Context, check, enter
from tidegate.frontend.binding.scope import Scope, find_relation
from tidegate.frontend.binding.window_placement import check_places, group_nodes
from tidegate.frontend.grammar.nodes import StreamOver, WindowClause, span_of
from tidegate.frontend.grammar.source import read_expression, subtree
from tidegate.frontend.reading.parse import ParsedStatement, order_nodes, select_of, streams_of
from tidegate.frontend.reading.windows import window_call
from tidegate.frontend.refusal import Refusal
from tidegate.plan.settings import Settings
from tidegate.plan.statement import (
    Aggregate,
    BoundQuery,
    Expression,
    Relation,
    SelectStmt,
    UserFunction,
)
from tidegate.plan.windows import Sliding


def bind(
    statement: ParsedStatement,
    relations: Sequence[Relation],
    settings: Settings,
    functions: Sequence[UserFunction] = (),
) -> BoundStatement:
    """Return what a statement means, over the streams and tables it may name.

    Args:
        statement: the statement.
        relations: the streams and tables that there are.
        settings: the settings of the transform; its expressions refer to the same rows.
        functions: those that the user registered.

    Raises:
        QueryError: the statement is refused, or an expression in the settings is.
    """
    try:
        reading = read_statement(statement, relations, functions)
        parts = cut(reading.select, statement, reading.cutter)
        _check_own_aggregates(reading.cutter.aggregates.values(), functions)
        items, result_key = with_identity(parts, statement, tuple(reading.cutter.keys.values()))
    except Refusal as refusal:
        raise refusal.error(statement.text, statement.origin) from None
    _check_settings(statement.origin, settings, reading.cutter.scope, reading.context)
    cutter = reading.cutter
    return BoundStatement(
        reading=reading,
        statement=statement,
        source=reading.stream,
        tables=reading.tables,
        keys=tuple(cutter.keys.values()),
        arguments=tuple(cutter.arguments.values()),
        aggregates=tuple(cutter.aggregates.values()),
        items=items,
        having=parts.having,
        order_by=parts.order_by,
        limit=statement.limit,
        star=parts.star,
        joined=joined_tables(reading.select, reading.stream.name),
        original_row=original_row(reading.select, reading.stream.name),
        functions=tuple(functions),
        calls=_bare_calls(reading),
        result_key=result_key,
        shard_of_keys=None if settings.shard is None else over_keys(settings.shard, cutter),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A statement whose names are resolved, still as a tree; ``cutter`` splits it into parts."""

    select: exp.Select
    stream: Relation
    tables: tuple[Relation, ...]
    context: Context
    cutter: Cutter


def read_statement(
    statement: ParsedStatement, relations: Sequence[Relation], own: Sequence[UserFunction] = ()
) -> Reading:
    """Return the tree of a statement, with its names checked; ``own`` functions are the user's.

    Raises:
        Refusal: a name does not exist, or something is in a place where it is not allowed.
    """
    functions = known_functions(own)
    by_name = {relation.name.lower(): relation for relation in relations}
    context = Context(relations=by_name, functions=functions, ctes={})
    source = statement.source
    select = select_of(source)
    stream, tables = _relations(select, context)
    check_places(select, functions)
    context, scope = enter(select, context)
    _check_names(select, scope, context)
    _check_trigger(statement, select)
    partition_by = _partition_by(select)
    cutter = Cutter(source=source, scope=scope, functions=functions, partition_by=partition_by)
    return Reading(select=select, stream=stream, tables=tables, context=context, cutter=cutter)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundStatement(BoundQuery):
    """What a statement means, with the tree that it was cut from."""

    reading: Reading = field(repr=False, compare=False)


def _bare_calls(reading: Reading) -> tuple[Expression, ...]:
    """Return the words that look like columns but are calls, such as ``user``, once each."""
    names = {item.alias.lower() for item in reading.select.expressions if item.alias}
    found = {
        node.name.lower(): reading.cutter.source.expression(node)
        for clause in reading.select.iter_expressions()
        for node in subtree(clause)
        if isinstance(node, exp.Column)
        and node.name.lower() not in names
        and reading.cutter.is_call(node)
    }
    return tuple(found.values())


def _check_own_aggregates(
    aggregates: Collection[Aggregate], functions: Sequence[UserFunction]
) -> None:
    """Refuse a Python aggregate beside others; Spark fails only when the first window closes."""
    python = {each.name for each in functions if each.aggregate and each.python}
    own = [each for each in aggregates if each.function in python]
    if own and len(own) < len(aggregates):
        others = ", ".join(each.text for each in aggregates if each.function not in python)
        raise Refusal(
            f"{own[0].text} is an aggregate in Python, and Spark computes none beside {others}",
            own[0].span,
            "Ask for them in two statements, or write this one in SQL: tg.register_accumulator.",
        )


def _relations(select: exp.Select, context: Context) -> tuple[Relation, tuple[Relation, ...]]:
    """Return the one stream and the tables that a statement reads, wherever they appear in it."""
    stream, tables = None, []
    for name in streams_of(select):
        relation = find_relation(name.sql, name.span, context.relations)
        if not relation.streaming:
            tables += [] if relation in tables else [relation]
        elif stream is None or relation is stream:
            stream = relation
        else:
            raise Refusal(
                f"{stream.name} and {relation.name} are both streams, but a query reads only one",
                name.span,
                "Declare one of them as a table; or, if they have the same columns, read them as "
                "one stream: FROM a UNION ALL b.",
            )
    if stream is None:
        raise Refusal(
            "FROM names no stream, but a query reads one",
            span_of(select.args["from_"]),
            "Name a stream in FROM, and join the tables to it.",
        )
    return stream, tuple(tables)


def _check_names(select: exp.Select, scope: Scope, context: Context) -> None:
    """Check columns, functions and places in the order of the text."""
    aliases = frozenset(
        item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)
    )
    for item in select.expressions:
        check(item, _closing("the select list"), scope, context)
    if select.args.get("where"):
        check(select.args["where"].this, Clause(name="WHERE"), scope, context)
    for node in group_nodes(select):
        if (call := window_call(node)) is None:
            check(node, Clause(name="GROUP BY", aliases=aliases), scope, context)
        else:
            for argument in row_arguments(node, call):
                check(argument, Clause(name=call.name), scope, context)
    if select.args.get("having"):
        check(select.args["having"].this, _closing("HAVING", aliases), scope, context)
    for argument in event_times(select):
        check(argument, Clause(name="ON"), scope, context)
    for ordered in order_nodes(select):
        check(ordered.this, _closing("ORDER BY", aliases), scope, context)


def _closing(name: str, aliases: frozenset[str] = frozenset()) -> Clause:
    """Return a clause that is computed once a window closes."""
    return Clause(name=name, aggregates=True, window_functions=True, aliases=aliases)


def row_arguments(node: exp.Expr, call: exp.Anonymous) -> list[exp.Expr]:
    """Return the arguments of a window that are expressions over a row."""
    name = call.name.lower()
    arguments = call.expressions if name == "statewindow" else call.expressions[:1]
    found = [] if name.endswith("window") and name != "statewindow" else list(arguments)
    if isinstance(node, StreamOver):
        found += node.args.get("partition_by") or []
        found += [node.args["when"]] if node.args.get("when") else []
    return found


def event_times(select: exp.Select) -> list[exp.Expr]:
    """Return the event time that a statement names, in ON or in its WINDOW clause."""
    on, clause = select.args.get("event_time"), select.args.get("windows")
    found = [on.this] if on else []
    if isinstance(clause, WindowClause):
        found += [each.args["expression"] for each in clause.expressions if each.name == "ON"]
    return found


def _partition_by(select: exp.Select) -> list[exp.Expr]:
    return [
        expression
        for node in group_nodes(select)
        if isinstance(node, StreamOver)
        for expression in node.args.get("partition_by") or []
    ]


def _check_trigger(statement: SelectStmt, select: exp.Select) -> None:
    if isinstance(statement.window, Sliding):
        return
    for call in select.find_all(exp.Anonymous):
        if call.name.lower() == "window_trigger":
            raise Refusal(
                "window_trigger() works with slidingwindow only; other windows are not triggered "
                "by one row",
                span_of(call),
                "Write window_start() or window_end().",
            )


def _check_settings(origin: str, settings: Settings, scope: Scope, context: Context) -> None:
    """Check the expressions in the settings that are computed for each row of FROM."""
    for name, text in (("shard", settings.shard), ("dedup_key", settings.dedup_key)):
        if text is None:
            continue
        try:
            tree = read_expression(text).tree
            check(tree, Clause(name=name), scope, context)
        except Refusal as refusal:
            place = (
                origin.removesuffix(".sql") + f".{name}"
                if origin.endswith(".sql")
                else f"setting {name}"
            )
            span = refusal.span if refusal.span.start < len(text) else Span(0, len(text))
            raise QueryError(
                refusal.what, sql=text, span=span, mend=refusal.mend, origin=place
            ) from None
