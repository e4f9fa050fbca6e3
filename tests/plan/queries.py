"""Bound queries built by hand, to test the planner without the parser."""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import Span
from tidegate.plan.statement import (
    Aggregate,
    Argument,
    BoundQuery,
    Column,
    Expression,
    Key,
    OutputItem,
    Relation,
    SelectStmt,
    WatermarkClause,
)
from tidegate.plan.windows import Tumbling, Window
from tidegate.time import TimeUnit

TEN_SECONDS = Tumbling(time_unit=TimeUnit.SECOND, size=10)

_STATEMENT = SelectStmt(
    text="SELECT user, count(*) FROM clicks GROUP BY TUMBLE(ts, ..), user WATERMARK (..)",
    origin="query",
    ctes="",
    relation="clicks",
    streams=(),
    items=(),
    where=None,
    window=TEN_SECONDS,
    window_span=None,
    event_time=None,
    watermark=None,
    emit_on_close=False,
    group_by_exprs=(),
    having=None,
    order_by=(),
    limit=None,
)


def expression(sql: str) -> Expression:
    """Return an expression at the place of ``ts`` in the statement."""
    return Expression(sql=sql, span=Span(50, 52))


def watermark_clause(lag_us: int | None = None, lateness_us: int | None = None) -> WatermarkClause:
    """Return a WATERMARK clause at its place in the statement."""
    return WatermarkClause(lag_us=lag_us, lateness_us=lateness_us, span=Span(64, 78))


def clicks(**columns: str) -> Relation:
    """Return a stream called clicks; columns are given as ``name="TYPE"``."""
    listed = tuple(Column(name=name, type=ddl) for name, ddl in columns.items())
    return Relation(name="clicks", columns=listed)


def query(
    source: Relation | None = None, window: Window = TEN_SECONDS, **statement: object
) -> BoundQuery:
    """Return a query that counts rows per user and window; ``statement`` overrides its fields."""
    return BoundQuery(
        statement=replace(_STATEMENT, window=window, **statement),  # type: ignore[arg-type]
        source=source or clicks(ts="TIMESTAMP", user="STRING", pages="BIGINT"),
        tables=(),
        keys=(Key(name="_k0", expression=expression("user")),),
        arguments=(Argument(name="_x0", expression=expression("pages")),),
        aggregates=(aggregate("_a0", "count"),),
        items=(
            OutputItem(name="user", expression=expression("_k0")),
            OutputItem(name="n", expression=expression("_a0")),
        ),
        having=None,
        order_by=(),
        limit=None,
    )


def aggregate(name: str, function: str, *args: str, distinct: bool = False) -> Aggregate:
    """Return an aggregate over argument columns."""
    inside = ("DISTINCT " if distinct else "") + (", ".join(args) or "*")
    return Aggregate(
        name=name,
        function=function,
        args=args,
        distinct=distinct,
        filter=None,
        text=f"{function}({inside})",
        span=Span(13, 21),
    )
