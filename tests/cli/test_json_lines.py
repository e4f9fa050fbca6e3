"""What a run prints: JSON in each line, and exit codes."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from docs.pages import first_cells, section
from tidegate.cli import main
from tidegate.cli.exits import EXIT_CODES
from tidegate.cli.json_lines import JsonProgress
from tidegate.cli.progress import Note, Totals
from tidegate.metrics.report import BatchReport, Dropped

NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def report(**more: object) -> BatchReport:
    facts: dict[str, object] = {
        "batch_id": 4,
        "epoch": 5,
        "clock_us": 1_767_268_800_000_000,
        "watermark_us": None,
        "rows_in": 30,
        "late": 2,
        "closed_windows": 3,
        "dropped": Dropped(timeout=1),
        "phases_ms": {"ingest": 40, "close": 50},
        "duration_ms": 100,
    }
    return BatchReport(**{**facts, **more})  # type: ignore[arg-type]


def test_a_batch_is_one_line_with_all_its_numbers(capsys) -> None:
    progress = JsonProgress(now=lambda: NOON)
    progress.batch("delays", report())
    progress.batch("delays", report(kind="drain", watermark_us=0))
    printed = capsys.readouterr()
    assert printed.err == ""
    batch, drain = map(json.loads, printed.out.splitlines())
    assert list(batch)[:5] == ["time", "level", "event", "query", "rows_in"]
    expected = {
        "time": "2026-01-01T12:00:00.250Z",
        "level": "info",
        "event": "batch",
        "query": "delays",
        "batch_id": 4,
        "epoch": 5,
        "rows_in": 30,
        "rows_per_second": 300,
        "late": 2,
        "closed_windows": 3,
        "clock": "2026-01-01T12:00:00Z",
        "watermark": None,
        "dropped": {"rate_limit": 0, "timeout": 1, "sink_failed": 0, "not_reinjected": 0},
        "phases_ms": {"ingest": 40, "close": 50},
        "duration_ms": 100,
    }
    assert {name: batch[name] for name in expected} == expected
    assert (drain["event"], drain["watermark"]) == ("drain", "1970-01-01T00:00:00Z")
    assert progress.totals["delays"].batches == 1
    cells = [row[0] for row in first_cells(section("operations.md", "Logs"))]
    assert set(batch) <= set(re.findall(r"`(\w+)`", " ".join(cells)))


def test_everything_else_is_a_line_on_the_standard_error(capsys) -> None:
    note = Note(text='a "quoted"\nline', level="warning", event="restart", facts={"attempt": 2})
    JsonProgress(now=lambda: NOON).note(note)
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert json.loads(line) == {
        "time": "2026-01-01T12:00:00.250Z",
        "level": "warning",
        "event": "restart",
        "message": 'a "quoted"\nline',
        "attempt": 2,
    }


def test_the_failure_that_ends_a_run_is_a_line_too(tmp_path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[pipeline]\nlog = "json"\n')
    for options in (["--log-format", "json"], []):
        result = CliRunner().invoke(main, ["run", str(file), *options])
        assert result.exit_code == 1
        if options:
            (line,) = result.stderr.splitlines()
            told = json.loads(line)
            assert (told["event"], told["level"], told["exit_code"]) == ("failure", "error", 1)
            assert "checkpoint is missing" in told["message"]
        else:
            # The file cannot be read, and so neither what it says of the log.
            assert result.stderr.startswith("pipeline.toml: sources is missing")


def test_a_drain_or_flush_is_no_batch_also_if_it_comes_first() -> None:
    totals = Totals()
    names = [totals.add(report(kind=kind)) for kind in ("drain", "batch", "flush")]
    assert names == ["drain", "batch 4", "flush"]
    assert totals.batches == 1


def test_the_table_of_exit_codes_is_in_the_docs() -> None:
    told = [tuple(row) for row in first_cells(section("cli.md", "Exit codes"))[1:]]
    assert told == [(str(each.code), each.meaning) for each in EXIT_CODES]


@pytest.mark.parametrize(
    ("stops_it", "code"), [(KeyboardInterrupt(), 130), (ValueError("a bug"), 1)]
)
def test_ctrl_c_ends_a_command_without_a_word(monkeypatch, stops_it, code) -> None:
    def stopped(*arguments: object) -> None:
        raise stops_it

    monkeypatch.setattr(sys.modules["tidegate.cli.check"], "_plans", stopped)
    result = CliRunner().invoke(main, ["check", "--sql", "SELECT 1"])
    assert result.exit_code == code
    assert (result.stderr == "") == (code == 130)
