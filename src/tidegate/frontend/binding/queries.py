"""FROM, WITH and nested queries: the columns they provide, and what they may not do to a stream.

A stream passes through them batch by batch, so they may do to it only what needs one row at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.frontend.binding.clauses import Clause, check_expression
from tidegate.frontend.binding.functions import Functions
from tidegate.frontend.binding.scope import Scope, Table, alias_columns, find_relation
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.reading.parse import table_name
from tidegate.frontend.refusal import Refusal
from tidegate.plan.statement import Column, Relation

_ONE_ROW_AT_A_TIME = "Move it to the outer query, whose window it belongs to."

# The sides of a join that emit rows of the table without a matching row of the stream.
_TABLE_SIDES = {False: ("RIGHT", "FULL"), True: ("LEFT", "FULL")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The meaning of names at the place of a query."""

    relations: Mapping[str, Relation]
    functions: Functions
    ctes: Mapping[str, Table]
    parent: Scope | None = None


def enter(select: exp.Select, context: Context) -> tuple[Context, Scope]:
    """Return what names mean inside a SELECT, having checked its WITH, its FROM and its joins.

    Raises:
        Refusal: a name is not there, or a join or a nested query cannot run on a stream.
    """
    with_ = select.args.get("with_")
    ctes = dict(context.ctes)
    for cte in with_.expressions if with_ else ():
        table = _derived(cte.this, cte.alias, replace(context, ctes=ctes))
        ctes[cte.alias.lower()] = replace(
            table, columns=_renamed(table.columns, alias_columns(cte))
        )
    inside = replace(context, ctes=ctes)
    if select.args.get("from_") is None:
        return inside, Scope(tables=(), parent=context.parent)
    first = select.args["from_"].this
    tables, shared, hidden = [_table(first, inside)], set[str](), list[Table]()
    joins = [*(first.args.get("joins") or []), *(select.args.get("joins") or [])]
    for join in joins:
        joined = _table(join.this, inside)
        _check_join(join, tables, joined)
        shared |= _shared_names(join, tables, joined)
        tables.append(joined)
        hidden += [joined] if join.kind in ("SEMI", "ANTI") else []
    tables += [_table(lateral, inside) for lateral in select.args.get("laterals") or ()]
    joining = Scope(tables=tuple(tables), shared=frozenset(shared), parent=context.parent)
    for join in joins:
        if join.args.get("on") is not None:
            check(join.args["on"], Clause(name="ON"), joining, inside)
    scope = replace(joining, tables=tuple(table for table in tables if table not in hidden))
    return inside, scope


def check(node: exp.Expr, clause: Clause, scope: Scope, context: Context) -> None:
    """Check an expression and the queries nested in it."""
    for query in check_expression(node, clause, scope, context.functions):
        _columns, streaming = _query(query, replace(context, parent=scope))
        if streaming:
            raise Refusal(
                "a subquery in an expression reads a stream, but it may read only tables",
                span_of(query),
                "Read the stream in FROM.",
            )


def _table(node: exp.Expr, context: Context) -> Table:
    name = node.alias_or_name
    pivots = node.args.get("pivots")
    table = _unpivoted_table(node, name, context)
    if pivots and table.streaming:
        raise Refusal(
            "PIVOT aggregates a stream without a window", span_of(pivots[0]), _ONE_ROW_AT_A_TIME
        )
    columns = None if pivots else table.columns
    return replace(table, name=name, columns=_renamed(columns, alias_columns(node)))


def _unpivoted_table(node: exp.Expr, name: str, context: Context) -> Table:
    match node:
        case exp.Table() if isinstance(node.this, exp.Identifier):
            if len(node.parts) == 1 and node.name.lower() in context.ctes:
                return context.ctes[node.name.lower()]
            relation = find_relation(table_name(node), span_of(node.this), context.relations)
            return Table(name=name, columns=relation.columns, streaming=relation.streaming)
        case exp.Subquery() if isinstance(node.this, exp.Table):
            return _table(node.this, context)
        case exp.Subquery():
            return _derived(node.this, name, context)
    return Table(name=name, columns=None, streaming=False)


def _derived(query: exp.Expr, name: str, context: Context) -> Table:
    if not isinstance(query, exp.Query):
        return Table(name=name, columns=None, streaming=False)
    columns, streaming = _query(query, context)
    return Table(name=name, columns=columns, streaming=streaming)


def _query(query: exp.Expr, context: Context) -> tuple[tuple[Column, ...] | None, bool]:
    """Return the columns of a nested query and whether rows of a stream pass through it."""
    match query:
        case exp.Select():
            return _select(query, context)
        case exp.Subquery():
            return _query(query.this, context)
        case exp.SetOperation():
            columns, left = _query(query.this, context)
            _columns, right = _query(query.expression, context)
            if (left or right) and (not isinstance(query, exp.Union) or query.args.get("distinct")):
                raise Refusal(
                    "UNION ALL is the one set operation that works on a stream",
                    span_of(query),
                    "Write UNION ALL.",
                )
            return columns, left or right
    return None, False


def _select(select: exp.Select, context: Context) -> tuple[tuple[Column, ...] | None, bool]:
    inside, scope = enter(select, context)
    aliases = frozenset(
        each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)
    )
    if scope.streaming:
        _refuse_clauses(select)
    # Spark lets an item use the names of the items before it.
    clauses = {"where": Clause(name="WHERE", streaming=scope.streaming)}
    for key in ("group", "having", "qualify", "order"):
        clauses[key] = Clause(
            name=key.upper(), aggregates=True, aliases=aliases, streaming=scope.streaming
        )
    items = Clause(name="a subquery", aliases=aliases, streaming=scope.streaming, generators=True)
    for node in select.expressions:
        check(node, items, scope, inside)
    for key, clause in clauses.items():
        if select.args.get(key) is not None:
            check(select.args[key], clause, scope, inside)
    return _output(select.expressions, scope), scope.streaming


def _refuse_clauses(select: exp.Select) -> None:
    for key, word in (
        ("group", "GROUP BY"),
        ("distinct", "DISTINCT"),
        ("having", "HAVING"),
        ("order", "ORDER BY"),
        ("limit", "LIMIT"),
        ("offset", "OFFSET"),
        ("qualify", "QUALIFY"),
        ("sort", "SORT BY"),
    ):
        clause = select.args.get(key)
        if clause is not None:
            raise Refusal(
                f"{word} in a subquery needs more than one row of a stream",
                span_of(clause),
                _ONE_ROW_AT_A_TIME,
            )


def _output(items: Iterable[exp.Expr], scope: Scope) -> tuple[Column, ...] | None:
    columns: list[Column] = []
    for item in items:
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(item, exp.Star) and not any(item.args.values()):
            if not scope.is_known:
                return None
            columns += [column for table in scope.tables for column in table.columns or ()]
        elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            found = scope.resolve(node).column if not _is_alias(node, scope) else None
            columns.append(Column(name=item.alias_or_name, type=found.type if found else ""))
        elif isinstance(item, exp.Alias):
            columns.append(Column(name=item.alias, type=""))
        else:
            return None
    return tuple(columns)


def _is_alias(node: exp.Column, scope: Scope) -> bool:
    return scope.is_known and len(node.parts) == 1 and not scope.has(node.name)


def _renamed(
    columns: tuple[Column, ...] | None, names: tuple[Column, ...] | None
) -> tuple[Column, ...] | None:
    if names is None:
        return columns
    types = [column.type for column in columns or ()]
    types += [""] * (len(names) - len(types))
    return tuple(
        Column(name=column.name, type=kind) for column, kind in zip(names, types, strict=False)
    )


def _check_join(join: exp.Join, before: list[Table], joined: Table) -> None:
    streams = [table.name for table in before if table.streaming]
    if streams and joined.streaming:
        raise Refusal(
            f"{streams[0]} and {joined.name} are both streams, but a stream can only be joined to "
            "static tables",
            span_of(join),
            "Declare one of them as a table.",
        )
    is_stream = joined.streaming
    kind = join.kind if is_stream and join.kind in ("SEMI", "ANTI") else ""
    side = join.side if (streams or is_stream) and join.side in _TABLE_SIDES[is_stream] else ""
    if kind or side:
        raise Refusal(
            f"{kind or side} JOIN would emit, in every batch, "
            "the rows of a table that match no row of the stream",
            span_of(join),
            "Write FROM stream [LEFT] JOIN table.",
        )


def _shared_names(join: exp.Join, before: list[Table], joined: Table) -> set[str]:
    if join.method == "NATURAL":
        there = {column.name.lower() for table in before for column in table.columns or ()}
        return there & {column.name.lower() for column in joined.columns or ()}
    return {each.name.lower() for each in join.args.get("using") or ()}
