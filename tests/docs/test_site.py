"""The site of the documentation (make docs) has every page; tests/systems builds it."""

from __future__ import annotations

import re

from docs.pages import ROOT


def test_the_navigation_names_every_page_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w/-]+\.md\b", text.partition("\nnav:\n")[2])
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    # scripts/docs_site.py makes this one of the notebook.
    assert sorted(named) == sorted([*pages, "notebook.md"]), "add the page to nav in mkdocs.yml"
