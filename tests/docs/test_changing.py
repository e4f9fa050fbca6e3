"""What docs/architecture.md says about changing Tidegate: which files a change takes, and no more.

The tables are checked against the code, so a new kind of window or a new setting fails here until
it stands in every place of its table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest

from docs.pages import ROOT, first_cells, section
from oracle.window_syntax import CALLS
from tidegate.config.model import SettingsSection
from tidegate.frontend.reading.parse import parse
from tidegate.frontend.reading.windows import SIGNATURES
from tidegate.plan.settings import Settings
from tidegate.plan.windows import WINDOWS, WindowKind

CHANGING = section("architecture.md", "Changing it")
KINDS = [window.kind for window in WINDOWS]


def part(title: str) -> str:
    """Return what the section says about one kind of change."""
    return CHANGING.split(f"**{title}**")[1].split("\n**")[0]


def files(title: str) -> list[str]:
    """Return the files that one kind of change takes, as its table lists them."""
    cells = (row[0] for row in first_cells(part(title)))
    return [cell.strip("`") for cell in cells if cell.startswith("`")]


@pytest.mark.parametrize(
    "title", ["A window kind", "An aggregate", "A setting", "A kind of side output"]
)
def test_a_change_takes_as_many_files_as_the_text_says(title):
    (number,) = re.findall(r"takes (\d+) files", part(title))
    assert len(files(title)) == int(number)


@pytest.mark.parametrize(
    "title", ["A window kind", "An aggregate", "A setting", "A kind of side output"]
)
def test_the_files_of_a_change_are_there(title):
    missing = [
        name
        for name in files(title)
        for kind in KINDS
        if not (ROOT / name.replace("KIND", kind)).exists()
    ]
    assert missing == []


# Files that do not name the kinds: an operator serves several, the oracle's loop is over rows.
GENERAL = {
    "src/tidegate/engine/windows/",
    "tests/oracle/windows.py",
    # Tumbling and hopping are one class there; the calls are in ``window_syntax``.
    "tests/oracle/kinds.py",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_window_stands_in_each_of_its_files(kind):
    def text(name: str) -> str:
        path = ROOT / name.replace("KIND", kind)
        found = [*path.glob("*.case"), *path.glob("*.txt")] if path.is_dir() else [path]
        return "\n".join(each.read_text(encoding="utf-8") for each in found)

    places = [name for name in files("A window kind") if name not in GENERAL]
    lacking = [
        name for name in places if not re.search(rf"\b{kind}(window)?\b", text(name), re.IGNORECASE)
    ]
    assert lacking == []


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.kind)
def test_every_kind_of_window_has_a_call_here_and_in_the_oracle(window):
    name = f"{window.kind}window"
    assert name in CALLS
    query = f"SELECT count(*) FROM clicks GROUP BY {SIGNATURES[name].example}"
    assert isinstance(parse(query).window, window)


def test_a_kind_of_window_without_its_facts_cannot_be_made():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Lunar(WindowKind):
        kind: ClassVar[str] = "lunar"

    with pytest.raises(TypeError) as refused:
        Lunar()
    for fact in ("goes_out_at_once", "keeps_rows", "needs_order", "waits_for_clock"):
        assert fact in str(refused.value)


def test_every_field_of_the_settings_has_a_key_of_the_same_name_and_default():
    keys = {name: field.default for name, field in SettingsSection.model_fields.items()}
    here = {field.name.removesuffix("_us"): field.default for field in fields(Settings)}
    assert here == keys
