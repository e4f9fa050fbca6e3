"""From text to ``SelectStmt``: the content of a statement before its names are resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Span
from tidegate.frontend.grammar.nodes import WindowClause, WindowParameter, span_of
from tidegate.frontend.grammar.source import Source, read
from tidegate.frontend.grammar.unions import members_of
from tidegate.frontend.reading.foreign import foreign_clause, refuse_foreign_calls
from tidegate.frontend.reading.sizes import ReadWindow, positive, read_duration
from tidegate.frontend.reading.window_clause import read_clause, read_delay, read_watermark
from tidegate.frontend.reading.windows import read_call, refuse_near_windows, window_call
from tidegate.frontend.refusal import Refusal
from tidegate.plan.statement import (
    EarlyClause,
    Expression,
    OrderItem,
    SelectItem,
    SelectStmt,
    WatermarkClause,
)

# Clauses of Spark that make no sense on a stream, and what to write instead.
_NO_CLAUSES = {
    "distinct": ("SELECT DISTINCT", "Put the columns into GROUP BY."),
    "qualify": ("QUALIFY", "Filter groups with HAVING."),
    "sort": ("SORT BY", "Write ORDER BY."),
    "cluster": ("CLUSTER BY", "Write ORDER BY."),
    "distribute": ("DISTRIBUTE BY", "Leave it out."),
    "offset": ("OFFSET", "Write LIMIT alone."),
    "sample": ("TABLESAMPLE", "Filter rows with WHERE."),
    "into": ("INTO", "Results go to the sink of the query."),
    "locks": ("FOR", "Leave it out."),
    "connect": ("CONNECT BY", "Leave it out."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedStatement(SelectStmt):
    """What a statement says, with the tree it was read to."""

    source: Source = field(repr=False, compare=False)


def parse(text: str, origin: str = "query") -> ParsedStatement:
    """Return what a statement says.

    The window and the rest of GROUP BY are filled in; what needs the names of streams, columns and
    functions, and the rules on where a window may stand, are left to ``bind``.

    Raises:
        QueryError: the text is not one SELECT of the grammar.
    """
    try:
        source = _read(text)
        return read_select(source, origin)
    except Refusal as refusal:
        raise refusal.error(text, origin) from None


def read_select(source: Source, origin: str) -> ParsedStatement:
    """Return what a statement that has been read says; see ``parse``.

    Raises:
        Refusal: it is not one SELECT of the grammar.
    """
    return _statement(source, select_of(source), origin)


def _read(text: str) -> Source:
    try:
        source = read(text)
    except Refusal as refusal:
        raise foreign_clause(text) or refusal from None
    refuse_foreign_calls(source.tree, source.slice)
    return source


def select_of(source: Source) -> exp.Select:
    """Return the SELECT that a statement is.

    Raises:
        Refusal: it is something else.
    """
    tree = source.tree
    if isinstance(tree, exp.Select) and tree.args.get("from_") is not None:
        return tree
    first = source.tokens[0]
    whole = Span(first.start, first.end + 1)
    if isinstance(tree, exp.SetOperation):
        raise Refusal(
            "a query is one SELECT; UNION, INTERSECT and EXCEPT cannot combine two",
            span_of(tree.expression),
            "Write each SELECT as a query of its own. To read several streams as one, write "
            "FROM a UNION ALL b.",
        )
    if isinstance(tree, exp.Subquery):
        raise Refusal("a query cannot be in brackets", whole, "Remove the brackets.")
    if isinstance(tree, exp.Select):
        raise Refusal(
            "the statement has no FROM", whole, "Write SELECT .. FROM stream GROUP BY window."
        )
    makes = first.text.upper() in ("CREATE", "INSERT")
    raise Refusal(
        f"{first.text.upper()} does not start a query, SELECT or WITH does",
        whole,
        "Write SELECT .. FROM stream GROUP BY window"
        + ("; its results go to the sink that the query is started with." if makes else "."),
    )


def _statement(source: Source, select: exp.Select, origin: str) -> ParsedStatement:
    _refuse_clauses(select)
    group = _group_items(select)
    window_items = [node for node in group if window_call(node)]
    clause = select.args.get("windows")
    windows = [read_call(source, node) for node in window_items]
    if isinstance(clause, WindowClause):
        windows.append(read_clause(source, clause))
    window = windows[0] if windows else None
    rest = [node for node in group if not window_items or node is not window_items[0]]
    event_time = _event_time(select, window)
    with_ = select.args.get("with_")
    having = select.args.get("having")
    where = select.args.get("where")
    return ParsedStatement(
        source=source,
        text=source.text,
        origin=origin,
        ctes=source.slice(with_) if with_ else "",
        relation=_relation(source, select),
        streams=tuple(streams_of(select)),
        united=tuple(table_name(table) for table in members_of(select.args["from_"].this)),
        items=tuple(_item(source, node) for node in select.expressions),
        where=source.expression(where.this) if where else None,
        window=window.window if window else None,
        window_span=window.span if window else None,
        event_time=source.expression(event_time) if event_time else None,
        watermark=_watermark(source, select, window),
        emit_on_close=_emits_on_close(select),
        group_by_exprs=tuple(source.expression(node) for node in rest),
        having=source.expression(having.this) if having else None,
        order_by=tuple(_order_item(source, node) for node in order_nodes(select)),
        limit=_limit(source, select),
        hint=_hint(source, select),
        early=_early(source, select),
    )


def streams_of(select: exp.Expr) -> list[Expression]:
    """Return the names of streams and tables that are read (no CTEs), in the text's order."""
    names = []
    for table in select.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and cte_of(table) is None:
            span = Span(span_of(table.parts[0]).start, span_of(table.parts[-1]).end)
            names.append(Expression(sql=table_name(table), span=span))
    return sorted(names, key=lambda each: each.span.start)


def table_name(table: exp.Table) -> str:
    """Return the name of a table with its qualifiers, without backticks."""
    return ".".join(part.name for part in table.parts)


def cte_of(table: exp.Table) -> exp.CTE | None:
    """Return the definition in a WITH clause that the name of a table means, or None.

    A definition sees those before it and those of the queries around, not itself.
    """
    name = table_name(table).lower()
    node: exp.Expr | None = table.parent
    within: exp.Expr = table
    while node is not None:
        with_ = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(with_, exp.With) and within is not with_:
            for cte in reversed(_visible(with_, within)):
                if cte.alias.lower() == name:
                    return cte
        within, node = node, node.parent
    return None


def _visible(with_: exp.With, within: exp.Expr) -> list[exp.CTE]:
    """The definitions that can be named from one of them, or from the query behind them."""
    every = list(with_.expressions)
    place = next((i for i, cte in enumerate(every) if cte is within), len(every))
    return every[:place]


def order_nodes(select: exp.Select) -> list[exp.Ordered]:
    """Return the items of ORDER BY."""
    order = select.args.get("order")
    return list(order.expressions) if order else []


def _refuse_clauses(select: exp.Select) -> None:
    for key, (word, mend) in _NO_CLAUSES.items():
        found = select.args.get(key)
        if found:
            node = found[0] if isinstance(found, list) else found
            raise Refusal(f"{word} does not work on a stream", span_of(node), mend)
    with_ = select.args.get("with_")
    if with_ is not None and with_.args.get("recursive"):
        raise Refusal("WITH RECURSIVE does not work on a stream", span_of(with_), "Write WITH.")
    windows = select.args.get("windows")
    if windows and not isinstance(windows, WindowClause):
        raise Refusal(
            "a named window does not work on a stream; WINDOW defines the window of the query",
            span_of(windows[0]),
            "Write e.g. WINDOW TUMBLING (SIZE INTERVAL '1' MINUTE).",
        )
    for nested in select.find_all(exp.Select):
        if nested is not select:
            _refuse_nested_clauses(nested)


def _refuse_nested_clauses(nested: exp.Select) -> None:
    for key in ("windows", "event_time", "watermark", "emit"):
        clause = nested.args.get(key)
        if isinstance(clause, exp.Expr):
            raise Refusal(
                "a subquery has no window of its own",
                span_of(clause),
                "Move the clause to the end of the statement.",
            )


def _group_items(select: exp.Select) -> list[exp.Expr]:
    group = select.args.get("group")
    if group is None:
        return []
    is_plain = all(not value for key, value in group.args.items() if key != "expressions")
    for node in group.expressions:
        if isinstance(node, (exp.Cube, exp.Rollup, exp.GroupingSets)):
            is_plain = False
        refuse_near_windows(node)
    if not is_plain or group.args.get("all") is not None:
        raise Refusal(
            "GROUP BY ALL, CUBE, ROLLUP and GROUPING SETS do not work on a stream",
            span_of(group),
            "Name the window and the keys, e.g. GROUP BY tumblingwindow('ss', 10), user.",
        )
    return list(group.expressions)


def _relation(source: Source, select: exp.Select) -> str:
    clauses = [
        select.args["from_"],
        *(select.args.get("joins") or []),
        *(select.args.get("laterals") or []),
    ]
    spans = [span_of(clause) for clause in clauses]
    text = source.from_text(min(span.start for span in spans), max(span.end for span in spans))
    return re.sub(r"\A\s*FROM\s*", "", text, flags=re.IGNORECASE)


def _item(source: Source, node: exp.Expr) -> SelectItem:
    if isinstance(node, exp.Aliases):
        raise Refusal(
            "an item of the select list is one column", span_of(node), "Give it one name."
        )
    if isinstance(node, exp.Alias):
        return SelectItem(expression=source.expression(node.this), alias=node.alias)
    return SelectItem(expression=source.expression(node), alias=None)


def _order_item(source: Source, node: exp.Ordered) -> OrderItem:
    if isinstance(node.this, exp.Var):
        raise Refusal("ORDER BY ALL does not work on a stream", span_of(node), "Name the columns.")
    return OrderItem(
        expression=source.expression(node.this),
        descending=bool(node.args.get("desc")),
        nulls_first=bool(node.args.get("nulls_first")),
    )


def _event_time(select: exp.Select, window: ReadWindow | None) -> exp.Expr | None:
    clause = select.args.get("event_time")
    of_window = window.event_time if window else None
    if clause and of_window:
        raise Refusal(
            "the event time is given twice",
            span_of(clause),
            "Leave ON out, the window names the event time already.",
        )
    return clause.this if clause else of_window


def _watermark(
    source: Source, select: exp.Select, window: ReadWindow | None
) -> WatermarkClause | None:
    clause = select.args.get("watermark")
    lag, lateness = (window.lag, window.lateness) if window else (None, None)
    if clause is not None:
        if lag or lateness:
            raise Refusal(
                "the watermark is given twice",
                span_of(clause),
                "Leave one of the two WATERMARK parameters out.",
            )
        lag, lateness = read_watermark(clause)
    given = [each for each in (lag, lateness) if isinstance(each, WindowParameter)]
    if not given:
        return None
    return WatermarkClause(
        lag_us=read_delay(source, lag),
        lateness_us=read_delay(source, lateness),
        span=span_of(clause if clause is not None else given[0]),
    )


def _emits_on_close(select: exp.Select) -> bool:
    clause = select.args.get("emit")
    return clause is not None and clause.this is None


def _early(source: Source, select: exp.Select) -> EarlyClause | None:
    clause = select.args.get("emit")
    if clause is None or clause.this is None:
        return None
    every = read_duration(source, clause.this, positive)
    return EarlyClause(every_us=every.micros, span=span_of(clause))


def _limit(source: Source, select: exp.Select) -> int | None:
    clause = select.args.get("limit")
    if clause is None:
        return None
    text = re.sub(r"\ALIMIT\s*", "", source.slice(clause), flags=re.IGNORECASE)
    if text.upper() == "ALL":
        return None
    if not re.fullmatch(r"\d+", text):
        raise Refusal(
            f"LIMIT {text} is not a whole number",
            span_of(clause),
            "Write the most rows of a window, e.g. LIMIT 10.",
        )
    return int(text)


def _hint(source: Source, select: exp.Select) -> str:
    if not select.args.get("hint"):
        return ""
    match = re.compile(r"/\*\+.*?\*/", re.DOTALL).search(source.text, span_of(select).start)
    return match[0] if match else ""
