"""Tokens of a statement, and its clauses by their first words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .parse import Refused

_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`)"
    r"|(?P<word>[A-Za-z_@][\w@]*)|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*|\.\d+)"
    r"|(?P<sign><=>|<>|!=|<=|>=|\|\||->|==|::|.)",
    re.DOTALL,
)


_STARTS = (
    "WITH",
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "ON",
    "WATERMARK",
    "EMIT",
    "ORDER",
    "LIMIT",
)

# The words that a clause begins with: GROUP BY, EMIT ON WINDOW CLOSE, EMIT EARLY EVERY.
_WORDS = {"GROUP": 2, "ORDER": 2}
_EMIT = {"ON": 4, "EARLY": 3}

# What a WINDOW clause of each kind takes.
CLAUSE_WORDS = {
    "TUMBLING": ("SIZE", "OFFSET"),
    "HOPPING": ("SIZE", "SLIDE", "OFFSET"),
    "CUMULATE": ("SIZE", "STEP", "OFFSET"),
    "SESSION": ("GAP",),
}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text


def tokenize(sql: str) -> list[Token]:
    tokens = [Token(m.lastgroup or "", m[0], m.start(), m.end()) for m in _TOKEN.finditer(sql)]
    return [token for token in tokens if token.kind != "space"]


def closing(tokens: list[Token], start: int) -> int:
    """The index of the bracket that closes the one at ``start``."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += tokens[i].text in "([" if tokens[i].kind == "sign" else 0
        depth -= tokens[i].text in ")]" if tokens[i].kind == "sign" else 0
        if depth == 0:
            return i
    name = tokens[start - 1].text if start else ""
    raise Refused(f"the bracket of {name}( is not closed")


def split(tokens: list[Token], separator: str = ",") -> list[list[Token]]:
    """Tokens between separators that stand in no bracket."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "sign":
            depth += (token.text in "([") - (token.text in ")]")
        if token.text == separator and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if parts != [[]] else []


@dataclass
class Clauses:
    """The tokens of each clause, by its first word."""

    sql: str
    found: dict[str, list[Token]] = field(default_factory=dict)

    def text(self, tokens: list[Token]) -> str:
        return self.sql[tokens[0].start : tokens[-1].end] if tokens else ""

    def clause(self, name: str) -> str | None:
        return self.text(self.found[name]) if name in self.found else None


def split_clauses(sql: str) -> Clauses:
    tokens = tokenize(sql.rstrip().rstrip(";"))
    clauses = Clauses(sql)
    current: list[Token] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        after = tokens[i + 1].word if i + 1 < len(tokens) else ""
        starts = token.kind == "word" and token.word in _STARTS
        # ON belongs to a join while FROM is open; WINDOW and EMIT may be names of columns.
        starts &= token.word != "ON" or (
            "FROM" in clauses.found and current is not clauses.found["FROM"]
        )
        starts &= token.word not in ("GROUP", "ORDER") or after == "BY"
        starts &= token.word != "EMIT" or after in _EMIT
        starts &= token.word != "WINDOW" or after in CLAUSE_WORDS
        if starts and (token.word != "WITH" or not clauses.found):
            if token.word in clauses.found:
                raise Refused(f"{token.word} stands twice")
            current = clauses.found[token.word] = []
            i += _EMIT[after] if token.word == "EMIT" else _WORDS.get(token.word, 1)
            continue
        end = closing(tokens, i) if token.kind == "sign" and token.text in "([" else i
        current.extend(tokens[i : end + 1])
        i = end + 1
    for name in ("SELECT", "FROM"):
        if not clauses.found.get(name):
            raise Refused(f"the statement has no {name}")
    return clauses


def inside(tokens: list[Token]) -> list[Token]:
    return tokens[1:-1] if tokens and tokens[0].text == "(" else tokens
