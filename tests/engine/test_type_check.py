"""What only Spark's analyzer knows is refused at its place in the text, before anything runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import tidegate
from tidegate.cases.stepper import CaseStepper
from tidegate.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

STREAM = "ts TIMESTAMP, a BIGINT, s STRING, l ARRAY<INT>, m MAP<STRING,INT>, b BOOLEAN"
TABLE = "id BIGINT, tags ARRAY<STRING>"
WINDOW = "GROUP BY tumblingwindow('ss', 10)"

# The statement with the wrong part between > and <, and what is said of it.
WRONG = [
    (
        f"SELECT sum(>>a + l<<) AS x FROM s {WINDOW}",
        "BIGINT on the left cannot be combined with ARRAY<INT> on the",
    ),
    (f"SELECT 1 + >>sum(l)<< AS x FROM s {WINDOW}", "must be NUMERIC or INTERVAL"),
    (f"SELECT a, >>max(m)<< AS x FROM s {WINDOW}, a", "MAP<STRING, INT> have no order"),
    (
        f"SELECT >>bool_and(a)<< AS x FROM s {WINDOW}",
        "the first value is BIGINT, but it must be BOOL",
    ),
    (f"SELECT >>corr(a, l)<< AS x FROM s {WINDOW}", "the second value is ARRAY<INT>"),
    (f"SELECT >>percentile(a, a)<< AS x FROM s {WINDOW}", "percentage must be a constant, found a"),
    (f"SELECT >>min_by(a)<< AS x FROM s {WINDOW}", "min_by takes 2 or 3 arguments, found 1"),
    (
        f"SELECT count(*) AS n FROM s WHERE >>a<< {WINDOW}",
        "condition a of WHERE is BIGINT, but it must",
    ),
    (f"SELECT count(*) AS n FROM s WHERE b AND >>abs(l)<< > 1 {WINDOW}", "value is ARRAY<INT>"),
    (
        f"SELECT count(*) AS n FROM s WHERE >>l = s<< {WINDOW}",
        "ARRAY<INT> on the left cannot be combined with STRING",
    ),
    (f"SELECT count(*) AS n FROM s WHERE b OR >>a IN (1, l)<< {WINDOW}", "BIGINT, INT, ARRAY<INT>"),
    (
        f"SELECT count(*) AS n FROM s WHERE >>a IN (SELECT tags FROM d)<< {WINDOW}",
        "BIGINT before IN cannot be compared with ARRAY<STRING>",
    ),
    (f"SELECT count(*) AS n FROM s {WINDOW} HAVING >>count(*)<<", "of HAVING is BIGINT"),
    (
        f"SELECT count(*) AS n FROM s {WINDOW} HAVING n > 1 AND >>n > array(1)<<",
        "BIGINT on the left",
    ),
    (f"SELECT count(*) AS n FROM s {WINDOW} ORDER BY >>map(1, n)<<", "MAP<INT, BIGINT> have no or"),
    (
        f"SELECT count(*) FILTER (WHERE >>a<<) AS n FROM s {WINDOW}",
        "condition a of FILTER is BIGINT",
    ),
    (f"SELECT 1, >>concat(array(sum(a)), 1)<< AS n FROM s {WINDOW}", "ARRAY<BIGINT>, STRING"),
    (f"SELECT >>window_start() * 2<< AS n FROM s {WINDOW}", "TIMESTAMP"),
    (f"SELECT >>CAST(l AS INT)<< AS n FROM s {WINDOW}, l", "ARRAY<INT> cannot be cast to INT"),
    (f"SELECT 1 AS n FROM s {WINDOW}, >>upper(s, 1)<<", "upper takes 1 argument, found 2"),
    (f"SELECT 1 AS n FROM s {WINDOW}, >>DATE 'abc'<<", "'abc' is not a valid DATE"),
    (
        "SELECT m FROM s GROUP BY sessionwindow('ss', 9), >>m<<",
        "key m of a session window is MAP<ST",
    ),
    ("SELECT a FROM s GROUP BY slidingwindow('ss', 9), a, >>struct(m)<<", "type MAP have no order"),
    (f"SELECT m FROM s {WINDOW}, >>m<< LIMIT 3", "the key m of LIMIT is MAP<STRING,INT>"),
    ("SELECT count(*) AS n FROM s GROUP BY statewindow(>>a<<, b)", "a of statewindow is BIGINT"),
    ("SELECT count(*) AS n FROM s GROUP BY statewindow(b, >>a + l<< = 1)", "BIGINT on the left"),
    (
        "SELECT count(*) AS n FROM s GROUP BY slidingwindow('ss', 10) OVER (WHEN >>s<<)",
        "condition s of slidingwindow is STRING",
    ),
    ("SELECT >>abs(l)<< AS n FROM s GROUP BY countwindow(3)", "ARRAY<INT>"),
    (f"SELECT count(*) AS n FROM s JOIN d ON >>s.l = d.id<< {WINDOW}", "ARRAY<INT> on the left"),
    (f"SELECT count(*) AS n FROM s JOIN d ON >>s.a<< {WINDOW}", "condition s.a of ON is BIGINT"),
    (f"SELECT count(*) AS n FROM (SELECT *, >>abs(l)<< AS u FROM s) {WINDOW}", "ARRAY<INT>"),
    (
        f"WITH q AS (SELECT * FROM s WHERE >>a<<)\nSELECT count(*) AS n FROM q {WINDOW}",
        "condition a of WHERE is BIGINT",
    ),
    (
        f"SELECT count(*) AS n\nFROM s\n  WHERE exists(l, x -> >>abs(m)<< = x) {WINDOW}",
        "MAP<STRING, INT>",
    ),
    (f"SELECT 1 AS n FROM s LATERAL VIEW >>explode(a)<< t AS e {WINDOW}", "must be ARRAY or MAP"),
    (f"SELECT count(*) AS n FROM s {WINDOW} ON >>l[0]<<", "l[0] is a number (INT) whose unit"),
]
INTERNAL = re.compile(r"_[akx]\d|_tidegate|\b_start|namedlambda|SQLSTATE|\[[A-Z_]+\.|JVM|Traceback")


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    return {"s": spark.createDataFrame([], STREAM), "d": spark.createDataFrame([], TABLE)}


@pytest.mark.parametrize(("marked", "said"), WRONG, ids=[marked for marked, _ in WRONG])
def test_a_wrong_type_is_refused_at_the_smallest_expression_that_has_it(
    frames: dict[str, DataFrame], marked: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before, part, _ = re.split(">>|<<", marked)
    text = marked.replace(">>", "").replace("<<", "")
    time = {} if " ON >>l" in marked else {"event_time_field": "ts"}

    with pytest.raises(tidegate.QueryError) as refused:
        tidegate.sql(text, streams={"s": frames["s"]}, tables={"d": frames["d"]}, settings=time)

    error = refused.value
    assert (error.span.start, error.sql[error.span.start : error.span.end]) == (len(before), part)
    assert said in error.what
    assert not INTERNAL.search(str(error))
    assert "Traceback" not in "".join(capfd.readouterr())


def test_right_types_of_every_clause_are_accepted(frames: dict[str, DataFrame]) -> None:
    query = tidegate.sql(
        "WITH q AS (SELECT *, abs(a) AS c FROM s) "
        "SELECT a % 2 + 1 AS k, sum(c) FILTER (WHERE b) / 2 AS x, last_row(l) AS y, ndv(s) AS z "
        "FROM q JOIN d ON q.a = d.id WHERE b AND exists(l, e -> e > 0) "
        "GROUP BY tumblingwindow('ss', 10), a % 2 HAVING x > 1 ORDER BY 1, y",
        streams={"s": frames["s"]},
        tables={"d": frames["d"]},
        settings={"event_time_field": "ts"},
    )
    assert [field.name for field in query.schema.fields] == ["k", "x", "y", "z"]


@pytest.mark.parametrize("way", ["schema", "batch", "stepper"])
def test_types_of_a_stream_with_a_schema_are_checked_once_there_is_a_session(
    spark: SparkSession, frames: dict[str, DataFrame], tmp_path: Path, way: str
) -> None:
    query = tidegate.sql(
        f"SELECT count(*) AS n FROM s WHERE a {WINDOW}",
        streams={"s": STREAM},
        settings={"event_time_field": "ts"},
        spark=spark,
    )
    asks = {
        "schema": lambda: query.schema,
        "batch": lambda: query.batch(s=frames["s"]),
        "stepper": lambda: CaseStepper(query, checkpoint=str(tmp_path), partitions=1),
    }
    with pytest.raises(tidegate.QueryError, match="the condition a of WHERE is BIGINT"):
        asks[way]()


PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"

[sources.s]
format = "json"
path = "in"
schema = "ts TIMESTAMP, v INT, l ARRAY<INT>"

[transforms.wrong]
sql = '''
SELECT v, sum(v + l) AS n
FROM s GROUP BY tumblingwindow('ss', 10), v
'''
event_time_field = "ts"

[transforms.right]
sql = "SELECT v, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), v"
event_time_field = "ts"

[sinks.one]
from = "wrong"
format = "console"

[sinks.two]
from = "right"
format = "console"
"""


@pytest.mark.usefixtures("spark")
def test_check_with_spark_shows_a_wrong_type_at_its_line_of_the_pipeline_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    without = CliRunner().invoke(main, ["check", str(file)])
    assert without.exit_code == 0
    assert "wrong: ok\n" in without.stdout
    assert "right: ok\n" in without.stdout

    result = CliRunner().invoke(main, ["check", str(file), "--spark"])

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "pipeline.toml, transforms.wrong.sql, line 11, column 15: v + l: INT on the left cannot be "
        "combined with ARRAY<INT> on the right\n\n"
        "  11 | SELECT v, sum(v + l) AS n\n"
        "     |               ^^^^^\n\n"
        "Convert one of them, e.g. with CAST.\n"
    )
    text = PIPELINE.replace("v + l", "v + l[0]")
    file.write_text(text)
    assert CliRunner().invoke(main, ["check", str(file), "--spark"]).exit_code == 0
    flat = text.replace("sum(v + l[0])", "collect_list(v)")
    file.write_text(flat.replace('"console"', '"csv"\npath = "out"', 1))
    result = CliRunner().invoke(main, ["check", str(file), "--spark"])
    assert result.stderr.startswith(
        "pipeline.toml, line 22: sinks.one: format csv cannot hold the column n ARRAY<INT> of the "
    )


@pytest.mark.usefixtures("spark")
def test_check_with_spark_of_a_bare_statement_needs_its_columns() -> None:
    words = ["check", "--spark", "--sql", f"SELECT sum(v) AS n FROM s {WINDOW}"]

    without = CliRunner().invoke(main, words)
    text = CliRunner().invoke(main, [*words, "--schema", "v DATE"])
    number = CliRunner().invoke(main, [*words, "--schema", "v DOUBLE"])

    assert (without.exit_code, "add --schema s=" in without.stderr) == (2, True)
    assert (text.exit_code, "column 8: sum(v): the first value is DATE" in text.stderr) == (1, True)
    assert (number.exit_code, number.stdout) == (0, "query: ok\n")
