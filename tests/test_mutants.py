"""The table of faults fits the code."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_fault_names_a_text_that_stands_once_in_its_file_and_tests_that_exist(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    from mutants import MUTANTS

    texts = {each.file: (ROOT / "src/tidegate" / each.file).read_text() for each in MUTANTS}
    assert [each.name for each in MUTANTS if texts[each.file].count(each.old) != 1] == []
    named = {test for each in MUTANTS for test in each.tests if test.startswith("tests/")}
    assert [test for test in named if not (ROOT / test).exists()] == []
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
