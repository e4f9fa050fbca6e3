"""``tidegate top``, on a screen of a given width."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from monitor.jobs import PretendedJob
from state.manifests import SECOND
from tidegate.cli import main
from tidegate.monitor.top import Top
from tidegate.monitor.watch import Watch
from tidegate.monitor.words import clock_time, plain, seconds, short, sparkline
from tidegate.state.shard_map import Shard
from tidegate.state.watermark import WatermarkState

NOW = 1_000 * SECOND


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("per_page", "slow"):
        job = PretendedJob(checkpoint=tmp_path / name)
        for second in range(0, 30, 2):
            clicks = [(NOW + second * SECOND - n * SECOND, f"/{n}") for n in range(3)]
            job.step(NOW + second * SECOND, [*clicks, (NOW - 60 * SECOND, "/late")])
    return tmp_path


def screen(folder: Path, chosen: str | None = None, width: int = 78) -> list[str]:
    watch = Watch([str(folder)])
    watch.look()
    watch.ask(chosen or "per_page")
    watch.read()
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    console = Console(file=out, width=width, force_terminal=False)
    console.print(Top(watch.followers, chosen))
    out.seek(0)
    return [line.rstrip() for line in out.read().splitlines()]


def test_a_line_for_each_transform_and_one_of_them_in_detail(folder: Path) -> None:
    lines = screen(folder)
    assert [line.split() for line in lines[:2] if line] == [
        ["transform", "status", "rows/s", "watermark", "lag", "late", "open", "out", "step"],
    ]
    (line,) = (line.split() for line in lines if line.startswith(" slow"))
    assert line[:4] == ["slow", "running", "2", "00:17:04"]
    assert any(line.startswith("per_page · tumbling") for line in lines)
    (rate,) = (line for line in lines if line.startswith("rows/s"))
    assert rate.endswith("2")
    assert "█████" in rate


def test_windows_are_drawn_against_the_watermark(folder: Path) -> None:
    lines = screen(folder)
    place = next(i for i, line in enumerate(lines) if line.strip() == "W 00:17:04")
    bars = lines[place + 1 : place + 4]
    assert [bar.split()[-4:-2] for bar in bars] == [
        ["00:16:50", "closed"],
        ["00:17:00", "closed"],
        ["00:17:10", "open"],
    ]
    column = lines[place].index("W")
    assert {bar[column] for bar in bars} == {"│"}


def test_the_newest_results_and_side_output_are_lines(folder: Path) -> None:
    lines = screen(folder)
    place = lines.index("latest results")
    assert lines[place + 1].startswith('{"page": "/')
    assert lines[lines.index("side output") + 1].startswith('{"kind": "late", "reason":')


def test_shards_are_shown_with_their_rows(tmp_path: Path) -> None:
    shards = {
        name: Shard(event_time_us=NOW + n * SECOND, clock_us=NOW, name=name, rows=9, counts={})
        for n, name in enumerate(("d", "c", "b"))
    }
    shards["x"] = Shard(event_time_us=NOW - SECOND, clock_us=NOW, rows=1_200, counts={"late": 3})
    watermark = WatermarkState(shards=shards, watermark_us=NOW, by="device: string")
    PretendedJob(checkpoint=tmp_path / "per_page").step(NOW, [], watermark=watermark)
    lines = screen(tmp_path)
    place = lines.index("shards 4, furthest behind")
    assert lines[place + 1 : place + 4] == [
        "NULL · 00:16:39 · rows 1,200 · late 3",
        "d · 00:16:40 · rows 9",
        "c · 00:16:41 · rows 9",
    ]


def test_a_narrow_screen_still_has_the_names(folder: Path) -> None:
    lines = screen(folder, width=50)
    assert max(map(len, lines)) <= 50
    (line,) = (line.split() for line in lines if line.startswith(" per_page"))
    assert line == ["per_page", "running", "2", "00:17:04", "4", "s"]


def test_text_of_data_cannot_control_the_terminal(tmp_path: Path) -> None:
    job = PretendedJob(checkpoint=tmp_path / "a\x1b[31m[red]b")
    job.step(NOW, [(NOW, "/")])
    shown = "\n".join(screen(tmp_path))
    assert "\x1b" not in shown
    assert "a\N{REPLACEMENT CHARACTER}[31m[red]b" in shown


def test_a_damaged_checkpoint_is_told(folder: Path) -> None:
    (folder / "per_page" / "tidegate" / "manifests" / "99.json").write_text("{")
    shown = " ".join(screen(folder))
    assert "problem" in shown
    assert "99.json is not a valid manifest" in shown


def test_once_prints_one_screen(folder: Path) -> None:
    result = CliRunner().invoke(main, ["top", str(folder), "--once", "--transform", "slow"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "slow · tumbling" in result.stdout


def test_a_name_that_no_transform_has_is_refused(folder: Path) -> None:
    result = CliRunner().invoke(main, ["top", str(folder), "--once", "--transform", "fast"])
    assert result.exit_code == 2
    assert "There is no transform fast, but per_page, slow." in result.stderr


def test_a_folder_without_a_checkpoint_is_told_and_waited_for(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["top", str(tmp_path / "later"), "--once"])
    assert (result.exit_code, result.stdout) == (0, "No transform has begun yet.\n")
    assert result.stderr == (
        f"{tmp_path}/later does not exist yet; it is shown as soon as it does\n"
    )


def test_keys_choose_a_transform_and_end_it(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tidegate", "top", str(folder)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "90", "LINES": "40"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    seen = b""

    def until(text: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 30
        while text not in seen and time.monotonic() < end:
            seen += os.read(ours, 65_536)
        assert text in seen

    until("per_page · tumbling".encode())
    os.write(ours, b"\t")
    until("slow · tumbling".encode())
    os.write(ours, b"q")
    try:
        while os.read(ours, 65_536):
            pass
    except OSError:
        pass  # The terminal has been closed.
    assert process.wait(timeout=10) == 0
    os.close(ours)


def test_numbers_in_few_characters() -> None:
    assert [short(n) for n in (None, 0, 7, 950, 999.9, 1_234, 5_600_000)] == [
        "-",
        "0",
        "7",
        "950",
        "1k",
        "1.23k",
        "5.6M",
    ]
    assert [seconds(n) for n in (None, 0, 0.12, 3.5, 90, 150, 7_300)] == [
        "-",
        "0 s",
        "120 ms",
        "3.5 s",
        "90 s",
        "2.5 min",
        "2.03 h",
    ]
    assert clock_time(NOW, NOW) == "00:16:40"
    assert clock_time(NOW, 90_000 * SECOND) == "1970-01-01 00:16:40"
    assert sparkline([None, 0, 4, 8], 3, utf8=False) == "_=@"
    assert plain("a\tb") == "a\N{REPLACEMENT CHARACTER}b"
