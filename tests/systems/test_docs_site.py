"""The documentation is built as a site that needs no other host, and whose search finds pages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(site: Path, source: Path = ROOT / "docs") -> subprocess.CompletedProcess[str]:
    """Build a site; ``mkdocs.yml`` makes it fail at the first broken link."""
    config = site.with_suffix(".yml")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    hooks = text.replace("hooks: [", f"hooks: [{ROOT}/")
    config.write_text(f"docs_dir: {source}\n{hooks}", encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", config, "--site-dir", site]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) == len(list((ROOT / "docs").rglob("*.md"))) + 2, (
        "and those of the notebook and for 404"
    )
    loading = re.compile(r"<(?!a\b)[^>]*\b(?:src|href|srcset|action)=[\"']?(?:https?:)?//[^>]*>")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert loading.findall(text) == []
        # The theme would fetch a script for these.
        assert 'class="mermaid"' not in text
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\([\"']?(https?:)?//)", sheet.read_text("utf-8"))


def test_the_search_knows_every_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] or "index.html" for entry in index["docs"]}
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    assert found == pages


def test_the_notebook_is_a_page_with_its_drawings_and_tables(site: Path) -> None:
    text = (site / "notebook.html").read_text(encoding="utf-8")
    assert "<svg" in text
    assert "What hourly did, batch by batch" in text
    assert '<a href="event-time.html">' in text


def test_links_between_pages_show_titles_and_no_names_of_files(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert '<a href="semantics.html">Semantics</a>' in text
    assert not re.findall(r"<a [^>]*>[\w-]+\.md</a>", text)


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("[there](nowhere.md)", "nowhere.md"),
        ("[there](sql.md#nowhere)", "#nowhere"),
        ("[there](../nowhere.py)", "there is no ../nowhere.py"),
    ],
)
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str, told: str) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for page in (ROOT / "docs").rglob("*.md"):
        there = source / page.relative_to(ROOT / "docs")
        there.parent.mkdir(exist_ok=True)
        there.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    with (source / "README.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{link}\n")
    built = build(tmp_path / "site", source)
    assert built.returncode != 0
    assert told in built.stderr
