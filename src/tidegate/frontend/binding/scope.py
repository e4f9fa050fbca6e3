"""The columns of FROM: their names, and which of them belong to a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp
from sqlglot.errors import ParseError

from tidegate.errors import Span
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.guards import KnownTypes, known_types
from tidegate.frontend.reading.foreign import FOREIGN_NAMES
from tidegate.frontend.refusal import Refusal
from tidegate.names import listed, path, quoted, suggestion
from tidegate.plan.statement import Column, Relation

# Words that Spark reads as a call if there is no column of that name.
_LITERAL_FUNCTIONS = (
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtimestamp",
    "session_user",
    "user",
)
# The hidden column of Spark's file sources.
_HIDDEN_COLUMN = "_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One source of rows under one name; the type '' of a column means that it is unknown."""

    name: str
    columns: tuple[Column, ...] | None
    streaming: bool

    def column(self, name: str) -> Column | None:
        """Return the column of a name, case aside."""
        return next(
            (each for each in self.columns or () if each.name.lower() == name.lower()), None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A column, or a field in one, that a name means.

    Attributes:
        parts: the number of its table, its name and those of fields, in lower case: the same for
            all ways to write it. A word that Spark takes for a call, such as ``user``, has itself.
        column: the column; None: it is not known, or a field is meant.
    """

    parts: tuple[str, ...]
    column: Column | None

    @property
    def identity(self) -> str:
        """The parts as one text."""
        return path(*self.parts)

    @property
    def is_call(self) -> bool:
        """Whether Spark reads the word as a call."""
        return len(self.parts) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StarColumn:
    """A column that ``*`` stands for: its name, its text over FROM, and its identity."""

    name: str
    sql: str
    identity: str


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The tables of one FROM clause; ``shared`` are the columns of USING and NATURAL joins."""

    tables: tuple[Table, ...]
    shared: frozenset[str] = frozenset()
    parent: Scope | None = None

    @property
    def streaming(self) -> bool:
        """Whether one of the tables is a stream."""
        return any(table.streaming for table in self.tables)

    @property
    def is_known(self) -> bool:
        """Whether the columns of every table are known."""
        return all(table.columns is not None for table in self.tables)

    def has(self, name: str) -> bool:
        """Whether a column of this name is known."""
        return any(table.column(name) for table in self.tables)

    def column_names(self) -> list[str]:
        """Return the names of all known columns."""
        return [column.name for table in self.tables for column in table.columns or ()]

    @cached_property
    def types(self) -> KnownTypes:
        """The types of columns by ``path``, with and without the name of their table."""
        found: dict[str, str | None] = {}
        for table in self.tables:
            for column in table.columns or ():
                name = path(column.name)
                found[path(table.name, column.name)] = column.type or None
                found[name] = None if name in found else column.type or None
        return known_types(found)

    def resolve(self, node: exp.Column) -> Resolved:
        """Return the column that a name means.

        Raises:
            Refusal: there is no such column, or there are two.
        """
        parts = [part.name for part in node.parts]
        found = self._find(node, parts)
        if found is not None:
            return found
        if self.parent is not None:
            return self.parent.resolve(node)
        if len(parts) == 1 and parts[0].lower() in _LITERAL_FUNCTIONS:
            return Resolved(parts=(parts[0].lower(),), column=None)
        raise self._missing(node, parts)

    def star(self, qualifier: str | None) -> tuple[StarColumn, ...] | None:
        """Return the columns that ``*`` or ``qualifier.*`` stands for, None when not known."""
        wanted = [
            (index, table)
            for index, table in enumerate(self.tables)
            if qualifier is None or table.name.lower() == qualifier.lower()
        ]
        if not wanted or any(table.columns is None for _, table in wanted):
            return None
        shared: dict[str, StarColumn] = {}
        own: list[StarColumn] = []
        for index, table in wanted:
            for column in table.columns or ():
                name = column.name.lower()
                is_shared = qualifier is None and name in self.shared
                prefix = f"{quoted(table.name)}." if len(self.tables) > 1 and not is_shared else ""
                found = StarColumn(
                    name=column.name,
                    sql=prefix + quoted(column.name),
                    identity=path(str(index), name),
                )
                if is_shared:
                    shared.setdefault(name, found)
                else:
                    own.append(found)
        return (*shared.values(), *own)

    def _find(self, node: exp.Column, parts: list[str]) -> Resolved | None:
        for index, table in enumerate(self.tables):
            if len(parts) > 1 and table.name.lower() == parts[0].lower():
                column = table.column(parts[1])
                if (
                    column is None
                    and table.columns is not None
                    and parts[1].lower() != _HIDDEN_COLUMN
                ):
                    raise _no_column(
                        node, parts[1], [each.name for each in table.columns], table.name
                    )
                return self._resolved(node, index, column, parts[1:])
        holders = [
            (i, found) for i, table in enumerate(self.tables) if (found := table.column(parts[0]))
        ]
        if len(holders) > 1 and parts[0].lower() not in self.shared:
            names = [self.tables[index].name for index, _ in holders]
            raise Refusal(
                f"column {parts[0]} is in {listed(names)}",
                span_of(node),
                f"Write {names[0]}.{parts[0]} or {names[1]}.{parts[0]}.",
            )
        if holders:
            index, column = holders[0]
            return self._resolved(node, index, column, parts)
        if not self.is_known or parts[0].lower() == _HIDDEN_COLUMN:
            index = 0 if len(self.tables) == 1 else -1
            return self._resolved(node, index, None, parts)
        return None

    def _resolved(
        self, node: exp.Column, index: int, column: Column | None, parts: list[str]
    ) -> Resolved:
        if column is not None:
            _check_fields(node, column, parts[1:])
        names = (str(index), *(part.lower() for part in parts))
        return Resolved(parts=names, column=column if len(parts) == 1 else None)

    def _missing(self, node: exp.Column, parts: list[str]) -> Refusal:
        names = [table.name for table in self.tables]
        if len(parts) > 1 and not self.has(parts[0]):
            return Refusal(
                f"there is no table, stream or column {parts[0]}",
                span_of(node),
                suggestion(
                    parts[0],
                    [*names, *self.column_names()],
                    otherwise=f"FROM has {listed(names)}.",
                ),
            )
        return _no_column(node, parts[0], self.column_names(), listed(names))


def alias_columns(node: exp.Expr) -> tuple[Column, ...] | None:
    """Return the columns that a table alias names, e.g. ``AS t(a, b)``, or None."""
    alias = node.args.get("alias")
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return tuple(Column(name=each.name, type="") for each in columns) if columns else None


def find_relation(name: str, span: Span, relations: Mapping[str, Relation]) -> Relation:
    """Return the stream or table of a name.

    Raises:
        Refusal: there is none.
    """
    relation = relations.get(name.lower())
    if relation is None:
        known = [each.name for each in relations.values()]
        raise Refusal(
            f"there is no stream or table {name}",
            span,
            suggestion(
                name,
                known,
                otherwise=f"There are {listed(known)}." if known else "None is declared.",
            ),
        )
    return relation


def _no_column(node: exp.Column, name: str, known: list[str], place: str) -> Refusal:
    return Refusal(
        f"there is no column {name} in {place}",
        span_of(node),
        FOREIGN_NAMES.get(name.lower())
        or suggestion(
            name,
            known,
            otherwise=f"The columns are {listed(known)}." if known else "It has no columns.",
        ),
    )


def _check_fields(node: exp.Column, column: Column, fields: list[str]) -> None:
    kind = _data_type(column.type)
    for field in fields:
        if kind is not None and kind.this == exp.DType.ARRAY and kind.expressions:
            kind = kind.expressions[0]
        if not isinstance(kind, exp.DataType) or kind.this != exp.DType.STRUCT:
            return
        by_name = {each.name.lower(): each for each in kind.expressions}
        if field.lower() not in by_name:
            raise _no_column(node, field, [each.name for each in kind.expressions], column.name)
        kind = by_name[field.lower()].args.get("kind")


def _data_type(text: str) -> exp.DataType | None:
    try:
        return exp.DataType.from_str(text, dialect="spark") if text else None
    except ParseError:
        return None
