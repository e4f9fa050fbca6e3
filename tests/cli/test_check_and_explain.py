import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli import main

SQL = "SELECT v, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), v"
SCHEMA = "ts TIMESTAMP, v INT"
PIPELINE = '''\
[pipeline]
checkpoint = "checkpoint"

[sources.s]
format = "json"
path = "in"
schema = "ts TIMESTAMP, v INT"

[transforms.counts]
sql = """
SELECT v, count(*) AS n
FROM s GROUP BY tumblingwindow('ss', 10), v
"""
event_time_field = "ts"

[sinks.out]
from = "counts"
format = "console"
'''


CONSOLE = "results go to out (console): at least once"


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "in").mkdir()

    def write(old="", new=""):
        assert old in PIPELINE
        file = tmp_path / "pipeline.toml"
        file.write_text(PIPELINE.replace(old, new))
        return str(file)

    return write


def tidegate(*arguments):
    return CliRunner().invoke(main, arguments)


def test_a_valid_pipeline_is_ok(pipeline):
    result = tidegate("check", pipeline())
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"counts: ok\n  {CONSOLE}\n", "")


def test_what_each_sink_guarantees_is_shown(pipeline):
    late = """
[transforms.counts.side_output]
late.sink = "unused"
error.sink = "unused"

[sinks.unused]
format = "json"
path = "unused"

[sinks.out]"""
    file = pipeline("\n[sinks.out]", late)
    json_line = (
        "late and error rows go to unused (json): exactly once (a replay replaces the epoch)"
    )
    checked = tidegate("check", file).stdout
    assert checked == f"counts: ok\n  {CONSOLE}\n  {json_line}\n"
    assert tidegate("explain", file).stdout.endswith(f"\nSinks\n  {CONSOLE}\n  {json_line}\n\n")
    sinks = json.loads(tidegate("explain", "--json", file).stdout)["sinks"]
    assert [sink["guarantee"] for sink in sinks] == [
        "at least once",
        "exactly once (a replay replaces the epoch)",
    ]


def test_a_mistake_in_sql_is_shown_at_its_line_of_the_pipeline_file(pipeline):
    result = tidegate("check", pipeline("tumblingwindow('ss', 10)", "tumblingwindow('ss')"))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(
        "pipeline.toml, transforms.counts.sql, line 12, column 17: tumblingwindow takes "
    )
    assert "\n  12 | FROM s GROUP BY tumblingwindow('ss'), v\n" in result.stderr


def test_a_setting_that_names_no_column_is_shown_at_its_line(pipeline):
    result = tidegate("check", pipeline('"ts"\n', '"tss"\n'))
    assert result.exit_code == 1
    assert result.stderr.startswith("pipeline.toml, line 14: transforms.counts: event_time_field")
    assert '\n  14 | event_time_field = "tss"\n' in result.stderr


def test_explain_lists_malformed_records_as_row_errors_where_they_are_told(pipeline):
    def row_errors(*change):
        result = tidegate("explain", "--json", pipeline(*change))
        assert result.exit_code == 0
        return json.loads(result.stdout)["row_errors"]["of_rows"]

    told = {"expression": "a record of s", "reasons": {"malformed_record": ["a record of s"]}}
    assert row_errors() == [told]
    assert " a record of s: malformed_record\n" in tidegate("explain", pipeline()).stdout
    assert row_errors('"ts"\n\n[sinks', '"ts"\nerror_policy = "null"\n\n[sinks') == []
    for change in ('format = "parquet"\npath', 'options.mode = "FAILFAST"\nformat = "json"\npath'):
        assert row_errors('format = "json"\npath', change) == []


def test_early_results_into_a_sink_that_only_adds_are_refused_at_its_line(pipeline):
    early = ', v\nEMIT EARLY EVERY INTERVAL \'10\' SECOND\n"""'
    result = tidegate("check", pipeline(', v\n"""', early))
    assert result.exit_code == 1
    assert result.stderr.startswith(
        'pipeline.toml, line 19: sinks.out: format = "console": it cannot take the provisional '
    )


def test_results_that_their_sink_cannot_hold_are_refused_at_its_line(pipeline):
    file = pipeline("count(*) AS n", "collect_list(v) AS n")
    assert tidegate("check", file).exit_code == 0
    text = Path(file).read_text().replace('"console"', '"csv"\npath = "out"')
    Path(file).write_text(text)
    result = tidegate("check", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "pipeline.toml, line 18: sinks.out: format csv cannot hold the column n ARRAY<INT> of the "
    )


def test_a_key_that_is_no_expression_over_the_results_is_refused_at_its_line(pipeline):
    options = 'options = {"kafka.bootstrap.servers" = "h:1", topic = "t"}'
    result = tidegate("check", pipeline('"console"', f'"kafka"\nkey = "w + 1"\n{options}'))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        'pipeline.toml, line 19: sinks.out: key = "w + 1": the results have no column w\n'
    )
    assert "They have v and n." in result.stderr


def test_all_wrong_transforms_are_reported(pipeline):
    second = '[transforms.more]\nsql = "SELECT 1 FROM t"\n[sinks.more]\nfrom = "more"\n'
    file = pipeline("[sinks.out]", f'{second}format = "console"\n[sinks.out]')
    with open(file) as lines:
        text = lines.read().replace("'ss', 10", "'ss'")
    with open(file, "w") as lines:
        lines.write(text)
    result = tidegate("check", file)
    assert result.exit_code == 1
    assert "transforms.counts.sql" in result.stderr
    assert "transforms.more.sql" in result.stderr


def test_a_wrong_key_is_reported_without_a_traceback(pipeline):
    result = tidegate("check", pipeline("event_time_field", "event_time_feild"))
    assert result.exit_code == 1
    assert "there is no key event_time_feild" in result.stderr
    assert "Did you mean event_time_field?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_reported():
    result = tidegate("check", "nowhere.toml")
    assert result.exit_code == 1
    assert result.stderr.startswith("nowhere.toml: there is no such file")


def test_a_bare_statement_is_explained():
    result = tidegate("explain", "--sql", SQL, "--schema", SCHEMA, "--set", "event_time_field=ts")
    assert result.exit_code == 0
    assert "Logical plan" in result.stdout
    assert "ts, by the setting event_time_field" in result.stdout


def test_a_statement_can_be_in_an_sql_file(tmp_path):
    file = tmp_path / "counts.sql"
    file.write_text(SQL.replace("'ss', 10", "'ss'"))
    result = tidegate("check", str(file))
    assert result.exit_code == 1
    assert result.stderr.startswith("counts.sql, line 1, column 41:")


def test_a_plan_can_be_printed_as_json():
    result = tidegate("explain", "--sql", SQL, "--schema", SCHEMA, "--json")
    answer = json.loads(result.stdout)
    assert answer["name"] == "query"
    assert answer["statement"] == SQL


def test_a_pipeline_is_explained_transform_by_transform(pipeline):
    result = tidegate("explain", pipeline())
    assert result.exit_code == 0
    assert "Physical plan" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "Give a pipeline file, or a statement with --sql."),
        (["--sql", SQL, "pipeline.toml"], "Give a pipeline file, or a statement with --sql."),
        (["--set", "a=1", "pipeline.toml"], "--schema and --set go with a statement"),
        (["--sql", SQL, "--set", "lag"], "write KEY=VALUE"),
        (["--sql", SQL, "--schema", "t=v INT"], "the statement names s only"),
    ],
)
def test_a_wrong_call_is_a_usage_error(arguments, what):
    result = tidegate("check", *arguments)
    assert result.exit_code == 2
    assert what in result.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--schema", "v INTT"], "--schema: INTT is not a type of Spark SQL: did you mean INT?"),
        (["--set", "watermark_lagg=5m"], "Did you mean watermark_lag?"),
        (["--set", "max_groups=0"], "max_groups = 0: it must be greater than 0"),
    ],
)
def test_a_wrong_schema_or_setting_is_reported(arguments, what):
    result = tidegate("check", "--sql", SQL, *arguments)
    assert result.exit_code == 1
    assert what in result.stderr


def test_the_version_is_printed():
    result = tidegate("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("tidegate, version ")


def test_commands_are_listed_in_order_of_use():
    _, _, listed = tidegate("--help").stdout.partition("Commands:\n")
    names = [line.split()[0] for line in listed.splitlines()]
    of_a_run = ["run", "sql", "test", "replay"]
    of_its_state = ["state", "monitor", "top"]
    assert names == ["check", "explain", *of_a_run, *of_its_state, "init", "demo"]


@pytest.mark.parametrize("command", ["check", "explain"])
def test_check_and_explain_answer_in_under_a_second_and_leave_spark_alone(command, pipeline):
    code = (
        "import sys\n"
        "from tidegate.cli import main\n"
        f"main(['{command}', {pipeline()!r}], standalone_mode=False)\n"
        "sys.exit(any(name.partition('.')[0] in ('pyspark', 'py4j') for name in sys.modules))\n"
    )

    libraries = "import click, pydantic, sqlglot.dialects.spark"

    def seconds(code):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = os.times()
        user = after.children_user - before.children_user
        return user + after.children_system - before.children_system

    # The time of the processor, and the least of a few: the machine may be busy with other things.
    # Where it is slow at the moment, the libraries alone take long, which say how slow.
    times = [(seconds(code), seconds(libraries)) for _ in range(5)]
    allowed = max(1, 4 * min(alone for _, alone in times))
    assert min(whole for whole, _ in times) < allowed


def union(pipeline, *, name="both", schema="v INT, ts TIMESTAMP"):
    more = f'''\
[sources.more]
format = "json"
path = "in"
schema = "{schema}"

[transforms.counts]
sources = ["s", "more"]
'''
    file = pipeline("[transforms.counts]\n", more)
    text = Path(file).read_text()
    Path(file).write_text(text.replace("FROM s ", f"FROM {name} "))
    return file


def test_a_transform_may_read_several_sources_as_one(pipeline):
    result = tidegate("explain", union(pipeline))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "shard         source, by the source's metadata" in result.stdout
    assert "columns       ts TIMESTAMP, v INT" in result.stdout


def test_a_statement_may_unite_sources(pipeline):
    file = union(pipeline, name="s UNION ALL more")
    text = Path(file).read_text()
    Path(file).write_text(text.replace('sources = ["s", "more"]\n', ""))
    result = tidegate("explain", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "shard         source, by the source's metadata" in result.stdout
    assert "DataSource#4 (name=(s UNION ALL more))" in result.stdout
    Path(file).write_text(
        text.replace('sources = ["s", "more"]\n', "").replace("ALL more", "ALL x")
    )
    result = tidegate("check", file)
    assert result.exit_code == 1
    assert "there is no stream or table x" in result.stderr


@pytest.mark.parametrize(
    ("name", "schema", "what", "mend"),
    [
        (
            "s",
            "v INT, ts TIMESTAMP",
            'sources = ["s", "more"]: FROM does not name the stream that they are read as',
            "Write any name in FROM that is not one of a source or table, e.g. FROM events.",
        ),
        (
            "both",
            "v BIGINT, ts TIMESTAMP",
            'sources = ["s", "more"]: their columns differ: v is INT in s and BIGINT in more',
            "Only sources with the same columns can be read as one stream.",
        ),
    ],
    ids=["the name of a source", "another type"],
)
def test_sources_that_cannot_be_read_as_one_are_told_at_their_line(
    pipeline, name, schema, what, mend
):
    result = tidegate("check", union(pipeline, name=name, schema=schema))
    assert result.exit_code == 1
    assert f"pipeline.toml, line 15: transforms.counts: {what}" in result.stderr
    assert mend in result.stderr


MINUTES = """
SELECT v, sum(n) AS n FROM counts GROUP BY tumblingwindow('mi', 1), v
"""


def reader(pipeline, sql=MINUTES, **more):
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    section = f'[transforms.minutes]\nsql = """{sql}"""\n{settings}\n'
    sink = '[sinks.great]\nfrom = "minutes"\nformat = "console"\n\n'
    return pipeline("[sinks.out]", f"{section}{sink}[sinks.out]")


def test_a_transform_may_read_another_one(pipeline):
    file = reader(pipeline)
    result = tidegate("check", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "counts: ok",
        f"  {CONSOLE}",
        "  results are read by minutes",
        "minutes: ok",
        "  results go to great (console): at least once",
    ]
    text = tidegate("explain", file).stdout
    assert "watermark     the closing of the windows of counts: no row is late" in text
    assert "reads         the results of counts" in text
    assert "columns       v INT, n BIGINT" in text
    first, second = json.loads(tidegate("explain", file, "--json").stdout)
    assert (first["readers"], second["readers"]) == (["minutes"], [])
    assert second["watermark"]["follows"] == "counts"


def test_a_transform_that_another_one_reads_needs_no_sink(pipeline):
    text = Path(reader(pipeline)).read_text().replace('from = "counts"', 'from = "minutes"')
    assert tidegate("check", reader_file(text, pipeline)).exit_code == 0
    unread = text.replace("FROM counts", "FROM s").replace("sum(n)", "count(v) AS counts, count(*)")
    result = tidegate("check", reader_file(unread, pipeline))
    assert result.exit_code == 1
    assert "transforms.counts: no sink takes its results" in result.stderr


def reader_file(text, pipeline):
    file = pipeline()
    Path(file).write_text(text)
    return file


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("FROM counts", "FROM minutes", "cannot read its own results: minutes reads minutes"),
        ("FROM s", "FROM minutes", "read its own results: counts reads minutes reads counts"),
        ("FROM counts", "FROM count", "there is no stream or table count"),
        ("FROM counts", "FROM counts UNION ALL s", "counts is a transform, and UNION ALL"),
        ("sum(n)", "sum(m)", "there is no column m in counts"),
        ("', 1), v", "', 1), v ON v", "v is not a time of the windows of counts"),
        (
            "[sinks.great]",
            'side_output.error = { sink = "reinject", reinject_to = "s" }\n[sinks.great]',
            "rows cannot go back: they are results of counts",
        ),
    ],
)
def test_a_transform_that_cannot_read_another_one_is_told_at_its_place(pipeline, old, new, what):
    text = Path(reader(pipeline)).read_text()
    assert old in text
    result = tidegate("check", reader_file(text.replace(old, new), pipeline))
    assert result.exit_code == 1
    assert what in result.stderr
    assert "pipeline.toml, " in result.stderr


def company(pipeline, sql="SELECT max(v) AS v FROM s GROUP BY tumblingwindow('ss', 5)", **more):
    settings = {"reads_with": "counts", "event_time_field": "ts", **more}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    section = f'[transforms.other]\nsql = "{sql}"\n{lines}\n'
    sink = '[sinks.other]\nfrom = "other"\nformat = "console"\n\n'
    return pipeline("[sinks.out]", f"{section}{sink}[sinks.out]")


def test_transforms_may_read_their_source_together(pipeline):
    result = tidegate("check", company(pipeline))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "  its source is read together with counts\n" in result.stdout


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"reads_with": "count"}, "there is no other transform count\n"),
        ({"reads_with": "other"}, "there is no other transform other\n"),
        ({"error_policy": "null"}, "their error_policy differs"),
        (
            {"sql": "SELECT max(v) AS v FROM (SELECT * FROM s) GROUP BY tumblingwindow('ss', 5)"},
            "FROM of other does more than read a source",
        ),
    ],
)
def test_transforms_that_cannot_read_together_are_told_at_the_line(pipeline, more, what):
    result = tidegate("check", company(pipeline, **more))
    assert result.exit_code == 1
    assert 'reads_with = "' in result.stderr
    assert what in result.stderr
