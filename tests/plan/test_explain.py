"""EXPLAIN against the goldens in ``explain/``: NAME.sql gives NAME.txt and, if it asks, NAME.json.

Comments above a statement declare its streams, tables and settings. After a change,
``TIDEGATE_WRITE_GOLDENS=1 pytest tests/plan`` rewrites the goldens for review.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate.compile import compile_statement
from tidegate.config.settings import read_settings
from tidegate.explain.render import WIDTH, explain_json, explain_text
from tidegate.plan.logical import LogicalPlan
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation
from tidegate.plan.windows import WINDOWS

FOLDER = Path(__file__).parent / "explain"
STATEMENTS = sorted(FOLDER.glob("*.sql"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A statement with everything needed to plan it."""

    sql: str
    relations: tuple[Relation, ...]
    settings: Settings
    as_json: bool


def read_example(path: Path) -> Example:
    comments, statement, relations, settings = [], [], [], []
    for line in path.read_text().splitlines(keepends=True):
        (comments if line.startswith("-- ") else statement).append(line.removeprefix("-- "))
    for comment in comments:
        word, _, rest = comment.strip().partition(" ")
        if word in ("stream", "table"):
            name, _, ddl = rest.partition(":")
            columns = parse_schema(ddl) if ddl else None
            relations.append(Relation(name=name, columns=columns, streaming=word == "stream"))
        elif word == "setting:":
            settings.append(rest)
        else:
            assert comment.strip() == "also as JSON", comment
    return Example(
        sql="".join(statement).strip(),
        relations=tuple(relations),
        settings=read_settings(tomllib.loads("\n".join(settings))),
        as_json="also as JSON\n" in comments,
    )


def plans(path: Path) -> tuple[LogicalPlan, PhysicalPlan]:
    example = read_example(path)
    compiled = compile_statement(example.sql, example.relations, example.settings)
    return compiled.logical, compiled.physical


def compare(text: str, golden: Path) -> None:
    if os.environ.get("TIDEGATE_WRITE_GOLDENS"):
        golden.write_text(text)
    assert golden.exists(), f"{golden.name} is missing: write it with TIDEGATE_WRITE_GOLDENS=1"
    assert text == golden.read_text()


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.stem)
def test_explain_text_is_the_golden(path: Path) -> None:
    compare(explain_text(*plans(path)), path.with_suffix(".txt"))


@pytest.mark.parametrize(
    "path", [path for path in STATEMENTS if read_example(path).as_json], ids=lambda path: path.stem
)
def test_explain_json_is_the_golden(path: Path) -> None:
    text = json.dumps(explain_json(*plans(path)), indent=2, ensure_ascii=False) + "\n"
    compare(text, path.with_suffix(".json"))


def test_every_golden_has_a_statement() -> None:
    goldens = {path.stem for path in FOLDER.iterdir() if path.suffix in (".txt", ".json")}
    assert goldens == {path.stem for path in STATEMENTS}


def test_the_goldens_show_every_window_kind_in_both_modes_and_both_paths() -> None:
    shown = [explain_json(*plans(path)) for path in STATEMENTS]
    assert {plan["window"]["kind"] for plan in shown} == {window.kind for window in WINDOWS}  # type: ignore[index, call-overload]
    modes = {plan["window"]["mode"] for plan in shown}  # type: ignore[index, call-overload]
    assert modes == {"event_time", "processing_time"}
    assert {plan["path"]["kind"] for plan in shown} == {"streaming", "rows"}  # type: ignore[index, call-overload]


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.stem)
def test_json_survives_a_round_trip(path: Path) -> None:
    explained = explain_json(*plans(path))
    assert json.loads(json.dumps(explained)) == explained


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.stem)
def test_lines_are_of_moderate_width(path: Path) -> None:
    wide = [line for line in explain_text(*plans(path)).splitlines() if len(line) > WIDTH + 20]
    assert wide == []
