from __future__ import annotations

import pytest

from tidegate.frontend.reading.parse import parse
from tidegate.plan.statement import SelectStmt
from tidegate.plan.windows import (
    Count,
    Cumulate,
    Hopping,
    Session,
    Sliding,
    State,
    Tumbling,
    Window,
)
from tidegate.time import TimeUnit

SECOND, MINUTE = TimeUnit.SECOND, TimeUnit.MINUTE

CALLS = [
    ("tumblingwindow('ss', 10)", Tumbling(time_unit=SECOND, size=10)),
    ('TumblingWindow("SS", 10)', Tumbling(time_unit=SECOND, size=10)),
    ("tumblingwindow(Ss, 10)", Tumbling(time_unit=SECOND, size=10)),
    ("tumblingwindow(DD, 1)", Tumbling(time_unit=TimeUnit.DAY, size=1)),
    (
        "tumblingwindow('ms', 1000, -3)",
        Tumbling(time_unit=TimeUnit.MILLISECOND, size=1000, offset=-3),
    ),
    ("hoppingwindow('ss', 10, 5)", Hopping(time_unit=SECOND, size=10, slide=5)),
    ("hoppingwindow('hh', 1, 2, 3)", Hopping(time_unit=TimeUnit.HOUR, size=1, slide=2, offset=3)),
    ("cumulatewindow('mi', 60, 5)", Cumulate(time_unit=MINUTE, size=60, step=5)),
    ("cumulatewindow('mi', 60, 5, 1)", Cumulate(time_unit=MINUTE, size=60, step=5, offset=1)),
    ("sessionwindow('ss', 30)", Session(time_unit=SECOND, gap=30)),
    ("slidingwindow('ss', 10)", Sliding(time_unit=SECOND, lookback=10)),
    ("slidingwindow('ss', 0, 0)", Sliding(time_unit=SECOND, lookback=0, lookahead=0)),
    (
        "slidingwindow('ss', 1, 4) OVER (WHEN color = 'red' AND a > 1)",
        Sliding(time_unit=SECOND, lookback=1, lookahead=4, when="color = 'red' AND a > 1"),
    ),
    (
        "slidingwindow('ss', 1) OVER (PARTITION BY a, upper(b) WHEN c)",
        Sliding(time_unit=SECOND, lookback=1, when="c", partition_by=("a", "upper(b)")),
    ),
    (
        "slidingwindow('ss', 1) OVER (WHEN c > 1 PARTITION BY a)",
        Sliding(time_unit=SECOND, lookback=1, when="c > 1", partition_by=("a",)),
    ),
    ("statewindow(a > 0, b = 1)", State(open="a > 0", emit="b = 1")),
    (
        "statewindow(a > 0, b = 1) OVER (PARTITION BY user_id)",
        State(open="a > 0", emit="b = 1", partition_by=("user_id",)),
    ),
    ("countwindow(100)", Count(count=100)),
    ("countwindow(100, 10)", Count(count=100, every=10)),
    ("countwindow(2) OVER (PARTITION BY k)", Count(count=2, partition_by=("k",))),
    ("TUMBLE(ts, INTERVAL '1' MINUTE)", Tumbling(time_unit=MINUTE, size=1)),
    ("tumble(ts, INTERVAL 90 SECONDS)", Tumbling(time_unit=SECOND, size=90)),
    ("TUMBLE(ts, INTERVAL '1.5' SECOND)", Tumbling(time_unit=TimeUnit.MILLISECOND, size=1500)),
    ("TUMBLE(ts, INTERVAL '2 weeks')", Tumbling(time_unit=TimeUnit.DAY, size=14)),
    ("TUMBLE(ts, INTERVAL 1 MINUTE 30 SECONDS)", Tumbling(time_unit=SECOND, size=90)),
    ("TUMBLE(ts, INTERVAL 5 MICROSECONDS)", Tumbling(time_unit=TimeUnit.MICROSECOND, size=5)),
    (
        "TUMBLE(ts, INTERVAL '5' SECOND, INTERVAL '-1' SECOND)",
        Tumbling(time_unit=SECOND, size=5, offset=-1),
    ),
    (
        "TUMBLE(ts, INTERVAL '5' SECOND, -INTERVAL '1' SECOND)",
        Tumbling(time_unit=SECOND, size=5, offset=-1),
    ),
    (
        "HOP(ts, INTERVAL '15' SECOND, INTERVAL '1' MINUTE)",
        Hopping(time_unit=SECOND, size=60, slide=15),
    ),
    (
        "HOP(ts, INTERVAL '1' HOUR, INTERVAL '1' MINUTE, INTERVAL '7' MINUTE)",
        Hopping(time_unit=MINUTE, size=1, slide=60, offset=7),
    ),
    ("SESSION(ts, INTERVAL '3' SECOND)", Session(time_unit=SECOND, gap=3)),
]


def of(clauses: str) -> SelectStmt:
    return parse(f"SELECT count(*) AS n FROM clicks {clauses}")


@pytest.mark.parametrize(("call", "window"), CALLS)
def test_a_window_call_becomes_its_window(call: str, window: Window) -> None:
    statement = of(f"GROUP BY host, {call}, upper(page)")
    assert statement.window == window
    assert [each.sql for each in statement.group_by_exprs] == ["host", "upper(page)"]
    span = statement.window_span
    assert span is not None
    assert statement.text[span.start : span.end] == call


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("TUMBLING (SIZE INTERVAL '1' MINUTE)", Tumbling(time_unit=MINUTE, size=1)),
        (
            "tumbling (size INTERVAL 1 MINUTE, offset INTERVAL -10 SECONDS)",
            Tumbling(time_unit=SECOND, size=60, offset=-10),
        ),
        (
            "HOPPING (SLIDE INTERVAL 10 SECOND, SIZE INTERVAL 1 MINUTE)",
            Hopping(time_unit=SECOND, size=60, slide=10),
        ),
        ("SESSION (GAP INTERVAL 30 SECOND)", Session(time_unit=SECOND, gap=30)),
        (
            "CUMULATE (SIZE INTERVAL 1 HOUR, STEP INTERVAL 5 MINUTE)",
            Cumulate(time_unit=MINUTE, size=60, step=5),
        ),
    ],
)
def test_a_window_clause_becomes_its_window(clause: str, window: Window) -> None:
    assert of(f"GROUP BY host WINDOW {clause} ON ts").window == window


def test_the_clauses_of_time_follow_the_window_clause() -> None:
    statement = of(
        "GROUP BY host HAVING count(*) > 1"
        " WINDOW TUMBLING (SIZE INTERVAL '1' MINUTE) ON to_date(day)"
        " WATERMARK (INTERVAL '5' SECOND, ALLOWED LATENESS INTERVAL '1' MINUTE)"
        " EMIT ON WINDOW CLOSE ORDER BY n DESC, host LIMIT 3"
    )
    assert statement.event_time is not None
    assert statement.event_time.sql == "to_date(day)"
    assert statement.watermark is not None
    assert (statement.watermark.lag_us, statement.watermark.lateness_us) == (5_000_000, 60_000_000)
    assert statement.text[statement.watermark.span.start :].startswith("WATERMARK (")
    assert statement.emit_on_close
    assert statement.having is not None
    assert statement.having.sql == "count(*) > 1"
    assert [
        (each.expression.sql, each.descending, each.nulls_first) for each in statement.order_by
    ] == [
        ("n", True, False),
        ("host", False, True),
    ]
    assert statement.limit == 3


def test_the_all_in_one_form_says_the_same() -> None:
    inside = of(
        "WINDOW TUMBLING (ON ts, SIZE INTERVAL '3' SECOND, WATERMARK INTERVAL '1' SECOND,"
        " ALLOWED LATENESS INTERVAL '2' SECOND, OFFSET INTERVAL '1' SECOND)"
    )
    outside = of(
        "WINDOW TUMBLING (SIZE INTERVAL '3' SECOND, OFFSET INTERVAL '1' SECOND) ON ts"
        " WATERMARK (INTERVAL '1' SECOND, ALLOWED LATENESS INTERVAL '2' SECOND)"
    )
    assert inside.window == outside.window
    assert inside.event_time is not None
    assert outside.event_time is not None
    assert inside.event_time.sql == outside.event_time.sql == "ts"
    assert inside.watermark is not None
    assert outside.watermark is not None
    assert inside.watermark.lag_us == outside.watermark.lag_us == 1_000_000
    assert inside.watermark.lateness_us == outside.watermark.lateness_us == 2_000_000


def test_on_and_watermark_follow_a_window_call_too() -> None:
    statement = of("GROUP BY slidingwindow('ss', 10), page ON ts WATERMARK (INTERVAL '5' SECOND)")
    assert statement.event_time is not None
    assert statement.event_time.sql == "ts"
    assert statement.watermark is not None
    assert (statement.watermark.lag_us, statement.watermark.lateness_us) == (5_000_000, None)
    assert not statement.emit_on_close


def test_a_lateness_may_come_without_a_lag() -> None:
    watermark = of(
        "GROUP BY countwindow(1) WATERMARK (ALLOWED LATENESS INTERVAL 0 SECOND)"
    ).watermark
    assert watermark is not None
    assert (watermark.lag_us, watermark.lateness_us) == (None, 0)


def test_the_first_argument_of_tumble_is_the_event_time() -> None:
    event_time = of("GROUP BY TUMBLE(from_unixtime(t / 1000), INTERVAL '1' DAY)").event_time
    assert event_time is not None
    assert event_time.sql == "from_unixtime(t / 1000)"


def test_words_of_the_grammar_stay_names_of_columns() -> None:
    statement = parse(
        "SELECT window, session, watermark, emit, size AS emit, gap watermark FROM clicks AS emit "
        "WHERE window > 1 AND session.a = emit.watermark "
        "GROUP BY window, session, watermark, emit, countwindow(1) ORDER BY emit, window"
    )
    assert [each.sql for each in statement.group_by_exprs] == [
        "window",
        "session",
        "watermark",
        "emit",
    ]
    assert [each.alias for each in statement.items] == [None, None, None, None, "emit", "watermark"]
    assert statement.relation == "clicks AS emit"
    assert statement.event_time is None


def test_a_clause_is_not_taken_for_the_alias_of_a_table() -> None:
    for clause in ("EMIT ON WINDOW CLOSE", "WATERMARK (INTERVAL 1 SECOND)"):
        assert of(clause).relation == "clicks"


def test_the_texts_are_those_of_the_statement() -> None:
    statement = parse(
        "WITH big AS (SELECT * FROM clicks -- all\n WHERE v > 1), small AS (SELECT k FROM info)\n"
        "SELECT /*+ BROADCAST(small) */ a  +  b AS ab, 'it\\'s' || \"x\", count( * )\n"
        "FROM big AS b\n  LEFT JOIN small USING (k) -- the end\n"
        "WHERE a <=> 1L AND s RLIKE r'\\d+' GROUP BY countwindow(1)"
    )
    assert statement.ctes == (
        "WITH big AS (SELECT * FROM clicks -- all\n WHERE v > 1), small AS (SELECT k FROM info)"
    )
    assert statement.relation == "big AS b\n  LEFT JOIN small USING (k)"
    assert statement.hint == "/*+ BROADCAST(small) */"
    assert [each.sql for each in statement.streams] == ["clicks", "info"]
    assert [each.expression.sql for each in statement.items] == [
        "a  +  b",
        "'it\\'s' || \"x\"",
        "count( * )",
    ]
    assert statement.where is not None
    assert statement.where.sql == "a <=> 1L AND s RLIKE r'\\d+'"


def test_a_cte_may_have_the_name_of_the_stream_it_reads() -> None:
    statement = parse("WITH a AS (SELECT * FROM a) SELECT v FROM a GROUP BY countwindow(1)")
    assert [(each.sql, each.span.start) for each in statement.streams] == [("a", 25)]


def test_one_semicolon_at_the_end_is_accepted() -> None:
    assert of("GROUP BY countwindow(1);").window == Count(count=1)
