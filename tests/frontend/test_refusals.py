"""Each refusal says what is wrong at the right place; «..» marks the place."""

from __future__ import annotations

import pytest

from frontend.schema import RELATIONS, bound, marked
from tidegate.errors import QueryError
from tidegate.frontend.binding.bind import bind
from tidegate.frontend.reading.parse import parse
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation

GRAMMAR = [
    ("SELECT «count(»* AS n FROM clicks GROUP BY tumblingwindow('ss', 10)", "never closed"),
    ("SELECT v«)» FROM clicks", "never opened"),
    ("SELECT «'abc FROM clicks»", "unterminated string starting with '"),
    ("SELECT «`abc FROM clicks»", "unterminated name starting with `"),
    (f"SELECT v FROM clicks LIMIT «{'9' * 5_000}»", "a number has 5,000 characters"),
    (f"SELECT v + «0.{'9' * 1_001}» FROM clicks", "a number has 1,003 characters"),
    (
        f"SELECT v FROM clicks GROUP BY tumblingwindow('ss', «{'9' * 5_000}»)",
        "a number has 5,000 characters",
    ),
    ("SELECT v FROM clicks «/* all»", "unterminated comment starting with /*"),
    ("SELECT a b «c» FROM clicks", "'c' is not understood here"),
    ("SELECT who FROM clicks«; SELECT who FROM clicks»", "found 2 statements"),
    ("«INSERT» INTO x SELECT who FROM clicks", "INSERT does not start a query"),
    ("«DROP» TABLE clicks", "DROP does not start a query"),
    ("SELECT who FROM clicks UNION «SELECT who FROM clicks»", "UNION"),
    ("«SELECT» 1", "no FROM"),
    ("«(»SELECT who FROM clicks)", "brackets"),
    ("SELECT «DISTINCT» who FROM clicks", "SELECT DISTINCT"),
    ("SELECT who FROM clicks «GROUP BY ROLLUP (who)»", "ROLLUP"),
    ("SELECT who FROM clicks «GROUP BY ALL»", "GROUP BY ALL"),
    ("SELECT who FROM clicks ORDER BY «ALL»", "ORDER BY ALL"),
    ("SELECT who FROM clicks «LIMIT v»", "LIMIT v is not a whole number"),
    ("«WITH RECURSIVE r AS (SELECT 1 AS n)» SELECT n FROM clicks JOIN r", "WITH RECURSIVE"),
    ("SELECT who FROM clicks WINDOW «w AS (PARTITION BY v)»", "named window"),
    ("SELECT v FROM clicks EMIT ON WINDOW «SHUT»", "EMIT is followed by ON WINDOW CLOSE"),
    ("SELECT v FROM (SELECT v FROM clicks «WATERMARK (INTERVAL 1 SECOND)»)", "subquery"),
]

WINDOWS = [
    ("«hoppingwindow('ss', 10)»", "hoppingwindow takes 3 or 4 arguments, found 2"),
    ("«statewindow(v > 0)»", "statewindow takes 2 arguments, found 1"),
    ("«slidingwindow('mi', 5, 1, 4)»", "slidingwindow takes 2 or 3 arguments, found 4"),
    ("«countwindow()»", "countwindow takes 1 or 2 arguments, found 0"),
    ("«SESSION(ts)»", "SESSION takes 2 arguments, found 1"),
    ("tumblingwindow('ss', «v»)", "v in tumblingwindow must be an unsigned whole number"),
    ("tumblingwindow('ss', «-1»)", "-1 in tumblingwindow must be an unsigned whole number"),
    ("tumblingwindow('ss', «1.5»)", "1.5 in tumblingwindow must be an unsigned whole number"),
    ("tumblingwindow('ss', «'10'»)", "'10' in tumblingwindow must be an unsigned whole number"),
    ("tumblingwindow('ss', «5+5»)", "5+5 in tumblingwindow must be an unsigned whole number"),
    ("tumblingwindow('ss', «NULL»)", "NULL in tumblingwindow must be an unsigned whole number"),
    ("tumblingwindow('ss', 10, «1.5»)", "1.5 in tumblingwindow must be a whole number"),
    ("tumblingwindow('ss', «0»)", "0 in tumblingwindow is too small"),
    ("countwindow(«0»)", "0 in countwindow is too small"),
    ("countwindow(5, «0»)", "0 in countwindow is too small"),
    ("tumblingwindow('dd', «99999999999»)", "longer than the maximum"),
    ("tumblingwindow(«'yy'», 10)", "'yy' is not a unit"),
    ("tumblingwindow(«minute», 10)", "'minute' is not a unit"),
    ("cumulatewindow('ss', 300, «70»)", "step of 70 ss does not divide the size of 300 ss"),
    (
        "HOP(ts, «INTERVAL '-1' MINUTE», INTERVAL '1' MINUTE)",
        "INTERVAL '-1' MINUTE is not positive",
    ),
    ("TUMBLE(ts, «INTERVAL 0 SECOND»)", "INTERVAL 0 SECOND is not positive"),
    ("TUMBLE(ts, «10»)", "10 is not an INTERVAL literal"),
    ("TUMBLE(ts, «INTERVAL '1' MONTH»)", "MONTH has no fixed length"),
    ("TUMBLE(ts, «INTERVAL '1' FORTNIGHT»)", "FORTNIGHT is not a unit"),
    ("TUMBLE(ts, «INTERVAL '1-2' YEAR TO MONTH»)", "from one unit to another"),
    ("TUMBLE(ts, «INTERVAL v SECOND»)", "not a number and a unit"),
    (f"TUMBLE(ts, «INTERVAL '{'9' * 5_000}' SECOND»)", "INTERVAL literal has 5,000 characters"),
    ("TUMBLE(ts, «INTERVAL '0.0000001' SECOND»)", "whole number of microseconds"),
    ("statewindow(v > 0, v = 0) OVER (PARTITION BY who «ORDER BY» ts)", "ORDER BY"),
    ("statewindow(v > 0, v = 0) OVER (PARTITION BY who «ROWS» 3 PRECEDING)", "a frame"),
    ("statewindow(v > 0, v = 0) OVER «w»", "a named window"),
    ("countwindow(2) OVER (PARTITION BY who «v»)", "OVER ends with ')' here"),
    ("statewindow(v > 0, v = 0) «OVER ()»", "the OVER () of statewindow is empty"),
    ("statewindow(v > 0, v = 0) OVER («WHEN v > 1»)", "statewindow does not take WHEN"),
    ("tumblingwindow('ss', 10) OVER («WHEN v > 1»)", "tumblingwindow does not take OVER (WHEN"),
    ("tumblingwindow('ss', 10) «OVER (PARTITION BY who)»", "does not take OVER"),
    ("«tumblngwindow('ss', 10)»", "Did you mean tumblingwindow?"),
    ("«slidngwindow('ss', 10)» OVER (WHEN v > 1)", "Did you mean slidingwindow?"),
    ("«window(ts, '10 seconds')»", "Spark's own window"),
    ("«session_window(ts, '10 seconds')»", "Write SESSION(ts, INTERVAL '10' SECOND)"),
]

CLAUSES = [
    ("WINDOW «TUMBLNG» (SIZE INTERVAL '1' SECOND)", "Did you mean TUMBLING?"),
    ("WINDOW TUMBLING (SIZE INTERVAL 1 DAY, «SIZE INTERVAL 2 DAY»)", "SIZE is given twice"),
    ("WINDOW TUMBLING (SIZE INTERVAL 1 DAY, «SLIDE INTERVAL 2 DAY»)", "no parameter SLIDE"),
    ("WINDOW TUMBLING (SIZE INTERVAL 1 DAY, «INTERVAL 2 DAY»)", "has no name"),
    ("«WINDOW TUMBLING (ON ts)»", "WINDOW TUMBLING has no SIZE"),
    ("«WINDOW HOPPING (SIZE INTERVAL 1 DAY)»", "WINDOW HOPPING has no SLIDE"),
    ("WINDOW SESSION (GAP «5»)", "5 is not an INTERVAL literal"),
    ("WINDOW TUMBLING (ON ts, SIZE INTERVAL 1 DAY) «ON ts»", "event time is given twice"),
    (
        "WINDOW TUMBLING (SIZE INTERVAL 1 DAY, WATERMARK INTERVAL 1 DAY) "
        "«WATERMARK (INTERVAL 1 DAY)»",
        "watermark is given twice",
    ),
    ("GROUP BY TUMBLE(ts, INTERVAL 1 DAY) «ON ts»", "event time is given twice"),
    ("GROUP BY countwindow(2) ON ts «ON ts»", "a second ON clause"),
    ("GROUP BY countwindow(2) WATERMARK («INTERVAL -1 DAY»)", "is negative"),
    ("GROUP BY countwindow(2) «WATERMARK ()»", "needs a lag"),
    ("GROUP BY countwindow(2) WATERMARK («LAG INTERVAL 1 DAY»)", "no parameter LAG"),
    ("GROUP BY countwindow(2) WATERMARK (INTERVAL 1 DAY, «INTERVAL 1 DAY»)", "the lag twice"),
]

PLACES = [
    (
        "SELECT count(*) AS n FROM clicks "
        "GROUP BY tumblingwindow('ss', 10), «hoppingwindow('ss', 10, 5)»",
        "a second window, hoppingwindow",
    ),
    (
        "SELECT who FROM clicks GROUP BY tumblingwindow('ss', 10), who "
        "«WINDOW TUMBLING (SIZE INTERVAL '1' MINUTE)» ON ts",
        "WINDOW clause",
    ),
    ("SELECT «tumblingwindow('ss', 10)» AS w, who FROM clicks", "is in the select list"),
    ("SELECT v FROM clicks WHERE «countwindow(1)» > 1", "is in WHERE"),
    ("SELECT v FROM clicks GROUP BY 1 + «countwindow(1)»", "an expression of GROUP BY"),
    ("SELECT who, count(*) FROM clicks GROUP BY who «EMIT ON WINDOW CLOSE»", "EMIT"),
    ("SELECT «sum(v)» AS total FROM clicks", "the aggregate sum needs a window"),
    ("SELECT who «FROM clicks»", "no window"),
    ("SELECT who FROM clicks «GROUP BY who»", "no window"),
]

NAMES = [
    ("SELECT v FROM «clicsk» %W", "Did you mean clicks?"),
    ("SELECT v FROM clicks JOIN «infos» ON true %W", "Did you mean info?"),
    ("SELECT a «FROM info» %W", "names no stream"),
    ("SELECT v FROM clicks JOIN «other» ON true %W", "clicks and other are both streams"),
    ("SELECT «whoo», count(*) FROM clicks %W, whoo", "Did you mean who?"),
    ("SELECT sum(«rec.q») FROM clicks %W", "there is no column q in rec"),
    ("SELECT sum(«c.vv») FROM clicks c %W", "Did you mean v?"),
    ("SELECT sum(«d.v») FROM clicks c %W", "there is no table, stream or column d"),
    ("SELECT sum(«v») FROM clicks JOIN info ON who = k %W", "column v is in clicks and info"),
    ("SELECT sum(clicks.v) FROM clicks JOIN info ON who = «kk» %W", "there is no column kk"),
    ("SELECT sum(v) FROM clicks WHERE «vv» > 1 %W", "there is no column vv"),
    ("SELECT sum(v) FROM clicks %W ON «tss»", "Did you mean ts?"),
    ("SELECT sum(v) AS total FROM clicks %W HAVING «totl» > 1", "Did you mean total?"),
    ("SELECT sum(v) FROM clicks GROUP BY statewindow(v > 0, «x» > 0)", "there is no column x"),
    ("SELECT «cnt(v)» FROM clicks %W", "Did you mean count?"),
    ("SELECT sum(v) FROM clicks WHERE «upperr(who)» = 'A' %W", "Did you mean upper?"),
    (
        "WITH x AS (SELECT who, v + 1 AS w FROM clicks) SELECT sum(«v») FROM x %W",
        "no column v in x",
    ),
    ("WITH x AS (SELECT «vv» FROM clicks) SELECT count(*) FROM x %W", "Did you mean v?"),
    ("SELECT «k» FROM clicks LEFT SEMI JOIN info ON who = k %W", "there is no column k in clicks"),
    ("SELECT sum(v) AS s FROM clicks %W HAVING sum(«s») > 1", "there is no column s"),
]

MEANINGS = [
    ("SELECT «who», max(v) AS top FROM clicks %W", "who is neither aggregated nor a group key"),
    ("SELECT who, «v» + v FROM clicks %W, who, v + v + v", "v is neither"),
    ("SELECT «*» FROM clicks %W, who", "* is beside group keys or aggregates"),
    ("SELECT «*», count(*) FROM clicks %W", "* is beside"),
    ("SELECT «clicks.*», count(*) FROM clicks %W", "* is beside"),
    ("SELECT count(*) FROM clicks WHERE «sum(v)» > 1 %W", "the aggregate sum is in WHERE"),
    (
        "SELECT count(*) FROM clicks WHERE «window_start()» > ts %W",
        "window_start() is in WHERE",
    ),
    ("SELECT count(*) FROM clicks %W, «window_start()»", "Every window is a group already"),
    ("SELECT count(*) FROM clicks %W, «sum(v)»", "is in GROUP BY"),
    ("SELECT sum(v) AS s FROM clicks %W, «s»", "is an aggregate"),
    ("SELECT sum(v) FROM clicks %W, «2»", "the select list has 1 items"),
    ("SELECT sum(v) FROM clicks %W ORDER BY «5»", "the select list has 1 items"),
    ("SELECT sum(«sum(v)») FROM clicks %W", "is inside the aggregate sum"),
    ("SELECT sum(«window_end()») FROM clicks %W", "is inside the aggregate sum"),
    ("SELECT sum(«*») FROM clicks %W", "sum does not take *"),
    ("SELECT «max(v) IGNORE NULLS» FROM clicks %W", "max takes no IGNORE NULLS"),
    ("SELECT «mode() WITHIN GROUP (ORDER BY v)» FROM clicks %W", "WITHIN GROUP"),
    ("SELECT «upper(who) FILTER (WHERE v > 1)» FROM clicks %W, who", "FILTER"),
    (
        "SELECT «window_trigger()», count(*) FROM clicks %W",
        "window_trigger() works with slidingwindow",
    ),
    ("SELECT «window_start(1)», count(*) FROM clicks %W", "window_start takes no argument"),
    ("SELECT «row_number() OVER (ORDER BY v)» FROM clicks %W", "row_number(..) OVER"),
    ("SELECT «explode(array(v))» FROM clicks %W", "LATERAL VIEW"),
    ("SELECT v, «v + 1 AS V» FROM clicks %W", "two columns of the result are called V"),
    ("SELECT who FROM clicks %W «HAVING v > 1»", "HAVING filters groups"),
    ("SELECT v FROM clicks WHERE v = «:limit» %W", "a parameter has no value"),
    ("SELECT k FROM info «LEFT JOIN clicks ON who = k» %W, k", "LEFT JOIN would emit"),
    ("SELECT who FROM clicks «FULL JOIN info ON who = k» %W, who", "FULL JOIN would emit"),
    ("SELECT c.who FROM clicks «JOIN clicks c ON true» %W", "both streams"),
    ("SELECT v FROM clicks WHERE who IN («SELECT who FROM clicks») %W", "reads a stream"),
    ("SELECT n FROM (SELECT who AS n FROM clicks «GROUP BY who») %W", "GROUP BY in a subquery"),
    ("SELECT n FROM (SELECT «sum(v)» AS n FROM clicks) %W", "the aggregate sum is in"),
    ("SELECT n FROM (SELECT v AS n FROM clicks «LIMIT 3») %W", "LIMIT in a subquery"),
]


EARLY = "EMIT EARLY EVERY INTERVAL 10 SECOND"

EARLY_RESULTS = [
    ("SELECT count(*) AS n FROM clicks %W, «who» %E", "needs the key who in the select list"),
    ("SELECT * FROM clicks %W «%E»", "EMIT EARLY needs aggregates or keys"),
    ("SELECT who, «count(*) AS Is_Final» FROM clicks %W, who %E", "adds a column is_final"),
    ("SELECT «who AS window_id» FROM clicks %W, who %E", "adds a column window_id"),
    ("SELECT who FROM clicks %W, who HAVING count(*) > 1 «%E»", "does not work with HAVING"),
    ("SELECT who FROM clicks %W, who «%E» LIMIT 3", "does not work with LIMIT"),
    ("SELECT sum(v) FROM clicks GROUP BY sessionwindow('ss', 1) «%E»", "with session windows"),
    ("SELECT sum(v) FROM clicks GROUP BY slidingwindow('ss', 1) «%E»", "with sliding windows"),
    ("SELECT sum(v) FROM clicks GROUP BY countwindow(2) «%E»", "with count windows"),
    (
        "SELECT sum(v) FROM clicks GROUP BY statewindow(v > 0, v < 0) «%E»",
        "with state windows",
    ),
    ("SELECT count(*) FROM clicks «%E»", "EMIT EARLY, but there is no window to close"),
    ("SELECT v FROM clicks EMIT EARLY «INTERVAL» 10 SECOND", "EMIT EARLY is followed by EVERY"),
    ("SELECT sum(v) FROM clicks %W EMIT EARLY EVERY «INTERVAL 0 SECOND»", "is not positive"),
    ("SELECT sum(v) FROM clicks %W EMIT EARLY EVERY «10»", "10 is not an INTERVAL literal"),
    ("SELECT sum(v) FROM clicks %W %E «EMIT ON WINDOW CLOSE»", "a second EMIT clause"),
]


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        bound(text)
    return caught.value


def check(text: str, fragment: str) -> None:
    plain, start, end = marked(text)
    error = refused(plain)
    assert fragment in str(error)
    assert plain[error.span.start : error.span.end] == plain[start:end]
    assert error.line == plain.count("\n", 0, start) + 1
    assert error.column == start - (plain.rfind("\n", 0, start) + 1) + 1
    assert error.mend.strip()
    assert not error.what.endswith(".")


@pytest.mark.parametrize(("text", "fragment"), GRAMMAR)
def test_text_that_is_not_a_statement_is_refused(text: str, fragment: str) -> None:
    check(text, fragment)


@pytest.mark.parametrize(("window", "fragment"), WINDOWS)
def test_a_window_call_of_another_shape_is_refused(window: str, fragment: str) -> None:
    check(f"SELECT count(*) AS n\nFROM clicks\nGROUP BY who, {window}", fragment)


@pytest.mark.parametrize(("clauses", "fragment"), CLAUSES)
def test_a_clause_of_another_shape_is_refused(clauses: str, fragment: str) -> None:
    check(f"SELECT count(*) AS n FROM clicks\n{clauses}", fragment)


@pytest.mark.parametrize(("text", "fragment"), PLACES)
def test_a_window_stands_once_in_group_by(text: str, fragment: str) -> None:
    check(text, fragment)


@pytest.mark.parametrize(("text", "fragment"), EARLY_RESULTS)
def test_early_results_that_no_later_one_could_replace_are_refused(
    text: str, fragment: str
) -> None:
    check(with_window(text.replace("%E", EARLY)), fragment)


def with_window(text: str) -> str:
    return text.replace(" %W", "\nGROUP BY tumblingwindow('ss', 10)", 1)


@pytest.mark.parametrize(("text", "fragment"), NAMES)
def test_an_unknown_name_is_refused(text: str, fragment: str) -> None:
    check(with_window(text), fragment)


@pytest.mark.parametrize(("text", "fragment"), MEANINGS)
def test_what_has_no_meaning_on_a_stream_is_refused(text: str, fragment: str) -> None:
    check(with_window(text), fragment)


def test_parsing_leaves_the_rules_about_names_and_places_to_binding() -> None:
    statement = parse(
        "SELECT x FROM nowhere GROUP BY tumblingwindow('ss', 1), countwindow(2), upper(y)"
    )
    assert [each.sql for each in statement.group_by_exprs] == ["countwindow(2)", "upper(y)"]


def test_the_message_names_the_origin_of_the_statement() -> None:
    with pytest.raises(QueryError) as caught:
        bind(
            parse(
                "SELECT x\n  FROM nowhere\nGROUP BY countwindow(2)",
                "pipeline.toml, transforms.a.sql",
            ),
            RELATIONS,
            Settings(),
        )
    assert str(caught.value).startswith(
        "pipeline.toml, transforms.a.sql, line 2, column 8: there is no stream or table nowhere"
    )


def test_an_expression_in_the_settings_is_checked_over_the_same_rows() -> None:
    with pytest.raises(QueryError) as caught:
        bind(
            parse(
                "SELECT v FROM clicks GROUP BY countwindow(2)", "pipeline.toml, transforms.a.sql"
            ),
            RELATIONS,
            Settings(shard="upper(whoo)"),
        )
    assert str(caught.value).startswith("pipeline.toml, transforms.a.shard, line 1, column 7: ")
    assert "Did you mean who?" in str(caught.value)


def test_a_relation_without_columns_leaves_no_hole_in_the_message() -> None:
    with pytest.raises(QueryError) as refused:
        bind(
            parse("SELECT v FROM s GROUP BY countwindow(1)"),
            [Relation(name="s", columns=())],
            Settings(),
        )
    assert refused.value.mend == "It has no columns."
