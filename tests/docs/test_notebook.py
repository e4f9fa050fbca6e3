"""The tutorial notebook as a file: it was run from top to bottom; tests/systems runs it again."""

from __future__ import annotations

import json

import pytest

from docs.pages import ROOT, linked

NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def test_its_cells_were_run_once_each_from_top_to_bottom():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))


def test_no_cell_has_failed_or_warned():
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert not [each for each in outputs if each["output_type"] == "error"]
    assert not [each for each in outputs if each.get("name") == "stderr"]


def test_it_shows_nothing_of_the_machine_that_ran_it():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not [word for word in ("/tmp/", "/home/", "/root/", "site-packages") if word in text]


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell["cell_type"] == "markdown"])
def test_its_links_are_not_broken(cell):
    for target in linked("".join(cell["source"])):
        assert (NOTEBOOK.parent / target.partition("#")[0]).exists(), target
