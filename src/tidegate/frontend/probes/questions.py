"""The questions to Spark's analyzer about a statement: the whole, then each part by itself.

Only Spark can check types, and its positions refer to our generated SQL. So each expression is
checked alone, then its parts, until the smallest failing one is found; the caret points to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.frontend.binding.bind import BoundStatement, Reading, event_times, row_arguments
from tidegate.frontend.binding.projection import Writer
from tidegate.frontend.binding.window_placement import group_nodes
from tidegate.frontend.grammar.nodes import StreamOver, place_of
from tidegate.frontend.grammar.source import read_expression
from tidegate.frontend.probes.probe import Probe, Prober, Rows, is_expression
from tidegate.frontend.reading.parse import order_nodes
from tidegate.frontend.reading.windows import window_call
from tidegate.frontend.refusal import Refusal
from tidegate.plan.aggregates.planned import row_aggregate
from tidegate.plan.columns import ORDER, TIME
from tidegate.plan.statement import Aggregate, BoundQuery, Expression

# The names of a closed window, with a value of their type.
_WINDOW = (
    "timestamp_micros(0L) AS _start, timestamp_micros(0L) AS _end, timestamp_micros(0L) AS "
    "_trigger, '' AS _id, 0L AS _epoch"
)
_NAME = re.compile(r"_[akx]\d+|_start|_end|_trigger|_id|_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What is asked: ``whole``, a SELECT that is valid if every part is, and the parts.

    ``event_time`` is the expression that the statement names as its event time, ``keys`` are the
    group keys and those of PARTITION BY. ``words`` are what a user wrote for the names in the
    queries.
    """

    whole: str
    rows: Rows
    parts: tuple[Probe, ...]
    event_time: Probe | None
    keys: tuple[Probe, ...]
    words: dict[str, str]


def questions(bound: BoundStatement, time: str | None) -> Questions:
    """Return what Spark's analyzer is asked about a statement that is bound.

    Args:
        bound: the statement.
        time: the text that makes microseconds of its event time; None: it has none.
    """
    reading = bound.reading
    prober = Prober(source=reading.cutter.source, origin=bound.statement.origin)
    probes, rows = prober.relation(reading.select, ())
    asking = _Asking(bound=bound, reading=reading, prober=prober, rows=rows, time=time or "NULL")
    times = [prober.value(node, rows) for node in event_times(reading.select)]
    conditions = list(asking.conditions())
    return Questions(
        whole=asking.whole([each.query for each in conditions]),
        rows=rows,
        parts=(*probes, *conditions, *asking.values(), *times, *asking.closing()),
        event_time=times[0] if times else None,
        keys=tuple(asking.keys()),
        words=asking.words(),
    )


def setting_probe(name: str, text: str, rows: Rows) -> Probe:
    """Return the probe of an expression in a setting."""
    source = read_expression(text)
    return Prober(source=source, origin=f"setting {name}").value(source.tree, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """A statement that is being asked about, over the rows of its FROM clause."""

    bound: BoundQuery
    reading: Reading
    prober: Prober
    rows: Rows
    time: str

    def conditions(self) -> Iterator[Probe]:
        """WHERE, the conditions of the window, those of FILTER."""
        select = self.reading.select
        if select.args.get("where"):
            yield self.prober.condition(select.args["where"].this, self.rows, "WHERE")
        for node in group_nodes(select):
            call = window_call(node)
            if call is None:
                continue
            partition = node.args.get("partition_by") if isinstance(node, StreamOver) else None
            for argument in row_arguments(node, call):
                if any(argument is each for each in partition or ()):
                    yield self.prober.value(argument, self.rows)
                elif call.name.lower().endswith("window"):
                    yield self.prober.condition(argument, self.rows, call.name.lower())
        for name in dict.fromkeys(each.filter for each in self.bound.aggregates if each.filter):
            filter_ = self._node(self._expressions[name])
            if filter_ is not None:
                yield self.prober.condition(filter_, self.rows, "FILTER")

    def keys(self) -> Iterator[Probe]:
        """Group keys, and the keys of PARTITION BY."""
        nodes = [self._node(key.expression) for key in self.bound.keys]
        for window in group_nodes(self.reading.select):
            if isinstance(window, StreamOver):
                nodes += window.args.get("partition_by") or []
        yield from (self.prober.value(node, self.rows) for node in nodes if node is not None)

    def values(self) -> Iterator[Probe]:
        """Group keys and the arguments of aggregates."""
        keys = [key.name for key in self.bound.keys]
        for name, expression in self._expressions.items():
            node = self._node(expression)
            if node is not None:
                probe = self.prober.value(node, self.rows)
                grouped = f"{self.rows.select('1')} GROUP BY {expression.sql}"
                yield replace(probe, query=grouped) if name in keys else probe

    def closing(self) -> Iterator[Probe]:
        """Aggregates, and what is computed once a window closes."""
        for aggregate in self.bound.aggregates:
            yield self._aggregate(aggregate)
        select = self.reading.select
        is_grouped = not self.bound.is_row_query
        writer = Writer(self.reading.cutter, select.expressions, is_grouped=is_grouped)
        closed = f"SELECT 1 FROM ({self._closed()})"
        having = select.args.get("having")
        probes = [*self._over(select, writer.item, select.expressions)]
        if having is not None:
            found = self._over(having, writer.having, [having.this])
            probes += [replace(each, clause="HAVING") for each in found]
        for ordered in order_nodes(select):
            probes += self._over(ordered, writer.order, [ordered.this])
        yield from (replace(each, needs=closed) for each in probes)

    def whole(self, conditions: Sequence[str]) -> str:
        """Return one SELECT with all that is computed; it never runs."""
        bound = self.bound
        named = enumerate(item.expression.sql for item in bound.items)
        items = ", ".join(f"{text} AS c{place}" for place, text in named)
        having = f" WHERE {bound.having.sql}" if bound.having is not None else ""
        order = ", ".join(item.expression.sql for item in bound.order_by)
        having += f" ORDER BY {order}" if order else ""
        asked = "".join(f" UNION ALL {each}" for each in conditions)
        results = f"SELECT {items or '1 AS c'} FROM ({self._closed()}){having}"
        return f"SELECT 1 FROM ({results}){asked}"

    def words(self) -> dict[str, str]:
        """What the user wrote, by the names that our queries use."""
        written = {each.name: each.text for each in self.bound.aggregates}
        return written | {name: each.sql for name, each in self._expressions.items()}

    @property
    def _expressions(self) -> dict[str, Expression]:
        keys = {key.name: key.expression for key in self.bound.keys}
        return keys | {each.name: each.expression for each in self.bound.arguments}

    def _node(self, expression: Expression) -> exp.Expr | None:
        """The node of an expression of the statement; None for a column that * stands for."""
        place = (expression.span.start, expression.span.end)
        if self.reading.cutter.source.text[slice(*place)] != expression.sql:
            return None
        for node in self.reading.select.walk(bfs=True):
            if place_of(node) == place:
                return node
        return None

    def _closed(self) -> str:
        """The SELECT of closed windows: keys, aggregates, and the names of a window."""
        bound = self.bound
        columns = [f"{each.sql} AS {name}" for name, each in self._expressions.items()]
        columns += [f"({self.time}) AS {TIME}", f"named_struct('t', 0L) AS {ORDER}"]
        rows = self.rows.select(", ".join(columns))
        if bound.is_row_query:
            return f"SELECT *, {_WINDOW} FROM ({rows})"
        keys = [key.name for key in bound.keys]
        values = [f"{row_aggregate(each)} AS {each.name}" for each in bound.aggregates]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        groups = f"SELECT {', '.join([*keys, *values])} FROM ({rows}){grouped}"
        return f"SELECT *, {_WINDOW} FROM ({groups})"

    def _aggregate(self, aggregate: Aggregate) -> Probe:
        """The probe of an aggregate, as Spark's own function."""
        written = self._expressions
        args = [written[each].sql if each in written else each for each in aggregate.args]
        given = ", ".join(args) or "*"
        call = f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{given})"
        return Probe(
            query=self.rows.select(call),
            ctes=self.rows.ctes,
            text=" ".join(aggregate.text.split()),
            span=aggregate.span,
            statement=self.bound.statement.text,
            origin=self.bound.statement.origin,
        )

    def _over(
        self, node: exp.Expr, write: Callable[[exp.Expr], str], children: Sequence[exp.Expr]
    ) -> Iterator[Probe]:
        """The probes of expressions over a closed window; keys and aggregates need none."""
        for child in children:
            if place_of(child) is None or isinstance(child, exp.Query | exp.Identifier):
                continue
            try:
                text = write(child)
            except Refusal:
                continue
            if _NAME.fullmatch(text) and not isinstance(node, exp.Having | exp.Ordered):
                continue
            inner = self._over(child, write, list(child.iter_expressions()))
            if not is_expression(child):
                yield from inner
                continue
            query = f"SELECT {text} FROM ({self._closed()})"
            if isinstance(node, exp.Having | exp.Ordered):
                word = "WHERE" if isinstance(node, exp.Having) else "ORDER BY"
                query = f"SELECT 1 FROM ({self._closed()}) {word} {text}"
            yield self.prober.probe(child, query, self.rows.ctes, tuple(inner))
