"""What a statement means over its source: keys, aggregates, conditions and results as functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from .aggregates import AGGREGATES, aggregate
from .built import Built, constant
from .expressions import build
from .kinds import Sliding, State
from .parse import Refused, parse_items, parse_scalar, parse_select
from .relation import Field, Frame, RowScope, read_relation
from .statement import Statement, read_statement
from .values import RowError

WINDOW_FUNCTIONS = {
    "window_start": "TIMESTAMP",
    "window_end": "TIMESTAMP",
    "window_trigger": "TIMESTAMP",
    "window_id": "STRING",
    "emit_epoch": "BIGINT",
    "is_final": "BOOLEAN",
}

# Aggregates for which whole rows are kept to the close, so that max_rows_per_group bounds them.
KEEPS_ROWS = ("collect_list", "collect_set", "array_agg", "deduplicate")


@dataclass(frozen=True)
class Call:
    """An aggregate of the statement."""

    name: str
    args: tuple[Built, ...]
    distinct: bool
    filter: Built | None

    def values(self, row: tuple) -> tuple | None:
        """The argument values of a row, None when FILTER leaves it out."""
        if self.filter is not None and self.filter.run(row) is not True:
            return None
        return tuple(arg.run(row) for arg in self.args)

    def compute(self, rows: list[tuple]) -> object:
        chosen = [values for row in rows if (values := self.values(row)) is not None]
        kinds = [arg.type for arg in self.args]
        return aggregate(self.name, chosen, kinds, distinct=self.distinct)


@dataclass(frozen=True)
class GroupEnv:
    """A group of a closed window: what results are computed from. ``row`` is for row queries."""

    keys: tuple = ()
    partition: tuple = ()
    results: tuple = ()
    row: tuple = ()
    window: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class OrderItem:
    value: Built
    descending: bool
    nulls_first: bool


@dataclass
class GroupScope:
    """Names in SELECT, HAVING and ORDER BY; ``calls`` collects the aggregates found there."""

    query: Query
    aliases_first: bool = False

    @property
    def null_on_error(self) -> bool:
        return self.query.rows.null_on_error

    def resolve(self, node: exp.Expression) -> Built | None:
        query = self.query
        text = query.canonical(node)
        if (
            isinstance(node, exp.Column)
            and self.aliases_first
            and node.name.lower() in query.aliases
        ):
            return query.aliases[node.name.lower()]
        for name in ("keys", "partition"):
            texts = [key for key, _ in getattr(query, name)]
            if text in texts:
                return _element(name, texts.index(text), getattr(query, name))
        if (found := query.aggregate_call(node)) is not None:
            index, kind = found
            return Built(kind, lambda env: _result(env.results[index]))
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name in WINDOW_FUNCTIONS:
            if name == "window_trigger" and not isinstance(query.statement.window, Sliding):
                raise Refused("window_trigger() is for sliding windows only")
            return Built(WINDOW_FUNCTIONS[name], lambda env: env.window.get(name))
        return self._column(node) if isinstance(node, exp.Column) else None

    def _column(self, node: exp.Column) -> Built:
        query = self.query
        if query.is_row_query:
            inner = query.rows.resolve(node)
            assert inner is not None
            return Built(inner.type, lambda env: inner.run(env.row))
        if query.rows.index(node) is None:
            if node.name.lower() in query.aliases:
                return query.aliases[node.name.lower()]
            raise query.rows.unknown(node)
        raise Refused(f"{node.name} is neither aggregated nor a key of GROUP BY")


class Query:
    """A statement over a source; every attribute is a plain function of a row or of a group."""

    def __init__(self, sql: str, tables: Mapping[str, Frame], *, null_on_error: bool) -> None:
        self.statement: Statement = read_statement(sql)
        self.tables = tables
        self.rows = RowScope(self.relation(tables).fields, "WHERE", null_on_error)
        self.calls: list[Call] = []
        self._call_texts: dict[str, int] = {}
        self.aliases: dict[str, Built] = {}
        self.keys: list[tuple[str, Built]] = []
        self.partition: list[tuple[str, Built]] = []

        trees = parse_items(self.statement.items)
        self.where = self.condition(self.statement.where, "WHERE") if self.statement.where else None
        self._read_keys(trees)
        having = parse_scalar(self.statement.having) if self.statement.having else None
        order = (
            parse_select(f"SELECT 1 ORDER BY {self.statement.order}").args["order"].expressions
            if self.statement.order
            else []
        )
        has_aggregate = any(map(_has_aggregate, [*trees, having, *order]))
        self.is_row_query = not self.keys and not has_aggregate
        self.columns: list[Field] = []
        self.items: list[Built] = []
        self._read_items(trees)
        if self.statement.early_us is not None and not any(map(_is_final, trees)):
            self._read_items([exp.alias_(exp.Anonymous(this="is_final"), "is_final")])
        scope = GroupScope(self)
        self.having = build(having, scope) if having is not None else None
        sorting = GroupScope(self, aliases_first=True)
        self.order = [
            OrderItem(
                build(item.this, sorting),
                bool(item.args.get("desc")),
                bool(item.args.get("nulls_first")),
            )
            for item in order
        ]
        self._read_window()

    @property
    def keeps_rows(self) -> bool:
        return self.is_row_query or any(call.name in KEEPS_ROWS for call in self.calls)

    def relation(self, tables: Mapping[str, Frame]) -> Frame:
        return read_relation(self.statement.ctes, self.statement.relation, tables)

    def scalar(self, text: str, place: str) -> Built:
        """An expression over the source's rows."""
        return build(parse_scalar(text), RowScope(self.rows.fields, place, self.rows.null_on_error))

    def condition(self, text: str, place: str) -> Built:
        built = self.scalar(text, place)
        if built.type not in ("BOOLEAN", "NULL"):
            raise Refused(f"{place} must be BOOLEAN, found {text} of type {built.type}")
        return built

    def canonical(self, node: exp.Expression) -> str:
        """One text for expressions that mean the same: columns by their place."""

        def plain(part: exp.Expression) -> exp.Expression:
            if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
                index = self.rows.index(part)
                return part if index is None else exp.Var(this=f"#{index}")
            if isinstance(part, exp.Anonymous):
                part.set("this", part.name.lower())
            return part

        return node.copy().transform(plain).sql(dialect="spark")

    def aggregate_call(self, node: exp.Expression) -> tuple[int, str] | None:
        """The index of an aggregate call and its type, None for other nodes."""
        inner, condition, skip = node, None, False
        if isinstance(inner, exp.Filter):
            inner, condition = inner.this, inner.expression.this
        if isinstance(inner, exp.IgnoreNulls):
            inner, skip = inner.this, True
        if isinstance(inner, exp.Any):
            inner = exp.Anonymous(this="any", expressions=[inner.this])
        if not isinstance(inner, exp.Anonymous) or inner.name.lower() not in AGGREGATES:
            return None
        name, args = inner.name.lower(), list(inner.expressions)
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            args = args[0].expressions
        scope = RowScope(self.rows.fields, f"the arguments of {name}", self.rows.null_on_error)
        built = [build(arg, scope) for arg in args if not isinstance(arg, exp.Star)]
        if skip:
            built.append(constant(True, "BOOLEAN"))
        if name == "count_if" or condition is not None:
            self._check_boolean(condition if condition is not None else args[0], scope)
        call = Call(
            name, tuple(built), distinct, build(condition, scope) if condition is not None else None
        )
        text = self.canonical(node)
        if text not in self._call_texts:
            self._call_texts[text] = len(self.calls)
            self.calls.append(call)
        kinds = [b.type for b in built]
        return self._call_texts[text], AGGREGATES[name].type(kinds or ["NULL"])

    def _check_boolean(self, node: exp.Expression, scope: RowScope) -> None:
        kind = build(node, scope).type
        if kind not in ("BOOLEAN", "NULL"):
            raise Refused(
                f"a condition must be BOOLEAN, found {node.sql(dialect='spark')} of type {kind}"
            )

    def _read_keys(self, trees: list[exp.Expression]) -> None:
        names = {tree.alias.lower(): tree.this for tree in trees if isinstance(tree, exp.Alias)}
        for text in self.statement.keys:
            node = parse_scalar(text)
            if isinstance(node, exp.Literal) and not node.is_string:
                node = trees[int(node.this) - 1].unalias()
            elif isinstance(node, exp.Column) and self.rows.index(node) is None:
                node = names.get(node.name.lower(), node)
            scope = RowScope(self.rows.fields, "GROUP BY", self.rows.null_on_error)
            self.keys.append((self.canonical(node), build(node, scope)))
        for text in getattr(self.statement.window, "partition", ()):
            self.partition.append(
                (self.canonical(parse_scalar(text)), self.scalar(text, "PARTITION BY"))
            )

    def _read_items(self, trees: list[exp.Expression]) -> None:
        scope = GroupScope(self)
        for i, tree in enumerate(trees):
            if isinstance(tree, exp.Star) or (
                isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)
            ):
                if not self.is_row_query:
                    raise Refused("SELECT * shows rows and cannot stand beside keys or aggregates")
                table = tree.args.get("table")
                for known in self.rows.fields:
                    if table is None or known.table.lower() == table.name.lower():
                        column = exp.column(known.name, table=known.table or None)
                        self.columns.append(known)
                        self.items.append(build(column, scope))
                continue
            built = build(tree, scope)
            name = tree.alias_or_name or f"col{i}"
            self.columns.append(Field("", name, built.type))
            self.items.append(built)
            if isinstance(tree, exp.Alias):
                self.aliases[tree.alias.lower()] = built

    def _read_window(self) -> None:
        self.conditions: dict[str, Built] = {}
        window = self.statement.window
        if isinstance(window, State):
            self.conditions["open"] = self.condition(
                window.open, "the first condition of statewindow"
            )
            self.conditions["emit"] = self.condition(
                window.emit, "the second condition of statewindow"
            )
        if isinstance(window, Sliding) and window.when is not None:
            self.conditions["when"] = self.condition(window.when, "WHEN")

    def check_row(self, row: tuple) -> None:
        """Evaluate all that the statement computes for a row; raises RowError."""
        for built in (
            *(b for _, b in self.keys),
            *(b for _, b in self.partition),
            *self.conditions.values(),
        ):
            built.run(row)
        for call in self.calls:
            call.values(row)
        if self.is_row_query:
            partition = tuple(built.run(row) for _, built in self.partition)
            env = GroupEnv(partition=partition, row=row)
            for item in self.items:
                item.run(env)


def _element(name: str, index: int, known: list[tuple[str, Built]]) -> Built:
    """A group key or partition key."""
    return Built(known[index][1].type, lambda env: getattr(env, name)[index])


def _result(value: object) -> object:
    """The result of an aggregate; one that failed fails where it is used."""
    if isinstance(value, RowError):
        raise value
    return value


def _is_final(item: exp.Expression) -> bool:
    call = item.unalias()
    return isinstance(call, exp.Anonymous) and call.name.lower() == "is_final"


def _has_aggregate(node: exp.Expression | None) -> bool:
    if node is None:
        return False
    return any(
        isinstance(part, exp.Any)
        or (isinstance(part, exp.Anonymous) and part.name.lower() in AGGREGATES)
        for part in node.walk()
    )
