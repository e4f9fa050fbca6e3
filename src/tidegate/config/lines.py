"""The position of each key in a TOML file, which ``tomllib`` does not keep."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

Path = tuple[str, ...]

_KEY = re.compile(r'[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'|([A-Za-z0-9_-]+))[ \t]*')
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_LONG_STRING = re.compile(r'"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})', re.DOTALL)
_SHORT_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Offsets into the file: of a word of a key or header, and of the value that follows."""

    start: int
    end: int
    value_start: int
    value_end: int


def find_places(text: str) -> dict[Path, Place]:
    """Return the place of every key and header, by full path; the text is valid TOML.

    Keys inside inline tables and arrays are not listed: their table's place stands for them.
    """
    places: dict[Path, Place] = {}
    section: Path = ()
    at = _skip_blank(text, 0)
    while at < len(text):
        is_header = text[at] == "["
        if is_header:
            opening = 2 if text.startswith("[[", at) else 1
            words, at = _read_key(text, at + opening)
            at = text.index("]", at) + opening
            section, value_start = (), at
        else:
            words, at = _read_key(text, at)
            value_start = _skip_spaces(text, text.index("=", at) + 1)
            at = _skip_value(text, value_start)
        path = section
        for word, start, end in words:
            path = (*path, word)
            place = Place(start=start, end=end, value_start=value_start, value_end=at)
            places.setdefault(path, place)
        section = path if is_header else section
        at = _skip_blank(text, at)
    return places


def nearest_place(places: dict[Path, Place], path: Path) -> Place | None:
    """Return the place of a key, or else of the innermost table around it that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return None


def string_offset(text: str, place: Place, value: str) -> int | None:
    """Return where a string's content starts in the file; None when it is written with escapes."""
    start = place.value_start
    quotes = 3 if text[start : start + 3] in ('"""', "'''") else 1
    start += quotes
    # A line break right after the opening quotes is not part of the string.
    if quotes == 3:
        start += len(text[start:]) - len(text[start:].removeprefix("\r").removeprefix("\n"))
    return start if text.startswith(value, start) else None


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None, "the pattern matches nothing too"
    return match.end()


def _skip_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _read_key(text: str, at: int) -> tuple[list[tuple[str, int, int]], int]:
    """Return the words of a dotted key, each with its start and end, and where the key ends."""
    words: list[tuple[str, int, int]] = []
    while True:
        match = _KEY.match(text, at)
        assert match is not None, "the text is valid TOML"
        double, single, bare = match.groups()
        word = _unescape(double) if double is not None else single if bare is None else bare
        start = at + len(match[0]) - len(match[0].lstrip(" \t"))
        words.append((word, start, at + len(match[0].rstrip(" \t"))))
        at = match.end()
        if not text.startswith(".", at):
            return words, at
        at += 1


def _unescape(content: str) -> str:
    return str(tomllib.loads(f'key = "{content}"')["key"])


def _skip_value(text: str, at: int) -> int:
    """Return where a value ends: at a comment or line end outside strings and brackets."""
    depth, end = 0, at
    while at < len(text):
        string = _LONG_STRING.match(text, at) or _SHORT_STRING.match(text, at)
        if string is not None:
            at = end = string.end()
            continue
        character = text[at]
        if character == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if character == "\n" and depth == 0:
            break
        depth += (character in "[{") - (character in "]}")
        at += 1
        if not character.isspace():
            end = at
    return end
