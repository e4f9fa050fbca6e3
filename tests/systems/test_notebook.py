"""The tutorial notebook runs from top to bottom, and its outputs are those that it has.

``TIDEGATE_WRITE_GOLDENS=1 pytest tests/systems/test_notebook.py`` writes new outputs into it.

It runs in a kernel of its own, with a Spark of its own, as it does for a reader. That takes a
minute, so it is tested here and not by ``make test``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"


def run(notebook: NotebookNode) -> NotebookNode:
    """Run all cells in the notebook's folder; the first failure is raised."""
    resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
    return notebook


def outputs(notebook: NotebookNode) -> list[list[Any]]:
    """What each cell shows."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[shown(output) for output in joined(cell.outputs)] for cell in cells]


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs of a cell; what it prints comes in one piece or in several, as time has it."""
    whole: list[NotebookNode] = []
    for output in outputs:
        last = whole[-1] if whole else None
        if last and output.get("name") and output.get("name") == last.get("name"):
            whole[-1] = NotebookNode(last, text=last.text + output.text)
        else:
            whole.append(output)
    return whole


def shown(output: NotebookNode) -> dict[str, str]:
    """The texts of an output, by their type, without the name of the temporary folder."""
    texts = {output.name: output.text} if output.output_type == "stream" else output.data
    return {kind: re.sub(r"tidegate-tutorial-\w+", "..", text) for kind, text in texts.items()}


def test_the_tutorial_shows_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in an environment that has been activated.
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    there = nbformat.read(NOTEBOOK, as_version=4)
    before = outputs(there)
    after = run(there)
    if os.environ.get("TIDEGATE_WRITE_GOLDENS"):
        nbformat.write(after, NOTEBOOK)
        return
    assert outputs(after) == before
