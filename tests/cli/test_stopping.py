"""Stopping a run from outside, in its own processes: before Spark is up, and inside a batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.test_spark_commands import OF_THE_SESSION, PIPELINE, command, rows, until
from short_lived import SHORT_LIVED
from tidegate.cli import main

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
FILES = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    for minute in range(FILES):
        row = f'{{"ts": "2026-01-01T10:{minute:02}:01Z", "page": "a"}}\n'
        file = tmp_path / "in" / f"{minute:02}.json"
        file.write_text(row * 3)
        # Spark reads them in the order of their times.
        os.utime(file, (1_000_000_000 + minute, 1_000_000_000 + minute))
    return tmp_path


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a run, or another command, as a shell does, in a session of its own."""
    return subprocess.Popen(
        command(*(words or ("run", folder / "pipeline.toml"))),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**SHORT_LIVED, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def programs(session: int) -> dict[str, int]:
    """The programs that run in a session: a process of each, by its name."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue  # it has just ended
            facts = rest.split()
            if int(facts[3]) == session and facts[0] != "Z":
                found[name] = int(process.name)
    return found


def told(process: subprocess.Popen[str]) -> list[str]:
    """The lines on the standard error of a process that ends, but those of Java on its options."""
    _, errors = process.communicate(timeout=120)
    return [line for line in errors.splitlines() if not line.startswith("Picked up JAVA_")]


def ends_by_signals(process: subprocess.Popen[str]) -> bool:
    """Send a SIGTERM; whether the process has ended. Two that come too soon count as one."""
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.1)
    return process.returncode is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_while_java_starts_leaves_no_process_behind(folder, number):
    process = start(folder)
    until(lambda: "java" in programs(process.pid))
    process.send_signal(number)
    assert told(process) == ["stopped before Spark was up"]
    assert process.returncode == 0
    until(lambda: not programs(process.pid))
    assert not (folder / "checkpoint").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -15), (signal.SIGINT, 130)])
def test_any_other_command_that_is_stopped_while_java_starts_leaves_none_either(
    folder, number, code
):
    sql = "SELECT page, count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10), page ON ts"
    process = start(folder, "sql", sql, "--input", str(folder / "in"))
    until(lambda: "java" in programs(process.pid))
    process.send_signal(number)
    assert told(process) == []
    assert process.returncode == code
    until(lambda: not programs(process.pid))


@pytest.mark.usefixtures("spark")
def test_a_second_signal_ends_a_run_inside_a_batch_and_a_restart_goes_on_exactly(folder):
    process = start(folder)
    assert process.stdout is not None
    next(line for line in process.stdout if "batch" in line)
    java = programs(process.pid)["java"]
    os.kill(java, signal.SIGSTOP)  # so that no batch can end
    until(lambda: ends_by_signals(process))
    os.kill(java, signal.SIGCONT)
    told(process)
    assert process.returncode == -signal.SIGTERM
    until(lambda: not programs(process.pid))
    text = PIPELINE.replace(OF_THE_SESSION, "").replace("max_files_per_trigger = 1", "")
    (folder / "pipeline.toml").write_text(text)
    result = CliRunner().invoke(main, ["run", str(folder / "pipeline.toml"), "--once", "--drain"])
    assert result.exit_code == 0, result.output
    assert rows(folder / "out") == [(f"10:{minute:02}:00", "a", 3) for minute in range(FILES)]
