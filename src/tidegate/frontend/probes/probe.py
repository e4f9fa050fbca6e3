"""Parts of a statement as queries that Spark's analyzer can be asked about one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import QueryError, Span
from tidegate.frontend.binding.functions import is_unit_word
from tidegate.frontend.grammar.nodes import place_of, span_of
from tidegate.frontend.grammar.source import Source

# Nodes of the text that are not expressions by themselves.
_NO_EXPRESSIONS = (
    exp.Alias,
    exp.DataType,
    exp.Distinct,
    exp.Identifier,
    exp.Kwarg,
    exp.Lambda,
    exp.Literal,
    exp.Ordered,
    exp.Star,
    exp.Tuple,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A part of a statement that is asked about by itself.

    Attributes:
        query: a SELECT that contains the part; valid if Spark's analyzer resolves it.
        ctes: definitions of a WITH clause before it.
        text: the part as it is written.
        span: where it stands in ``statement``.
        parts: the smaller ones in it, in the order of the text.
        clause: for a condition, the name of its clause; it must be BOOLEAN.
        needs: a query that must be valid for the answer about this part to count.
    """

    query: str
    ctes: tuple[str, ...]
    text: str
    span: Span
    statement: str
    origin: str
    parts: tuple[Probe, ...] = ()
    clause: str | None = None
    needs: str | None = None

    def refused(self, what: str, mend: str) -> QueryError:
        """Return the error about the part."""
        return QueryError(what, sql=self.statement, span=self.span, mend=mend, origin=self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a FROM clause; ``relation`` is empty without one."""

    ctes: tuple[str, ...]
    relation: str

    def select(self, what: str, where: str | None = None) -> str:
        """Return a SELECT over them."""
        source = f" FROM {self.relation}" if self.relation else ""
        return f"SELECT {what}{source}" + (f" WHERE {where}" if where is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    """Makes the probes of a text."""

    source: Source
    origin: str

    def value(self, node: exp.Expr, rows: Rows) -> Probe:
        """Return the probe of an expression over rows."""
        parts = tuple(self._parts(node, rows))
        return self.probe(node, rows.select(self.source.slice(node)), rows.ctes, parts)

    def condition(self, node: exp.Expr, rows: Rows, clause: str) -> Probe:
        """Return the probe of a condition over rows."""
        query = rows.select("1", self.source.slice(node))
        parts = tuple(self._parts(node, rows))
        return self.probe(node, query, rows.ctes, parts, clause)

    def probe(
        self,
        node: exp.Expr,
        query: str,
        ctes: tuple[str, ...],
        parts: tuple[Probe, ...] = (),
        clause: str | None = None,
    ) -> Probe:
        """Return the probe of a node."""
        return Probe(
            query=query,
            ctes=ctes,
            text=" ".join(self.source.slice(node).split()),
            span=span_of(node),
            statement=self.source.text,
            origin=self.origin,
            parts=parts,
            clause=clause,
        )

    def relation(self, select: exp.Select, ctes: tuple[str, ...]) -> tuple[list[Probe], Rows]:
        """Return the probes of WITH and FROM, table by table, and the rows that they provide."""
        probes, ctes = self._with(select, ctes)
        from_ = select.args.get("from_")
        if from_ is None:
            return probes, Rows(ctes=ctes, relation="")
        start = span_of(from_.this).start
        rows = None
        for clause in _tables(select):
            text = self.source.from_text(start, span_of(clause).end)
            joined = Rows(ctes=ctes, relation=text)
            probes.append(self._table(clause, joined, rows))
            rows = joined
        assert rows is not None, "FROM names a table"
        return probes, rows

    def nested(self, node: exp.Expr, ctes: tuple[str, ...]) -> Probe:
        """Return the probe of a query in brackets."""
        while isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            node = node.this
        query = f"SELECT * FROM ({self.source.slice(node)})"
        if isinstance(node, exp.SetOperation):
            before, inner = self._with(node, ctes)
            sides = [self.nested(each, inner) for each in (node.this, node.expression)]
            return self.probe(node, query, ctes, (*before, *sides))
        parts = tuple(self._select(node, ctes)) if isinstance(node, exp.Select) else ()
        return self.probe(node, query, ctes, parts)

    def _with(self, query: exp.Expr, ctes: tuple[str, ...]) -> tuple[list[Probe], tuple[str, ...]]:
        probes = []
        with_ = query.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            probes.append(self.nested(cte.this, ctes))
            ctes = (*ctes, self.source.slice(cte))
        return probes, ctes

    def _table(self, clause: exp.Expr, joined: Rows, before: Rows | None) -> Probe:
        """The probe of one table of FROM, with what is nested in it and its condition."""
        parts = [self.nested(each, joined.ctes) for each in _queries(clause.this)]
        place, on = clause, clause.args.get("on")
        if before is not None and isinstance(clause, exp.Join):
            crossed = f"{before.relation} CROSS JOIN {self.source.slice(clause.this)}"
            if on is not None:
                parts.append(self.value(on, Rows(ctes=joined.ctes, relation=crossed)))
                place = on
        elif before is not None:
            parts += self._parts(clause, before)
        else:
            place = clause.this
        return self.probe(
            place, joined.select("1"), joined.ctes, tuple(parts), "ON" if on is not None else None
        )

    def _select(self, select: exp.Select, ctes: tuple[str, ...]) -> Iterator[Probe]:
        probes, rows = self.relation(select, ctes)
        yield from probes
        for item in select.expressions:
            yield from self._over(item, rows)
        where = select.args.get("where")
        if where is not None:
            yield self.condition(where.this, rows, "WHERE")
        for key in ("group", "having", "qualify", "order"):
            clause = select.args.get(key)
            if clause is not None:
                yield from self._parts(clause, rows)

    def _parts(self, node: exp.Expr, rows: Rows) -> Iterator[Probe]:
        """The probes of the expressions directly in a node."""
        for child in node.iter_expressions():
            yield from self._over(child, rows)

    def _over(self, node: exp.Expr, rows: Rows) -> Iterator[Probe]:
        if isinstance(node, exp.Query):
            yield self.nested(node, rows.ctes)
        elif is_expression(node):
            yield self.value(node, rows)
        else:
            yield from self._parts(node, rows)


def is_expression(node: exp.Expr) -> bool:
    """Whether a node can be computed by itself."""
    if place_of(node) is None or isinstance(node, _NO_EXPRESSIONS) or is_unit_word(node):
        return False
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
        return False
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return False
    return isinstance(node, exp.Condition | exp.Filter)


def _tables(select: exp.Select) -> list[exp.Expr]:
    """FROM, joins and lateral views, in the order of the text."""
    from_ = select.args["from_"]
    joins = [*(from_.this.args.get("joins") or []), *(select.args.get("joins") or [])]
    return [from_, *joins, *(select.args.get("laterals") or [])]


def _queries(table: exp.Expr) -> list[exp.Expr]:
    return [table] if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Query) else []
