"""HTML and SVG as text: whatever comes from data is escaped, and colors suit light and dark pages.

Styles are attributes of elements, because a style sheet would apply to the whole notebook, and some
viewers remove it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

BORDER = "1px solid rgba(128, 128, 128, 0.35)"
_CELL = f"padding: 0.2em 0.8em 0.2em 0; border-bottom: {BORDER}; vertical-align: top"
_CODE = "white-space: pre-wrap; font-family: monospace"

# Characters that neither HTML nor XML may have.
_NOT_ALLOWED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is HTML or SVG already; any other text is escaped."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """Return an element.

    Args:
        name: its tag.
        content: its children, in order; those that are not ``Markup`` are escaped.
        attributes: by name, with ``_`` for ``-``; those that are None are left out.
    """
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(each if isinstance(each, Markup) else escaped(each) for each in content)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def together(parts: Iterable[Markup]) -> Markup:
    """Return elements, one after the other."""
    return Markup("".join(parts))


def escaped(text: str) -> str:
    """Return a text as HTML and XML, with a mark for each character that these cannot have."""
    return html.escape(_NOT_ALLOWED.sub("\ufffd", text))


def facts(pairs: Iterable[tuple[str, str]], *, is_code: bool = False) -> Markup:
    """Return a table of names with their values, one pair on each line.

    Args:
        pairs: names and values, in order.
        is_code: whether the values are code, whose columns must stay aligned.
    """
    shown = f"{_CELL}; text-align: left; {_CODE if is_code else 'white-space: pre-wrap'}"
    lines = [
        element(
            "tr",
            element("th", name, scope="row", style=f"{_CELL}; text-align: left"),
            element("td", value, style=shown),
        )
        for name, value in pairs
    ]
    return element("table", element("tbody", *lines), style="border-collapse: collapse")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> Markup:
    """Return a table: numbers are on the right, and NULL stands for None."""
    head = [
        element("th", name, scope="col", style=f"{_CELL}; text-align: left") for name in columns
    ]
    lines = [element("tr", *(_cell(value) for value in row)) for row in rows]
    above = [element("caption", caption, style="text-align: left")] if caption else []
    return element(
        "table",
        *above,
        element("thead", element("tr", *head)),
        element("tbody", *lines),
        style="border-collapse: collapse",
    )


def _cell(value: object) -> Markup:
    if value is None:
        return element("td", element("i", "NULL"), style=f"{_CELL}; opacity: 0.6")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    side = "right" if is_number else "left"
    shown = f"{value:,}" if is_number and isinstance(value, int) else str(value)
    return element("td", shown, style=f"{_CELL}; text-align: {side}")


def block(text: str) -> Markup:
    """Return text in a fixed-width font, with its line breaks."""
    return element("pre", text, style=f"{_CODE}; margin: 0.3em 0")


def folded(summary: str, *content: Markup, is_open: bool = False) -> Markup:
    """Return content that the reader can open and close."""
    shown = "open" if is_open else None
    return element("details", element("summary", summary), *content, open=shown)


def heading(text: str) -> Markup:
    """Return the first line of what is shown."""
    return element("div", element("b", text), style="margin-bottom: 0.3em")


def page(*content: Markup) -> Markup:
    """Return all that a notebook shows of one thing."""
    return element("div", *content, style="color: inherit; line-height: 1.4")
