"""Wrong commands and pipeline files: each ends in one message, and none of these starts Spark."""

from __future__ import annotations

import os
import sys

import pytest
from click.testing import CliRunner

from tidegate.cli import main
from tidegate.spark import session

SQL = "SELECT v, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), v"
PIPELINE = '''\
[pipeline]
checkpoint = "checkpoint"
trigger = "1s"
spark.master = "local[2]"

[sources.s]
format = "json"
path = "in"
schema = "ts TIMESTAMP, v INT"

[tables.names]
format = "csv"
path = "names.csv"
schema = "v INT, name STRING"

[transforms.counts]
sql = """
SELECT v, count(*) AS n
FROM s GROUP BY tumblingwindow('ss', 10), v
"""
event_time_field = "ts"
watermark_lag = "5s"
side_output.late.sink = "late"

[sinks.out]
from = "counts"
format = "json"
path = "out"

[sinks.late]
format = "json"
path = "late"
'''

# What is replaced in the pipeline file, by what, and what the message must have in it.
FILES = [
    ('checkpoint = "checkpoint"', "", "line 1: pipeline: checkpoint is missing"),
    ('"checkpoint"', '""', 'line 2: pipeline: checkpoint = "": it is empty'),
    ('"checkpoint"', "5", "checkpoint = 5: it must be text in quotes"),
    ('"checkpoint"', '"empty.txt"', "empty.txt is a file"),
    ('"checkpoint"', '"empty.txt/x"', "empty.txt is a file, so it can hold no folder"),
    ('"checkpoint"', '"hfds://host/x"', 'line 2: pipeline: checkpoint = "hfds://host/x": hfds:'),
    ('"1s"', '"abc"', "line 3: pipeline: trigger = \"abc\": 'abc' is not a duration"),
    ('"1s"', "5", "trigger = 5: a duration is text with a unit"),
    ('"1s"', '"-1s"', "is negative"),
    ('"1s"', '"999999999999999999d"', "is too long"),
    ('spark.master = "local[2]"', 'spark.remote = "sc://h"', 'spark.remote = "sc://h" asks for'),
    ('spark.master = "local[2]"', 'spark.api.mode = "connect"', "asks for Spark Connect"),
    ('"local[2]"', '"sc://h"', 'line 4: pipeline.spark: spark.master = "sc://h" asks for Spark Co'),
    ("trigger", "triger", "Did you mean trigger?"),
    ('"local[2]"', '"lokal[2]"', 'line 4: pipeline.spark: master = "lokal[2]": Spark has no such'),
    ("[sources.s]", "[source.s]", "Did you mean sources?"),
    ("[sources.s]", "[sources.t]", "there is no stream or table s"),
    ('format = "json"\npath = "in"', 'path = "in"', "sources.s: format is missing"),
    ('format = "json"\npath = "in"', 'format = "jsn"\npath = "in"', "Did you mean json?"),
    ('path = "in"', "", "path is missing, and format json needs one"),
    ('path = "in"', 'path = "nowhere"', 'line 8: sources.s: path = "'),
    ('path = "in"', 'path = "nowhere"', "there is no such file or folder"),
    ('path = "in"', "path = 5", "path = 5: it must be text in quotes"),
    ('"names.csv"', '"names.cvs"', 'line 13: tables.names: path = "'),
    ('v INT"', 'v INTT"', "INTT is not a type of Spark SQL: did you mean INT?"),
    ('v INT"', 'v"', "'v' is not a column: write a name and a type"),
    ('v INT"', 'v INT, V INT"', "column v is declared twice"),
    ("ts TIMESTAMP, v INT", "", "a schema needs at least one column"),
    ("[transforms.counts]", '[transforms."a/b"]', "there is no transform counts"),
    (
        "tumblingwindow('ss', 10)",
        "tumblingwindow('ss')",
        "line 19, column 17: tumblingwindow takes",
    ),
    ("FROM s", "FROM t", "line 19, column 6: there is no stream or table t"),
    ("SELECT v", "SELECT w", "there is no column w in s"),
    ("SELECT v, count(*) AS n\nFROM s GROUP BY tumblingwindow('ss', 10), v", "", "is empty"),
    ('sql = """', 'sqll = """', "Did you mean sql?"),
    (
        "FROM s GROUP BY tumblingwindow('ss', 10), v",
        "FROM s WHERE",
        "'WHERE' is not understood here: something is m",
    ),
    ('event_time_field = "ts"', 'event_time_field = "tss"', "line 21: transforms.counts: event_ti"),
    ('"5s"', "5", "watermark_lag = 5: a duration is text with a unit"),
    ('"5s"', '"5 sec"', "is not a duration"),
    ("watermark_lag", "watermarklag", "Did you mean watermark_lag?"),
    ('watermark_lag = "5s"', 'time = "evnt"', "time = \"evnt\": it must be 'event' or"),
    ('watermark_lag = "5s"', "max_rows_per_group = 5", "line 22: transforms.counts: "),
    ('watermark_lag = "5s"', 'dedup_key = "v"', "dedup_key needs dedup_horizon"),
    ('late.sink = "late"', 'late.sink = "lte"', "Did you mean late?"),
    ('late.sink = "late"', 'lat.sink = "late"', "Did you mean late?"),
    ('from = "counts"\nformat = "json"', 'from = "counts"\nformat = "rate"', "only reads it"),
    (
        'from = "counts"\nformat = "json"',
        'from = "counts"\nformat = 5',
        "it must be text in quotes",
    ),
    ('from = "counts"\n', 'from = "count"\n', "Did you mean counts?"),
    ('from = "counts"\n', "", "no sink takes its results"),
    ('path = "out"', "", "path is missing, and format json needs one"),
    ('path = "out"', 'path = "names.csv"', "line 28: sinks.out: "),
    ('path = "out"', 'path = "empty.txt/x"', "empty.txt is a file, so it can hold no folder"),
    ('path = "out"', 'path = "s3b://bucket/x"', "s3b: is not a file system"),
    ('path = "late"', 'path = "names.csv"', "line 32: sinks.late: "),
    ('path = "out"\n', 'path = "out\n', "the file is not valid TOML"),
    ("[pipeline]", "[pipeline", "line 1, column"),
    (PIPELINE, "", "pipeline is missing"),
]
CALLS = [
    (["check"], 2, "Give a pipeline file, or a statement with --sql."),
    (["check", "nowhere.toml"], 1, "nowhere.toml: there is no such file"),
    (["check", "."], 1, "the file cannot be read: is a directory"),
    (["check", "nowhere.sql"], 1, "nowhere.sql: the file cannot be read: no such file"),
    (["check", "latin.sql"], 1, "latin.sql: the file cannot be read: byte 8 is not UTF-8"),
    (["check", "latin.toml"], 1, "latin.toml: the file cannot be read: byte 8 is not UTF-8"),
    (["check", "empty.sql"], 1, "empty.sql, line 1, column 1: the statement is empty"),
    (["check", "--sql", ""], 1, "the statement is empty"),
    (["check", "--sql", "  ;"], 1, "the statement is empty"),
    (["check", "--sql", "SELECT 1"], 1, "the statement has no FROM"),
    (
        ["check", "--sql", "SELECT 1 FROM (SELECT 1)", "--schema", "v INT"],
        2,
        "reads no stream or t",
    ),
    (["check", "--sql", SQL, "--schema", "t=v INT"], 2, "the statement names s only."),
    (["check", "--sql", SQL, "--schema", ""], 1, "--schema: a schema needs at least one column"),
    (["check", "--sql", SQL, "--schema", "v INTT"], 1, "did you mean INT?"),
    (["check", "--sql", SQL, "--set", "lag"], 2, "write KEY=VALUE"),
    (["check", "--sql", SQL, "--set", "=5"], 2, "write KEY=VALUE"),
    (["check", "--sql", SQL, "--set", "time=x"], 1, "time = \"x\": it must be 'event' or"),
    (["check", "--sql", SQL, "--nosuch"], 2, "No such option"),
    (["explain", "--sql", ""], 1, "the statement is empty"),
    (["run"], 2, "Missing argument 'FILE'"),
    (["run", "nowhere.toml"], 1, "nowhere.toml: there is no such file"),
    (["run", "--flush", "--drain", "x.toml"], 2, "give one of them"),
    (["sql", "", "--input", "names.csv"], 1, "the statement is empty"),
    (["sql", SQL], 2, "Missing option '--input'"),
    (["sql", SQL, "--input", "nowhere.csv"], 1, "--input nowhere.csv: there is no such file"),
    (["sql", SQL, "--input", "empty.txt"], 1, "the format is not clear from its name"),
    (["sql", SQL, "--input", "t=names.csv"], 2, "FROM names s only"),
    (["sql", SQL, "--input", "names.csv", "--rows", "-1"], 2, "--rows"),
    (["sql", SQL, "--input", "names.csv", "--set", "lag=1"], 1, "there is no key lag"),
    (["sql", "SELECT 1 FROM (SELECT 1)", "--input", "names.csv"], 1, "reads no stream or table"),
    (["test"], 2, "Missing argument 'CASES...'"),
    (["nosuch"], 2, "No such command 'nosuch'"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "names.csv").write_text("1,one\n")
    (tmp_path / "empty.sql").touch()
    (tmp_path / "empty.txt").touch()
    for name in ("latin.sql", "latin.toml"):
        (tmp_path / name).write_bytes(b"SELECT '\xe9'")
    monkeypatch.chdir(tmp_path)

    def no_spark(*arguments, **options):
        raise AssertionError("Spark is started")

    monkeypatch.setattr(session, "ensure_java", no_spark)
    return tmp_path


def failure(*arguments):
    """Return the exit code and the message of a command, which is short."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code != 0
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "tidegate itself failed" not in result.stderr
    assert len(result.stderr.splitlines()) < 30
    return result.exit_code, result.stderr


@pytest.mark.parametrize(("old", "new", "what"), FILES)
def test_check_and_run_refuse_a_wrong_pipeline_file_alike(folder, old, new, what):
    assert old in PIPELINE
    (folder / "pipeline.toml").write_text(PIPELINE.replace(old, new, 1))
    before = sorted(os.listdir(folder))
    code, said = failure("check", "pipeline.toml")
    assert code == 1
    assert what in said
    assert failure("run", "pipeline.toml", "--once")[0] == 1
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(("arguments", "code", "what"), CALLS, ids=lambda value: str(value)[:50])
def test_a_wrong_command_is_told_in_a_message(folder, arguments, code, what):
    assert failure(*arguments)[0] == code
    assert what in failure(*arguments)[1]


def test_the_pipeline_of_these_tests_is_right(folder):
    (folder / "pipeline.toml").write_text(PIPELINE)
    checked = CliRunner().invoke(main, ["check", "pipeline.toml"])
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert checked.stdout.startswith("counts: ok\n  results go to out (json): exactly once ")


def test_a_byte_order_mark_is_no_part_of_a_file(folder):
    (folder / "pipeline.toml").write_text("\ufeff" + PIPELINE, encoding="utf-8")
    (folder / "query.sql").write_text("\ufeff" + SQL, encoding="utf-8")
    for file in ("pipeline.toml", "query.sql"):
        assert CliRunner().invoke(main, ["check", file]).exit_code == 0


def test_a_bug_of_our_own_is_told_in_a_message_and_its_trace_is_behind_verbose(monkeypatch):
    def broken(*arguments):
        raise KeyError("lost")

    monkeypatch.setattr(sys.modules["tidegate.cli.check"], "_plans", broken)
    result = CliRunner().invoke(main, ["check", "--sql", SQL])
    assert result.exit_code == 1
    assert result.stderr.startswith("tidegate itself failed: KeyError: 'lost'\n\nThis is a bug.")
    assert "Traceback" not in result.stderr
    result = CliRunner().invoke(main, ["--verbose", "check", "--sql", SQL])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
