"""The commands of docs/tutorial.md, run one after the other, print what the page shows.

A line ``..`` stands for any lines, and ``..`` in a line for any text. Numbers that tell how fast
the machine is may differ.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "tutorial.md"

_SPEED = re.compile(r"rows/s +[\d,]+|[\d,]+ rows/s|\d+ s in all")


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts[0] == "", "a block begins with a command"
    return [(line, output) for line, _, output in (part.partition("\n") for part in parts[1:])]


def pattern(output: str) -> str:
    lines = [
        r"(?:.*\n)*?" if line == ".." else re.escape(line).replace(r"\.\.", ".*") + " *\n"
        for line in _SPEED.sub("SPEED", output).splitlines()
    ]
    return "".join(lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def run(command: str, folder: Path) -> str:
    """Run a command as a reader does, and return what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "TERM": "dumb", "COLUMNS": "110"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_the_commands_of_the_tutorial_print_what_it_shows(folder: Path) -> None:
    differing = []
    for block in blocks(PAGE):
        if block.language == "toml":
            (folder / "pipeline.toml").write_text(block.text, encoding="utf-8")
        if block.language != "console":
            continue
        for command, output in commands(block.text):
            printed = run(command, folder)
            if not re.fullmatch(pattern(output), _SPEED.sub("SPEED", printed)):
                differing.append(f"$ {command}\n{printed}")
    assert not differing, "\n".join(differing)
