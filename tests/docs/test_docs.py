"""The documentation is complete, and its examples work."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

import tidegate
from docs.pages import (
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    first_cells,
    links,
    page,
    section,
    statements,
)
from oracle.adapter import OracleEngine
from tidegate.api.query import Query
from tidegate.cases import COUNTERS, parse_cases, run_case
from tidegate.cases.blocks import BLOCKS
from tidegate.cases.spark import plan_only
from tidegate.cli import COMMANDS, main
from tidegate.compile import compile_statement
from tidegate.config.model import (
    PipelineSection,
    SettingsSection,
    SideOutputKindSection,
    SideOutputSection,
    SinkSection,
    SourceSection,
    TransformSection,
)
from tidegate.engine.faults import FAULT_POINTS
from tidegate.engine.rows.fates import Fate
from tidegate.engine.side_output.records import REASONS
from tidegate.errors import QueryError, TidegateError
from tidegate.frontend.grammar.dialect import STREAM_WINDOWS, TIME_WINDOWS
from tidegate.frontend.reading.parse import parse
from tidegate.metrics.report import BatchReport, Counts
from tidegate.plan.columns import WINDOW_FUNCTIONS
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.side_output import KINDS, RECORD, Drop
from tidegate.plan.statement import Relation
from tidegate.plan.windows import WINDOWS
from tidegate.state.manifest import Manifest, Segment
from tidegate.time import format_duration

# SQL blocks that are statements; others are fragments, such as the texts of an accumulator.
SQL_BLOCKS = [
    block
    for path in PAGES
    for block in blocks(path)
    if block.language == "sql" and re.search(r"^(SELECT|WITH)\b", block.text, re.MULTILINE)
]

# The relations of the examples in sql.md.
RELATIONS = (
    Relation(name="clicks", columns=parse_schema("ts TIMESTAMP, user STRING, page STRING, ms INT")),
    Relation(name="users", columns=parse_schema("user STRING, country STRING"), streaming=False),
)


def place(block: Block) -> str:
    return f"{block.page}:{block.line}"


def named(text: str) -> set[str]:
    """Return the code spans of a text."""
    return set(re.findall(r"`([^`\n]+)`", text))


def default_text(name: str) -> str:
    """Return the default of a setting as the table shows it."""
    value = SettingsSection.model_fields[name].default
    if isinstance(value, int):
        is_number = name in {field.name for field in fields(Settings)}  # durations end in _us
        return str(value) if is_number else format_duration(value)
    return "none" if value is None else value.value


@pytest.mark.parametrize("name", SettingsSection.model_fields)
def test_every_setting_is_in_the_table_of_settings_with_its_default(name):
    rows = {row[0]: row for row in first_cells(section("configuration.md", "Settings"))}
    assert f"`{name}`" in rows, f"docs/configuration.md, Settings: there is no row {name}"
    spoken = {"time": "event, if there is one", "null_event_time": "error"}
    if name in ("watermark_lag", "allowed_lateness"):
        spoken[name] = "0s"
    assert rows[f"`{name}`"][2] == spoken.get(name, default_text(name))


def test_the_table_of_settings_has_only_existing_settings():
    rows = first_cells(section("configuration.md", "Settings"))[1:]
    assert [row[0].strip("`") for row in rows] == list(SettingsSection.model_fields)


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("[pipeline]", PipelineSection),
        ("[sources.NAME]", SourceSection),
        ("[sinks.NAME]", SinkSection),
    ],
)
def test_every_key_of_a_section_is_in_its_table(heading, model):
    rows = first_cells(section("configuration.md", heading))[1:]
    keys = {field.alias or name for name, field in model.model_fields.items()}
    assert {row[0].strip("`") for row in rows} == keys


def test_every_key_of_a_transform_is_documented():
    own = TransformSection.model_fields.keys() - SettingsSection.model_fields.keys()
    rows = {
        row[0].strip("`") for row in first_cells(section("configuration.md", "[transforms.NAME]"))
    }
    assert own <= rows


def test_every_kind_of_side_output_has_its_key():
    told = named(section("configuration.md", "Side output"))
    assert {f"side_output.{kind}.sink" for kind in SideOutputSection.model_fields} <= told


def test_every_key_of_side_output_is_documented():
    told = named(section("configuration.md", "Side output"))
    keys = SideOutputKindSection.model_fields.keys() - {"sink"}
    assert {f"side_output.KIND.{key}" for key in keys} <= told
    assert SideOutputKindSection.model_fields.keys() <= named(page("side-output.md"))


def test_every_column_reason_and_cause_of_side_output_is_in_its_table():
    rows = [row for row in first_cells(page("side-output.md")) if len(row) > 1]
    told = {(row[0].strip("`"), row[1].strip("`")) for row in rows}
    assert {(kind.name, reason) for kind in KINDS for reason in kind.reasons} <= told
    first = {name for row in rows for name in named(row[0])}
    assert {kind.name for kind in KINDS} <= first
    assert set(RECORD) <= first
    assert {drop.value for drop in Drop} <= first


def test_every_reason_of_a_fate_is_in_the_semantics():
    assert {reason for _, reason in REASONS.values()} <= named(page("semantics.md"))


@pytest.mark.parametrize("fate", Fate)
def test_every_fate_of_a_row_is_in_the_semantics(fate):
    assert re.search(rf"\b{fate.name}\b", section("semantics.md", "Late, partial, outside"))


def test_the_equation_names_every_counter():
    names = {field.name for field in fields(Counts)} - {"partial", "processing_time_fallback"}
    (equation,) = re.findall(r"^rows_in = .*$", page("semantics.md"), re.MULTILINE)
    assert set(re.findall(r"\w+", equation)) == names


@pytest.mark.parametrize("field", [field.name for field in fields(BatchReport)])
def test_every_field_of_a_batch_report_is_documented(field):
    assert field in named(section("python.md", "BatchReport"))


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_public_name_is_documented(name):
    assert f"tg.{name}" in named(page("python.md"))


@pytest.mark.parametrize("owner", [Query, tidegate.Run], ids=["Query", "Run"])
def test_every_public_member_is_documented(owner):
    told = {
        re.match(r"\w+", name)[0]
        for name in named(section("python.md", owner.__name__))
        if name[0].isalpha()
    }
    assert {name for name in vars(owner) if not name.startswith("_")} <= told


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_and_option_is_documented(command):
    text = section("cli.md", command.name)
    options = [each for each in command.params if isinstance(each, click.Option)]
    for option in options:
        assert option.opts[0] in named(text) | set(re.findall(r"--[\w-]+", text)), option.opts[0]


def test_cli_md_names_only_existing_options():
    commands = (main, *COMMANDS)
    known = {name for command in commands for each in command.params for name in each.opts}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page("cli.md")))
    assert told <= known | {"--help"}


def test_every_window_and_every_function_of_windows_is_in_the_reference():
    told = page("sql.md")
    for name in (*STREAM_WINDOWS, *(each.upper() for each in TIME_WINDOWS)):
        assert f"`{name}(" in told
    assert {f"{name}()" for name in WINDOW_FUNCTIONS} <= named(told)


@pytest.mark.parametrize("block", SQL_BLOCKS, ids=place)
def test_sql_examples_are_statements(block):
    assert statements(block)
    for statement in statements(block):
        parse(statement, place(block))


@pytest.mark.parametrize(
    "block", [each for each in SQL_BLOCKS if each.page == "docs/sql.md"], ids=place
)
def test_the_examples_of_the_reference_can_be_planned(block):
    for statement in statements(block):
        compile_statement(statement, RELATIONS, Settings(), origin=place(block))


REFUSALS = [(row[0].strip("`"), row[1]) for row in first_cells(section("sql.md", "Refusals"))[1:]]


@pytest.mark.parametrize(("statement", "message"), REFUSALS, ids=lambda text: text[:60])
def test_the_refusals_of_the_reference_have_their_messages(statement, message):
    with pytest.raises(TidegateError) as refused:
        compile_statement(statement, RELATIONS, Settings())
    assert str(refused.value).split("\n")[0].partition(": ")[2] == message


FOREIGN = first_cells(section("sql.md", "Coming from other systems"))[1:]


@pytest.mark.parametrize("row", FOREIGN, ids=lambda row: row[0][:60])
def test_what_other_systems_write_is_refused_and_what_we_write_for_it_can_be_planned(row):
    theirs, ours = (f"SELECT count(*) AS n {cell.split('`')[1]}" for cell in row[:2])
    settings = Settings(event_time_field="ts")
    with pytest.raises(QueryError) as refused:
        compile_statement(theirs, RELATIONS, settings)
    assert "Write " in refused.value.mend
    compile_statement(ours, RELATIONS, settings)


@pytest.mark.parametrize("name", FAULT_POINTS)
def test_every_fault_point_is_documented(name):
    assert name in named(section("architecture.md", "Crashes"))


def test_every_field_of_a_manifest_and_of_a_segment_is_documented():
    told = named(section("architecture.md", "Manifest"))
    assert {field.name for field in fields(Segment)} <= told
    names = {field.name for field in fields(Manifest)}
    assert names <= {name.partition(".")[0] for name in told}


def test_every_block_of_a_case_and_every_counter_is_documented():
    told = {name.partition(" ")[0] for name in named(page("cases.md"))}
    assert {*BLOCKS, *COUNTERS} <= told


CASES = [b for path in PAGES for b in blocks(path) if re.search("^case: ", b.text, re.MULTILINE)]


@pytest.mark.parametrize("block", CASES, ids=place)
def test_a_case_on_a_page_passes(block):
    for case in parse_cases(block.text, place(block)):
        result = run_case(case, OracleEngine if case.error is None else plan_only)
        assert result.passed, result.text()


def test_the_pages_on_cases_and_event_time_show_one():
    assert {"docs/cases.md", "docs/event-time.md"} <= {block.page for block in CASES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_are_not_broken(path: Path):
    for target in links(path):
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{target}: there is no {there}"
        if anchor:
            assert anchor in anchors(there), f"{target}: there is no such heading"


KIND_PAGES = sorted(
    path for path in (ROOT / "docs" / "windows").glob("*.md") if path.stem != "README"
)
DRAWN = re.compile(
    r'```text\n.*?^```\n\n.*?This is the case "([^"]+)" of\s+`([^`]+)`', re.DOTALL | re.MULTILINE
)


def test_every_kind_of_window_has_a_page():
    assert {path.stem for path in KIND_PAGES} == {window.kind for window in WINDOWS}


@pytest.mark.parametrize("path", KIND_PAGES, ids=lambda path: path.stem)
def test_the_first_drawing_of_a_page_is_a_case(path: Path):
    drawn = DRAWN.search(path.read_text())
    assert drawn, f"{path.name} shows no drawing with its case"
    assert drawn[0].count("```") == 2, "the case is told below the first drawing"
    name, file = drawn.groups()
    assert re.sub(r"\s+", " ", name) in case_names(ROOT / file)


@pytest.mark.parametrize("path", KIND_PAGES, ids=lambda path: path.stem)
def test_cases_quoted_on_pages_exist(path: Path):
    names = {name for spec in (ROOT / "tests" / "spec").glob("*.case") for name in case_names(spec)}
    quoted = set(re.findall(r'"([a-z][^"]{25,})"', re.sub(r"\s+", " ", path.read_text())))
    assert quoted, f"{path.name} names no case"
    assert quoted <= names


def case_names(path: Path) -> set[str]:
    return set(re.findall(r"^case: (.+)$", path.read_text(), re.MULTILINE))
