"""Reads the documentation: pages, code blocks, tables, headings and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A code block: the page it is on, its line, its language and its text."""

    page: str
    line: int
    language: str
    text: str


def page(name: str) -> str:
    """Return the text of a page of ``docs``."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """Return the text under a heading of a page, up to the next heading of its level or above."""
    text = page(name)
    marks = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert marks, f"docs/{name} has no heading {heading}"
    rest = text[marks.end() :]
    end = re.search(rf"^#{{1,{len(marks[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def blocks(path: Path) -> list[Block]:
    """Return the code blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(
            page=str(path.relative_to(ROOT)),
            line=text.count("\n", 0, match.start()) + 1,
            language=match[1],
            text=match[2],
        )
        for match in _FENCE.finditer(text)
    ]


def statements(block: Block) -> list[str]:
    """Return the statements of an SQL block, separated by semicolons at the ends of lines."""
    return [
        each.strip() for each in re.split(r";\s*$", block.text, flags=re.MULTILINE) if each.strip()
    ]


def first_cells(text: str) -> list[list[str]]:
    """Return the cells of every row of every table in a text; an escaped pipe is not a border."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows]
    return [[cell.strip() for cell in row] for row in cells if not set(row[0]) <= set("-: ")]


def links(path: Path) -> list[str]:
    """Return the targets of a page's links into the repository."""
    return linked(path.read_text(encoding="utf-8"))


def linked(text: str) -> list[str]:
    """Return the targets of the links into the repository in a text."""
    return [target for target in _LINK.findall(_FENCE.sub("", text)) if "://" not in target]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {_anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
