"""The commands on Spark: ``run`` as a user runs it, in processes of its own; others in this one."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from short_lived import SHORT_LIVED
from tidegate.cli import main

PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"
spark.master = "local[2]"
spark.sql.shuffle.partitions = 1

[sources.clicks]
format = "json"
path = "in"
schema = "ts TIMESTAMP, page STRING"
max_files_per_trigger = 1

[transforms.counts]
sql = '''
SELECT page, count(*) AS n, window_start() AS s
FROM clicks GROUP BY tumblingwindow('ss', 10), page
'''
event_time_field = "ts"
side_output.late.sink = "late"

[sinks.out]
from = "counts"
format = "json"
path = "out"

[sinks.late]
format = "json"
path = "late"
"""
OF_THE_SESSION = 'spark.master = "local[2]"\nspark.sql.shuffle.partitions = 1\n'
FILES = (
    (("10:00:01", "a"), ("10:00:09", "a"), ("10:00:12", "b")),
    (("10:00:03", "a"), ("10:00:21", "b")),
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    for place, rows in enumerate(FILES):
        file = tmp_path / "in" / f"{place}.json"
        file.write_text(
            "".join(f'{{"ts": "2026-01-01T{ts}Z", "page": "{page}"}}\n' for ts, page in rows)
        )
        os.utime(file, (1_000_000_000 + place, 1_000_000_000 + place))
    return tmp_path


def command(*arguments):
    return [sys.executable, "-m", "tidegate", *map(str, arguments)]


def without_java_options(errors: str):
    """The lines on the standard error, but the one of Java on the options that tests give it."""
    return [line for line in errors.splitlines() if not line.startswith("Picked up JAVA_")]


def rows(folder: Path):
    files = sorted(folder.rglob("*.json"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted((row["s"][11:19], row["page"], row["n"]) for row in found)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


@pytest.mark.usefixtures("spark")
def test_a_stopped_run_ends_cleanly_and_a_drained_one_resumes_it(folder):
    process = subprocess.Popen(
        command("run", folder / "pipeline.toml", "--metrics-port", port := free_port()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=SHORT_LIVED,
        start_new_session=True,
    )
    assert process.stdout is not None
    shown = []
    for line in process.stdout:
        shown.append(line)
        if "batch 1" in line:
            break
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        metrics = answer.read().decode().splitlines()
    assert 'tidegate_rows_total{fate="late",transform="counts"} 1.0' in metrics
    late = 'reason="allowed_lateness_exceeded",transform="counts"'
    assert f"tidegate_side_output_written_total{{{late}}} 1.0" in metrics
    assert 'tidegate_restarts_total{cause="kafka",transform="counts"} 0.0' in metrics
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        health = json.load(answer)["queries"]["counts"]
    assert (health["state"], health["batch_id"]) == ("running", 1)
    assert health["last_batch_age_seconds"] >= 0
    # What reads the output is gone, as in ``| head -2``.
    process.stdout.close()
    (folder / "in" / "2.json").write_text('{"ts": "2026-01-01T10:00:22Z", "page": "b"}\n')
    until((folder / "checkpoint" / "counts" / "commits" / "2").exists)
    # All processes are told, Spark's too, as systemd does it.
    os.killpg(process.pid, signal.SIGTERM)
    assert process.stderr is not None
    errors = process.stderr.read()
    assert process.wait(timeout=120) == 0
    assert without_java_options(errors) == [
        "cannot show progress: Broken pipe; the run continues",
        "stopping after the current batch; a second signal stops at once",
    ]
    first = next(line for line in shown if "batch 0" in line)
    assert "counts  batch 0  rows 3  " in first
    assert first.endswith("watermark 2026-01-01T10:00:12Z  closed 1  out 1  late 0  errors 0\n")
    assert rows(folder / "out") == [("10:00:00", "a", 2), ("10:00:10", "b", 1)]
    late = [json.loads(line) for f in (folder / "late").rglob("*.json") for line in open(f)]
    assert [(row["kind"], row["original_event"]["page"]) for row in late] == [("late", "a")]

    # In this process, which saves a start of Spark.
    (folder / "pipeline.toml").write_text(PIPELINE.replace(OF_THE_SESSION, ""))
    result = CliRunner().invoke(main, ["run", str(folder / "pipeline.toml"), "--once", "--drain"])
    assert result.exit_code == 0, result.output
    assert rows(folder / "out") == [
        ("10:00:00", "a", 2),
        ("10:00:10", "b", 1),
        ("10:00:20", "b", 2),
    ]


@pytest.mark.usefixtures("spark")
def test_transforms_that_read_another_one_or_its_source_run_with_it(folder):
    more = """
[transforms.minutes]
sql = '''
SELECT page, sum(n) AS n, window_start() AS s FROM counts GROUP BY tumblingwindow('mi', 1), page
'''

[sinks.minutes]
from = "minutes"
format = "json"
path = "minutes"

[transforms.all]
sql = '''
SELECT 'all' AS page, count(*) AS n, window_start() AS s FROM clicks
GROUP BY tumblingwindow('mi', 1) ON ts
'''
reads_with = "counts"

[sinks.all]
from = "all"
format = "json"
path = "all"
"""
    text = PIPELINE.replace(OF_THE_SESSION, "") + more
    (folder / "pipeline.toml").write_text(text)
    check = CliRunner().invoke(main, ["check", "--spark", str(folder / "pipeline.toml")])
    assert (check.exit_code, check.stderr) == (0, "")
    result = CliRunner().invoke(main, ["run", str(folder / "pipeline.toml"), "--once", "--drain"])
    assert result.exit_code == 0, result.output
    assert rows(folder / "minutes") == [("10:00:00", "a", 2), ("10:00:00", "b", 2)]
    assert rows(folder / "all") == [("10:00:00", "all", 5)]
    shown = [line for line in result.output.splitlines() if line[:1] in "acm"]
    assert "counts and all read their source together" in shown
    lines = [line.split("  ")[:3] for line in shown if "  " in line]
    # The step of the one that reads the results is committed first.
    assert lines[:3] == [
        ["minutes", "batch 0", "rows 1"],
        ["counts", "batch 0", "rows 3"],
        ["all", "batch 0", "rows 3"],
    ]
    assert [name for name, *_ in lines[-4:]] == ["minutes", "counts", "minutes", "all"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            'schema = "ts TIMESTAMP, page STRING"',
            'schema = "ts TIMESTAMP, page STRING, v DECIMAL(99)"',
            "pipeline.toml, line 4: sources.clicks: ",
        ),
        (
            'path = "out"',
            'path = "/proc/nowhere/out"',
            "counts: the query stopped in a batch: /proc/nowhere",
        ),
    ],
)
def test_what_only_spark_finds_is_told_in_a_line_at_its_place(folder, old, new, what):
    assert old in PIPELINE
    text = PIPELINE.replace(OF_THE_SESSION, "").replace(old, new)
    (folder / "pipeline.toml").write_text(text)
    result = CliRunner().invoke(main, ["run", str(folder / "pipeline.toml"), "--once"])
    assert result.exit_code == 1
    assert result.stderr.startswith(what)
    assert len(result.stderr.splitlines()) < 9


@pytest.mark.usefixtures("spark")
def test_a_missing_folder_of_a_source_is_reported_without_a_traceback(folder):
    of_the_session = 'spark.master = "local[2]"\nspark.sql.shuffle.partitions = 1\n'
    text = PIPELINE.replace('path = "in"', 'path = "inn"').replace(of_the_session, "")
    (folder / "pipeline.toml").write_text(text)
    log = logging.getLogger("tidegate")
    before = (log.handlers, log.level, log.propagate)
    result = CliRunner().invoke(main, ["run", str(folder / "pipeline.toml"), "--once"])
    assert result.exit_code == 1
    assert (log.handlers, log.level, log.propagate) == before, "the log goes where it went"
    assert result.stderr.startswith(
        "pipeline.toml, line 6: sources.clicks: "
        f'path = "{folder}/inn": there is no such file or folder'
    )
    assert isinstance(result.exception, SystemExit)


@pytest.mark.usefixtures("spark")
def test_a_statement_over_files_prints_its_answers_and_counts_what_failed(folder):
    call = "count(100 / (ascii(page) - ascii('b')))"
    sql = f"SELECT page, {call} AS n FROM clicks GROUP BY tumblingwindow('ss', 10), page"
    of_files = ["--input", str(folder / "in"), "--schema", "ts TIMESTAMP, page STRING"]
    how = ["--set", "event_time_field=ts", "--output", "csv"]
    result = CliRunner().invoke(main, ["sql", sql, *of_files, *how])
    assert result.exit_code == 0
    header, *lines = result.stdout.splitlines()
    assert header == "page,n"
    assert lines == ["a,3"]
    assert "2 rows or results left out: division_by_zero" in result.stderr.splitlines()


@pytest.mark.usefixtures("spark")
def test_a_statement_over_several_inputs_reads_each_with_the_options(folder):
    (folder / "clicks.csv").write_text(
        "ts;page\n2026-01-01T10:00:01Z;a\n2026-01-01T10:00:02Z;b\n2026-01-01T10:00:03Z;a\n"
    )
    (folder / "more.csv").write_text("ts;page\n2026-01-01T10:00:04Z;a\n")
    (folder / "pages.csv").write_text("page;title\na;'first; page'\nb;second\n")
    sql = (
        "SELECT title, count(*) AS n FROM clicks JOIN pages ON clicks.page = pages.page "
        "GROUP BY tumblingwindow('ss', 10), title ON ts"
    )
    inputs = [folder / "clicks.csv", folder / "more.csv", f"pages={folder / 'pages.csv'}"]
    words = [word for each in inputs for word in ("--input", str(each))]
    words += ["--option", "sep=;", "--option", "quote='", "--output", "json"]
    result = CliRunner().invoke(main, ["sql", sql, *words])
    assert result.exit_code == 0, result.output
    found = sorted(json.loads(line)["title"] for line in result.stdout.splitlines())
    assert found == ["first; page", "second"]
    assert sum(json.loads(line)["n"] for line in result.stdout.splitlines()) == 4
