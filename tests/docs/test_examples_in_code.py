"""The examples in docstrings work."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

from docs.pages import ROOT

EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
SOURCES = sorted(
    path for path in (ROOT / "src").rglob("*.py") if EXAMPLE.search(path.read_text("utf-8"))
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_examples_of_a_module_work(path) -> None:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    found = doctest.testmod(importlib.import_module(".".join(parts).removesuffix(".__init__")))
    assert found.attempted > 0
    assert not found.failed
