"""Records that cannot be read whole become error rows; inputs of one name are read together."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

import tidegate
from tidegate import FileSink, MemorySink
from tidegate.cli import main
from tidegate.connectors.sources import read_stream, read_table
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.statement import Relation

SQL = """
SELECT count(*) AS rows, sum(n) AS total FROM r WHERE n > 0
GROUP BY tumblingwindow('hh', 1) ON ts
"""
BAD = ("2026-01-01T10:00:00Z,x,a", "never,3,b", "2026-01-01T10:00:02Z,3,c,d")
TEXT = "\n".join(("ts,n,s", BAD[0], "2026-01-01T10:00:01Z,4,a", BAD[1], BAD[2], "")) + (
    "2026-01-01T10:00:03Z,-1,a\n,5,a\n"
)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(TEXT)
    return SourceConfig(
        name="r",
        format="csv",
        relation=Relation(name="r", columns=None),
        path=str(tmp_path / "in"),
        schema="ts TIMESTAMP, n INT, s STRING",
        options={"header": "true"},
    )


def test_a_malformed_record_is_an_error_row_with_its_text(spark, source, tmp_path):
    stream = read_stream(spark, source, ErrorPolicy.SIDE_OUTPUT)
    query = tidegate.sql(SQL, r=stream)
    reports, results = [], MemorySink()
    run = query.start(
        sink=results,
        errors=FileSink(format="json", path=tmp_path / "errors"),
        checkpoint=tmp_path / "checkpoint",
        once=True,
        on_batch=reports.append,
    )
    run.await_termination()
    run.drain()
    assert [tuple(row) for row in results.rows()] == [(1, 4)]
    counts = reports[0]
    assert (counts.rows_in, counts.accumulated, counts.error, counts.filtered) == (6, 1, 4, 1)
    files = (tmp_path / "errors").rglob("*.json")
    records = [json.loads(line) for file in files for line in file.open()]
    told = {record.get("error_detail"): record["reason"] for record in records}
    assert told == dict.fromkeys(BAD, "malformed_record") | {None: "null_event_time"}
    assert {tuple(record["original_event"]) for record in records} <= {
        ("ts", "n", "s"),
        ("n", "s"),
        ("ts", "s"),
    }


@pytest.mark.parametrize(
    ("sql", "answers", "reasons"),
    [
        ("SELECT * FROM r AS q WHERE n > 3 GROUP BY tumblingwindow('hh', 1) ON ts", 1, 4),
        ("SELECT count(*) AS c FROM r GROUP BY tumblingwindow('hh', 1) ON ts", 1, 4),
        # A query in FROM does not hand the text on: what is damaged is NULL.
        (
            "WITH q AS (SELECT ts, n FROM r) SELECT sum(n) AS t FROM q "
            "GROUP BY tumblingwindow('hh', 1) ON ts",
            1,
            2,
        ),
    ],
)
def test_over_a_table_they_are_told_too(spark, source, sql, answers, reasons):
    table = read_table(spark, source, ErrorPolicy.SIDE_OUTPUT)
    query = tidegate.sql(sql, r=table)
    assert "_tidegate" not in " ".join(query.schema.names)
    assert query.batch().count() == answers
    assert query.batch_errors().count() == reasons


def test_with_another_policy_they_are_null_or_stop(spark, source):
    table = read_table(spark, source, ErrorPolicy.NULL)
    query = tidegate.sql(SQL, settings={"error_policy": "null"}, r=table)
    assert [tuple(row) for row in query.batch().collect()] == [(2, 7)]
    failing = read_table(spark, source, ErrorPolicy.FAIL)
    query = tidegate.sql(SQL, settings={"error_policy": "fail"}, r=failing)
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        query.batch().collect()


@pytest.fixture
def ask(spark, tmp_path) -> Callable[..., Result]:
    def run(*arguments: str, **files: str) -> Result:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        sql = "SELECT count(*) AS c, sum(n) AS t FROM r GROUP BY tumblingwindow('hh', 1) ON ts"
        given = [word.replace("@", f"{tmp_path}/") for word in arguments]
        return CliRunner().invoke(main, ["sql", sql, *given, "--output", "csv"])

    return run


HEAD = "ts,n\n2026-01-01T10:00:00Z,1\n"


def test_inputs_of_one_name_are_read_together(ask):
    other = "n,ts\n2,2026-01-01T10:00:01Z\n"
    result = ask("--input", "@a.csv", "--input", "r=@b.csv", a_csv=HEAD, b_csv=other)
    assert result.stdout.splitlines() == ["c,t", "2,3"]
    lines = '{"ts": "2026-01-01T10:00:02Z", "n": 4}\n'
    typed = ("--schema", "ts TIMESTAMP, n INT")
    result = ask("--input", "@a.csv", "--input", "@c.json", *typed, c_json=lines)
    assert result.stdout.splitlines() == ["c,t", "2,5"]


def test_inputs_with_other_columns_are_refused_with_both_names(ask, tmp_path):
    result = ask("--input", "@a.csv", "--input", "@b.csv", a_csv=HEAD, b_csv="ts,m\n")
    both = f"{tmp_path}/a.csv and {tmp_path}/b.csv have different columns"
    assert (result.exit_code, result.stderr.partition("\n")[0]) == (
        1,
        f"{both}: m and n are only in one of them",
    )
    result = ask("--input", "@a.csv", "--input", "@b.csv", b_csv=HEAD.replace(",1", ",x"))
    assert f"{both}: n is INT in the first and STRING in the second" in result.stderr


def test_options_go_to_the_reader_and_what_is_left_out_is_counted(ask):
    rows = "2026-01-01T10:00:00Z;1\n2026-01-01T10:00:01Z;x\n"
    typed = ("--input", "@a.csv", "--schema", "ts TIMESTAMP, n INT", "--option", "sep=;")
    refused = ask(*typed, a_csv=rows)
    assert "--input" in refused.stderr
    assert "add --option header=false" in refused.stderr
    result = ask(*typed, "--option", "header=false")
    assert result.stdout.splitlines() == ["c,t", "1,1"]
    assert result.stderr.splitlines()[-1] == "1 row or result left out: malformed_record"
    assert ask(*typed, "--option", "header").exit_code == 2
