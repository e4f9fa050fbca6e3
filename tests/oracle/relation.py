"""The FROM clause: the stream's rows after CTEs and joins with static tables, by nested loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from .aggregates import AGGREGATES
from .built import Built
from .expressions import build
from .parse import Refused, parse_select
from .values import RowError, order_key


@dataclass(frozen=True)
class Field:
    table: str
    name: str
    type: str


@dataclass(frozen=True)
class Frame:
    """Rows with their fields; each row carries the stream's row that it comes from, if any."""

    fields: tuple[Field, ...]
    rows: tuple[tuple[tuple, tuple | None], ...] = ()

    def named(self, table: str) -> Frame:
        return Frame(tuple(Field(table, f.name, f.type) for f in self.fields), self.rows)


@dataclass(frozen=True)
class RowScope:
    """Names in a place where each row is looked at alone; ``place`` is its word in messages."""

    fields: tuple[Field, ...]
    place: str
    null_on_error: bool = False

    def resolve(self, node: exp.Expression) -> Built | None:
        if isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES:
            raise Refused(f"{node.name} is an aggregate and cannot stand in {self.place}")
        if not isinstance(node, exp.Column | exp.Identifier):
            return None
        index = self.index(node)
        if index is None:
            return self.field(node)

        def run(env: tuple) -> object:
            # A failed expression of a CTE fails where its value is used.
            if isinstance(env[index], RowError):
                raise env[index]
            return env[index]

        return Built(self.fields[index].type, run)

    def index(self, node: exp.Expression) -> int | None:
        """The place of a column, or None."""
        table = node.args.get("table")
        for i, known in enumerate(self.fields):
            same_table = table is None or known.table.lower() == table.name.lower()
            if same_table and known.name.lower() == node.name.lower():
                return i
        return None

    def field(self, node: exp.Expression) -> Built:
        """The field of a column that is a STRUCT; its type is not known."""
        table = node.args.get("table")
        index = self.index(table) if table is not None else None
        if index is None:
            raise self.unknown(node)
        return Built("NULL", lambda env: None if env[index] is None else env[index][node.name])

    def unknown(self, node: exp.Expression) -> Refused:
        names = [f.name for f in self.fields]
        near = get_close_matches(node.name, names, 1)
        mend = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(names)}"
        return Refused(f"there is no column {node.name}; {mend}")


def read_relation(ctes: str, relation: str, tables: Mapping[str, Frame]) -> Frame:
    """The frame of a FROM clause over the named tables, of which the stream is one."""
    select = parse_select(f"{'WITH ' + ctes if ctes else ''} SELECT * FROM {relation}")
    known = {name.lower(): frame for name, frame in tables.items()}
    for cte in select.ctes:
        known[cte.alias.lower()] = _select(cte.this, known)
    return _from(select, known)


def _select(select: exp.Select, known: Mapping[str, Frame]) -> Frame:
    frame = _from(select, known)
    scope = RowScope(frame.fields, "WITH")
    rows = frame.rows
    if (where := select.args.get("where")) is not None:
        condition = build(where.this, scope)
        rows = tuple(row for row in rows if condition.run(row[0]) is True)
    fields, columns = [], []
    for item in select.expressions:
        if isinstance(item, exp.Star):
            fields.extend(frame.fields)
            columns.extend(build(exp.column(f.name, table=f.table), scope) for f in frame.fields)
        else:
            built = build(item, scope)
            fields.append(Field("", item.alias_or_name, built.type))
            columns.append(built)
    projected = tuple((tuple(_value(column, row[0]) for column in columns), row[1]) for row in rows)
    return Frame(tuple(fields), projected)


def _value(column: Built, row: tuple) -> object:
    try:
        return column.run(row)
    except RowError as error:
        return error


def _from(select: exp.Select, known: Mapping[str, Frame]) -> Frame:
    source = select.args.get("from_") or select.args.get("from")
    frame = _table(source.this, known)
    for join in select.args.get("joins") or []:
        frame = _join(frame, _table(join.this, known), join)
    return frame


def _table(node: exp.Expression, known: Mapping[str, Frame]) -> Frame:
    if isinstance(node, exp.Subquery):
        return _select(node.this, known).named(node.alias)
    if node.name.lower() not in known:
        near = get_close_matches(node.name.lower(), known, 1)
        mend = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise Refused(f"there is no stream or table {node.name}; {mend}")
    return known[node.name.lower()].named(node.alias_or_name)


def _join(left: Frame, right: Frame, join: exp.Join) -> Frame:
    fields = left.fields + right.fields
    condition = build(join.args["on"], RowScope(fields, "ON")) if join.args.get("on") else None
    using = [name.name for name in join.args.get("using") or []]
    pairs = [
        (
            RowScope(left.fields, "USING").index(exp.column(n)),
            RowScope(right.fields, "USING").index(exp.column(n)),
        )
        for n in using
    ]

    def match(a: tuple, b: tuple) -> bool:
        if pairs:
            return all(a[i] is not None and order_key(a[i]) == order_key(b[j]) for i, j in pairs)
        return condition is None or condition.run(a + b) is True

    rows = []
    for a, origin in left.rows:
        found = [(a + b, origin or other) for b, other in right.rows if match(a, b)]
        if not found and join.side == "LEFT":
            found = [(a + (None,) * len(right.fields), origin)]
        rows.extend(found)
    return Frame(fields, tuple(rows))
