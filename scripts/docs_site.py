"""Makes a site of docs/: the tutorial notebook becomes a page, and links out of docs/ are replaced.

MkDocs calls ``on_files``, then ``on_page_markdown`` with each page; mkdocs.yml names this file as a
hook.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
NOTEBOOK_PAGE = "notebook.md"

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_COLORS = re.compile(r"\x1b\[[\d;]*m")
_LOG = logging.getLogger("mkdocs.hooks.docs_site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of the notebook."""
    from mkdocs.structure.files import File

    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    text = "\n\n".join(part for cell in notebook["cells"] for part in _parts(cell))
    files.append(File.generated(config, NOTEBOOK_PAGE, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page without links to files that the site does not have."""
    is_notebook = page.file.src_uri == NOTEBOOK_PAGE
    folder = NOTEBOOK.parent if is_notebook else (DOCS / page.file.src_uri).parent
    up = "../" * page.file.src_uri.count("/")

    def replace(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        if "://" in target:
            return link[0]
        there = (folder / target).resolve()
        if there == NOTEBOOK:
            return f"[{text}]({up}{NOTEBOOK_PAGE})"
        if there.is_relative_to(DOCS):
            # MkDocs checks it.
            return (
                f"[{_titled(text, there)}]({up}{there.relative_to(DOCS).as_posix()}{anchor or ''})"
            )
        if not there.exists():
            _LOG.warning("%s: there is no %s", page.file.src_uri, target)
        return f"{text} (`{there.relative_to(ROOT)}` in the repository)"

    return _LINK.sub(replace, markdown)


def _titled(text: str, there: Path) -> str:
    """Return the text of a link with the title of the page in place of the name of its file."""
    if there.name not in text or not there.exists():
        return text
    return text.replace(there.name, there.read_text(encoding="utf-8").split("\n")[0].lstrip("# "))


def _parts(cell: dict[str, Any]) -> list[str]:
    """Return a cell as Markdown: its text, or its code and what that shows."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [_fenced("python", source), *(_shown(output) for output in cell["outputs"])]


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return _fenced("text", _COLORS.sub("", text))


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"
