"""Side output in a pipeline: what ``explain`` prints and what ``check`` refuses, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli import main

PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "json"
path = "in"
schema = "ts TIMESTAMP, page STRING"

[sources.others]
format = "json"
path = "in2"
schema = "ts TIMESTAMP, page STRING"

[transforms.counts]
sql = "SELECT page, count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10), page"
event_time_field = "ts"

[transforms.counts.side_output]
late = { sink = "late", include_original = false }
error = { sink = "reinject", reinject_to = "clicks", timeout = "5s" }
duplicate.sink = "metrics_only"

[sinks.out]
from = "counts"
format = "json"
path = "out"

[sinks.late]
format = "json"
path = "late"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("in", "in2"):
        (tmp_path / name).mkdir()
    return tmp_path


def run(folder: Path, command: str, text: str) -> tuple[int, str]:
    (folder / "pipeline.toml").write_text(text)
    result = CliRunner().invoke(main, [command, str(folder / "pipeline.toml")])
    return result.exit_code, result.output


def test_explain_prints_where_each_kind_goes(folder: Path) -> None:
    code, text = run(folder, "explain", PIPELINE)
    assert code == 0
    start = text.index("  side output")
    assert text[start : text.index("\n\n", start)] == (
        "  side output   late      -> late, without the original row, at most 30s in a batch\n"
        "                evicted   -> metrics_only: counted and dropped\n"
        "                error     -> back to clicks, once, at most 5s in a batch\n"
        "                duplicate -> metrics_only: counted and dropped"
    )
    code, text = run(folder, "check", PIPELINE)
    assert code == 0
    assert text.startswith("counts: ok\n")


SECOND = """
[transforms.more]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"
event_time_field = "ts"

[sinks.more]
from = "more"
format = "console"
"""


@pytest.mark.parametrize(
    ("old", "new", "what", "mend"),
    [
        (
            ', reinject_to = "clicks"',
            "",
            'line 20: transforms.counts.side_output.error: sink = "reinject" needs reinject_to',
            'Add reinject_to = "clicks".',
        ),
        (
            'reinject_to = "clicks"',
            'reinject_to = "others"',
            'line 20: transforms.counts.side_output.error: reinject_to is "others", but the '
            "statement reads clicks",
            'write reinject_to = "clicks".',
        ),
        (
            'reinject_to = "clicks"',
            'reinject_to = "clicks", include_original = false',
            "the original row is what goes back",
            "Remove include_original",
        ),
        (
            'late = { sink = "late"',
            'evicted.sink = "late"\nlate = { sink = "reinject", reinject_to = "clicks"',
            "late rows would be late again when they come back",
            "allow_reinject = true",
        ),
        (
            "FROM clicks",
            "FROM (SELECT * FROM clicks)",
            "FROM does more than read clicks",
            "Name a sink instead of reinject.",
        ),
        (
            "[sinks.late]",
            SECOND + "\n[sinks.late]",
            "rows cannot go back to clicks: more reads it too, and would count them twice",
            "Name a sink instead of reinject.",
        ),
        (
            'format = "json"\npath = "in"',
            'format = "text"\npath = "in"',
            'reinject_to = "clicks": rows cannot go back to format text',
            "They can go back to a folder of csv, json, parquet and orc, or to kafka; or name a",
        ),
    ],
)
def test_check_refuses_to_put_rows_back_where_they_do_not_fit(
    folder: Path, old: str, new: str, what: str, mend: str
) -> None:
    assert old in PIPELINE
    code, said = run(folder, "check", PIPELINE.replace(old, new, 1))
    assert code == 1
    assert what in said
    assert mend in said
