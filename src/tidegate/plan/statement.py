"""A statement as data: its syntax (``SelectStmt``) and its meaning (``BoundQuery``).

``frontend/reading/parse.py`` makes the first from text, ``frontend/binding/bind.py`` the second
from the first and the schemas. Expressions are Spark SQL text. In a ``BoundQuery``, expressions
computed for each row use the source's columns; those computed for each window use only these names:

    _k0, _k1 ..      the group keys              _start, _end     the window's bounds (TIMESTAMP)
    _a0, _a1 ..      the aggregates' results     _id              window_id() (STRING)
    _x0, _x1 ..      row values (row queries)    _trigger         window_trigger() (TIMESTAMP)
                                                 _epoch           emit_epoch() (BIGINT)
                                                 _final           is_final() (BOOLEAN)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import Span
from tidegate.plan.upstream import Upstream
from tidegate.plan.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One expression: Spark SQL text and its place in the statement."""

    sql: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFunction:
    """A function that the user registered in the Spark session; the name is in lower case.

    Spark cannot compute Python aggregates together with others.
    """

    name: str
    aggregate: bool = False
    python: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectItem:
    """One item of the select list; ``alias`` is None if it has none."""

    expression: Expression
    alias: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderItem:
    """One item of ORDER BY, with its null order (Spark's default: first if ascending)."""

    expression: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkClause:
    """The values of ``WATERMARK (..)`` or the WINDOW clause; None if left out."""

    lag_us: int | None
    lateness_us: int | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyClause:
    """``EMIT EARLY EVERY ..``: how much of the clock passes between provisional results."""

    every_us: int
    span: Span


_SUBQUERY = re.compile(r"\(\s*(SELECT|WITH|FROM|TABLE|VALUES)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """WITH ('' if there is none) and FROM with its joins, as Spark SQL text."""

    ctes: str
    relation: str

    @property
    def named_ctes(self) -> tuple[str, ...]:
        """The named queries of WITH as one text, to combine with others; or nothing."""
        text = self.ctes.strip()[len("WITH ") :]
        return (text,) if text else ()

    def is_only(self, name: str) -> bool:
        """Whether FROM is nothing but this name."""
        return not self.ctes and self.relation.strip().strip("`").lower() == name.lower()

    @property
    def hides_sources(self) -> bool:
        """Whether WITH or a subquery hides the sources' own columns."""
        return bool(self.ctes) or self.relation.lstrip().startswith("(")

    @property
    def has_queries(self) -> bool:
        """Whether there is a query in it, which gives only the columns that it selects."""
        return bool(self.ctes) or _SUBQUERY.search(self.relation) is not None

    @property
    def is_derived(self) -> bool:
        """Whether there may be computed columns, whose types only Spark knows."""
        return bool(self.ctes) or "(" in self.relation


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectStmt:
    """A parsed statement.

    ``window`` is the one window, ``group_by_exprs`` the rest of GROUP BY, in order. ``relation`` is
    the FROM clause with its joins, ``ctes`` the WITH clause, both as Spark SQL text ('' if there
    is none), ``hint`` the hint of SELECT with its ``/*+ */``; ``streams`` are the names in FROM,
    joins and CTEs that are not CTEs themselves, ``united`` those of them that FROM reads as one.
    """

    text: str
    origin: str
    ctes: str
    relation: str
    streams: tuple[Expression, ...]
    items: tuple[SelectItem, ...]
    where: Expression | None
    window: Window | None
    window_span: Span | None
    event_time: Expression | None
    watermark: WatermarkClause | None
    emit_on_close: bool
    group_by_exprs: tuple[Expression, ...]
    having: Expression | None
    order_by: tuple[OrderItem, ...]
    limit: int | None
    hint: str = ""
    early: EarlyClause | None = None
    united: tuple[str, ...] = ()

    @property
    def from_clause(self) -> From:
        """WITH and FROM."""
        return From(ctes=self.ctes, relation=self.relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a stream or table: its name and Spark SQL type as DDL, e.g. ``DECIMAL(10,2)``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A stream or static table that statements can use.

    Attributes:
        columns: its columns; None if they are not known yet.
        malformed: whether its rows have the hidden column ``MALFORMED``, which is not in
            ``columns``.
        united: whether it unites several streams; its rows then have the hidden column ``SOURCE``.
        members: the names of these streams, as far as the statement or the pipeline names them.
        upstream: the transform whose results it is, with the hidden column ``WINDOW_TIME``.
    """

    name: str
    columns: tuple[Column, ...] | None
    streaming: bool = True
    malformed: bool = False
    united: bool = False
    members: tuple[str, ...] = ()
    upstream: Upstream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A value computed for each source row: column ``name``, e.g. ``_x0``.

    Equal expressions share one. ``type`` is set if the declared types of columns determine it.
    """

    name: str
    expression: Expression
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A group key: column ``name``, e.g. ``_k0``."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate call: column ``name``, e.g. ``_a0``, shared by equal calls.

    ``function`` is the name in lower case, aliases resolved (``last_row`` is ``last``). ``args``
    are argument columns (``_x0``) or constants as SQL text; none for ``count(*)``. ``filter`` is an
    argument column. ``text`` is the call as written.
    """

    name: str
    function: str
    args: tuple[str, ...]
    distinct: bool
    filter: str | None
    text: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputItem:
    """A column of the result: its name and its expression over the names of a closed window."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundQuery:
    """A checked statement with resolved names.

    ``star``: the select list has a ``*`` that cannot be expanded because the stream's columns are
    not known yet (such a query can be explained, but not started). A query without keys and
    aggregates is a row query: its ``items`` use ``_x*`` and the window's names. ``joined`` are the
    names in FROM of the tables joined to the stream, ``original_row`` is the SQL for all columns of
    the stream's row there (``s.*``), ``functions`` are all that the user registered,
    ``calls`` the words that Spark takes for calls because no column has the name, e.g. ``user``.
    ``result_key`` are the columns that identify a result, the window's id and the keys; only EMIT
    EARLY needs them. ``shard_of_keys`` is the setting ``shard`` over the keys, None if it needs
    more than them.
    """

    statement: SelectStmt
    source: Relation
    tables: tuple[Relation, ...]
    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    aggregates: tuple[Aggregate, ...]
    items: tuple[OutputItem, ...]
    having: Expression | None
    order_by: tuple[OrderItem, ...]
    limit: int | None
    star: bool = False
    joined: tuple[str, ...] = ()
    original_row: str = "*"
    calls: tuple[Expression, ...] = ()
    functions: tuple[UserFunction, ...] = ()
    result_key: tuple[str, ...] = ()
    shard_of_keys: str | None = None

    @property
    def is_row_query(self) -> bool:
        """Whether the result has the rows themselves, not groups."""
        return not self.keys and not self.aggregates
