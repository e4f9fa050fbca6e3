"""``tidegate run`` of transforms that read one source: once, and with the answers of each alone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tidegate.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "json"
path = "in"
schema = "ts TIMESTAMP, page STRING"
max_files_per_trigger = 1
"""
TRANSFORM = """
[transforms.{name}]
sql = '''
SELECT {key} AS page, count(*) AS n, window_start() AS s FROM clicks
GROUP BY tumblingwindow('ss', 10), {key} ON ts
'''
{more}
[sinks.{name}]
from = "{name}"
format = "json"
path = "{name}"
"""
KEYS = {"by_page": "page", "by_length": "length(page)", "all": "'all'"}
FILES = (
    (("10:00:01", "a"), ("10:00:09", "bb"), ("10:00:12", "a")),
    (("10:00:15", "c"), ("10:00:21", "bb")),
    (("10:00:33", "a"), ("10:00:24", "a")),
)


def write(folder: Path, number: int) -> None:
    file = folder / "in" / f"{number}.json"
    file.parent.mkdir(exist_ok=True)
    lines = [f'{{"ts": "2026-01-01T{ts}Z", "page": "{page}"}}\n' for ts, page in FILES[number]]
    file.write_text("".join(lines))
    os.utime(file, (1_000_000_000 + number,) * 2)


def run(folder: Path, *names: str, more: str = "", end: str = "--once") -> str:
    transforms = (TRANSFORM.format(name=name, key=KEYS[name], more=more) for name in names)
    (folder / "pipeline.toml").write_text(HEAD + "".join(transforms))
    options = ["--once", *([] if end == "--once" else [end])]
    result = CliRunner().invoke(main, ["run", str(folder / "pipeline.toml"), *options])
    assert result.exit_code == 0, result.output
    return result.output


def results(folder: Path, name: str) -> list[tuple[str, str, int]]:
    files = (folder / name).rglob("*.json")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted((row["s"][11:19], str(row["page"]), row["n"]) for row in rows)


def reading(folder: Path) -> list[str]:
    """The transforms in whose checkpoints a source has noted what it has read."""
    return sorted(path.parts[-2] for path in (folder / "checkpoint").glob("*/sources"))


EXPECTED = {
    "by_page": [
        ("10:00:00", "a", 1),
        ("10:00:00", "bb", 1),
        ("10:00:10", "a", 1),
        ("10:00:10", "c", 1),
        ("10:00:20", "a", 1),
        ("10:00:20", "bb", 1),
        ("10:00:30", "a", 1),
    ],
    "by_length": [
        ("10:00:00", "1", 1),
        ("10:00:00", "2", 1),
        ("10:00:10", "1", 2),
        ("10:00:20", "1", 1),
        ("10:00:20", "2", 1),
        ("10:00:30", "1", 1),
    ],
    "all": [
        ("10:00:00", "all", 2),
        ("10:00:10", "all", 2),
        ("10:00:20", "all", 2),
        ("10:00:30", "all", 1),
    ],
}


@pytest.mark.usefixtures("interpreted")
def test_a_source_is_read_once_while_transforms_come_and_go(tmp_path: Path) -> None:
    write(tmp_path, 0)
    told = run(tmp_path, "by_page", "by_length")
    assert "by_page and by_length read their source together" in told
    # In another order, and with a transform that was not there: it reads all by itself.
    write(tmp_path, 1)
    told = run(tmp_path, "all", "by_length", "by_page")
    assert "all reads its source alone: by_page has begun before it" in told
    assert reading(tmp_path) == ["all", "by_page"]
    # Spark's progress is in the checkpoint of the one that has gone.
    write(tmp_path, 2)
    run(tmp_path, "by_length", "all", end="--drain")
    assert reading(tmp_path) == ["all", "by_page"]
    for name in ("by_length", "all"):
        assert results(tmp_path, name) == EXPECTED[name]
    assert results(tmp_path, "by_page") == EXPECTED["by_page"][:4]


@pytest.mark.whole
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("more", ["", "reads_alone = true"])
def test_transforms_have_the_same_answers_together_and_apart(tmp_path: Path, more: str) -> None:
    for number in range(len(FILES)):
        write(tmp_path, number)
    run(tmp_path, *KEYS, more=more, end="--drain")
    assert reading(tmp_path) == (sorted(KEYS) if more else ["by_page"])
    for name, expected in EXPECTED.items():
        assert results(tmp_path, name) == expected
    if more:
        # What began apart goes on so, and EXPLAIN says how to change it.
        run(tmp_path, *KEYS)
        explained = CliRunner().invoke(main, ["check", str(tmp_path / "pipeline.toml")])
        assert "it has begun by itself, and its checkpoint goes on so; to join" in explained.stdout
        assert reading(tmp_path) == sorted(KEYS)


@pytest.mark.usefixtures("interpreted")
def test_a_failure_names_its_transform_and_all_that_stop_with_it(tmp_path: Path) -> None:
    write(tmp_path, 0)
    names = ("by_page", "by_length")
    transforms = "".join(TRANSFORM.format(name=name, key=KEYS[name], more="") for name in names)
    wrong = transforms.replace('path = "by_length"', 'path = "/proc/nowhere/out"')
    (tmp_path / "pipeline.toml").write_text(HEAD + wrong)
    result = CliRunner().invoke(main, ["run", str(tmp_path / "pipeline.toml"), "--once"])
    assert result.exit_code == 1
    assert "by_length: the query stopped in a batch: /proc/nowhere" in result.stderr
    assert "by_page is part of the same query and stopped with it; a restart" in result.stderr
