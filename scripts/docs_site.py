"""Makes the pages of docs/ fit for a site: what links out of docs/ names the file instead.

MkDocs calls ``on_page_markdown`` with each page; mkdocs.yml names this file as a hook.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_LOG = logging.getLogger("mkdocs.hooks.docs_site")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page without links to files that the site does not have."""
    here = DOCS / page.file.src_uri

    def replace(link: re.Match[str]) -> str:
        text, target, _ = link.groups()
        if "://" in target:
            return link[0]
        there = (here.parent / target).resolve()
        if there.is_relative_to(DOCS):
            return link[0]  # MkDocs checks it
        if not there.exists():
            _LOG.warning("%s: there is no %s", page.file.src_uri, target)
        return f"{text} (`{there.relative_to(ROOT)}` in the repository)"

    return _LINK.sub(replace, markdown)
