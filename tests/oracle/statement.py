"""Recognizing a statement: its clauses by a tokenizer of our own, its window by words, the rest as text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from sqlglot import exp

from .expressions import interval_us
from .parse import Refused, parse_scalar

UNITS = {"dd": 86_400_000_000, "hh": 3_600_000_000, "mi": 60_000_000, "ss": 1_000_000, "ms": 1_000}

_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`)"
    r"|(?P<word>[A-Za-z_@][\w@]*)|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*|\.\d+)"
    r"|(?P<sign><=>|<>|!=|<=|>=|\|\||->|==|::|.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Hops:
    """Tumbling and hopping: [s, s + size) for s on the grid of slide."""

    size: int
    slide: int
    offset: int = 0


@dataclass(frozen=True)
class Cumulate:
    size: int
    step: int
    offset: int = 0


@dataclass(frozen=True)
class Session:
    gap: int


@dataclass(frozen=True)
class Sliding:
    lookback: int
    lookahead: int | None
    when: str | None = None
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    open: str
    emit: str
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class Count:
    count: int
    every: int | None
    partition: tuple[str, ...] = ()


Window = Hops | Cumulate | Session | Sliding | State | Count


@dataclass(frozen=True)
class Statement:
    """The clauses as text, the window, and what the statement says about time (None: nothing)."""

    ctes: str
    items: str
    relation: str
    where: str | None
    window: Window
    keys: tuple[str, ...]
    having: str | None
    order: str | None
    limit: int | None
    event_time: str | None
    lag_us: int | None
    lateness_us: int | None
    has_watermark: bool
    emit_on_close: bool


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
class _Clauses:
    """The tokens of each clause, by its first word."""

    sql: str
    found: dict[str, list[Token]] = field(default_factory=dict)

    def text(self, tokens: list[Token]) -> str:
        return self.sql[tokens[0].start : tokens[-1].end] if tokens else ""

    def clause(self, name: str) -> str | None:
        return self.text(self.found[name]) if name in self.found else None


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
_WINDOWS = {
    "tumblingwindow": (2, 3),
    "hoppingwindow": (3, 4),
    "cumulatewindow": (3, 4),
    "sessionwindow": (2,),
    "slidingwindow": (2, 3),
    "statewindow": (2,),
    "countwindow": (1, 2),
    "tumble": (2, 3),
    "hop": (3, 4),
    "session": (2,),
}
_OVER = ("slidingwindow", "statewindow", "countwindow")
_USAGE = {
    "slidingwindow": "Write slidingwindow(unit, lookback) or slidingwindow(unit, lookback, lookahead).",
}
_CLAUSE_WORDS = {
    "TUMBLING": ("SIZE", "OFFSET"),
    "HOPPING": ("SIZE", "SLIDE", "OFFSET"),
    "CUMULATE": ("SIZE", "STEP", "OFFSET"),
    "SESSION": ("GAP",),
}


def read_statement(sql: str) -> Statement:
    """The statement of a text; raises Refused."""
    clauses = _split_clauses(sql)
    keys, call = _group_by(clauses)
    _refuse_misplaced(clauses)
    facts: dict[str, object] = {
        "event_time": clauses.clause("ON"),
        "lag_us": None,
        "lateness_us": None,
    }
    facts["has_watermark"] = "WATERMARK" in clauses.found
    if "WATERMARK" in clauses.found:
        _watermark(clauses, split(_inside(clauses.found["WATERMARK"])), facts)
    window: Window | None = None
    if "WINDOW" in clauses.found:
        if call is not None:
            raise Refused(
                f"a window in GROUP BY ({clauses.text(call)}) and a WINDOW clause: write one of them"
            )
        window = _window_clause(clauses, facts)
    elif call is not None:
        window = _window_call(clauses, call, facts)
    if window is None:
        _refuse_without_window(clauses)
    assert window is not None
    return Statement(
        ctes=clauses.clause("WITH") or "",
        items=clauses.clause("SELECT") or "",
        relation=clauses.clause("FROM") or "",
        where=clauses.clause("WHERE"),
        window=window,
        keys=tuple(keys),
        having=clauses.clause("HAVING"),
        order=clauses.clause("ORDER"),
        limit=None if "LIMIT" not in clauses.found else int(clauses.clause("LIMIT") or ""),
        emit_on_close="EMIT" in clauses.found,
        **facts,
    )


def _split_clauses(sql: str) -> _Clauses:
    tokens = tokenize(sql.rstrip().rstrip(";"))
    clauses = _Clauses(sql)
    current: list[Token] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        after = tokens[i + 1].word if i + 1 < len(tokens) else ""
        starts = token.kind == "word" and token.word in _STARTS
        # ON belongs to a join while FROM is open; WINDOW, EMIT and the like may be names of columns.
        starts &= token.word != "ON" or (
            "FROM" in clauses.found and current is not clauses.found["FROM"]
        )
        starts &= token.word not in ("GROUP", "ORDER") or after == "BY"
        starts &= token.word != "EMIT" or after == "ON"
        starts &= token.word != "WINDOW" or after in _CLAUSE_WORDS
        if starts and (token.word != "WITH" or not clauses.found):
            if token.word in clauses.found:
                raise Refused(f"{token.word} stands twice")
            current = clauses.found[token.word] = []
            i += {"GROUP": 2, "ORDER": 2, "EMIT": 4}.get(token.word, 1)
            continue
        end = closing(tokens, i) if token.kind == "sign" and token.text in "([" else i
        current.extend(tokens[i : end + 1])
        i = end + 1
    for name in ("SELECT", "FROM"):
        if not clauses.found.get(name):
            raise Refused(f"the statement has no {name}")
    return clauses


def _inside(tokens: list[Token]) -> list[Token]:
    return tokens[1:-1] if tokens and tokens[0].text == "(" else tokens


def _name_of_call(tokens: list[Token]) -> str:
    """The function that an item begins with, in lower case, or nothing."""
    return tokens[0].text.lower() if len(tokens) > 1 and tokens[1].text == "(" else ""


def _group_by(clauses: _Clauses) -> tuple[list[str], list[Token] | None]:
    keys, call = [], None
    for item in split(clauses.found.get("GROUP", [])):
        name = _name_of_call(item)
        if name in _WINDOWS:
            if call is not None:
                raise Refused(
                    f"a second window in GROUP BY: {clauses.text(item)}; a statement has one"
                )
            call = item
        elif (near := get_close_matches(name, _WINDOWS, 1, 0.85)) and name.endswith("window"):
            raise Refused(f"there is no window {name}; did you mean {near[0]}?")
        else:
            keys.append(clauses.text(item))
    return keys, call


def _refuse_misplaced(clauses: _Clauses) -> None:
    for name in ("SELECT", "WHERE", "HAVING", "ORDER"):
        for token in clauses.found.get(name, []):
            if (
                token.kind == "word"
                and token.text.lower() in _WINDOWS
                and token.text.lower().endswith("window")
            ):
                raise Refused(f"{token.text} stands in {name}; a window stands in GROUP BY")


def _refuse_without_window(clauses: _Clauses) -> None:
    if "EMIT" in clauses.found:
        raise Refused("EMIT ON WINDOW CLOSE, but there is no window")
    raise Refused(
        "the statement has no window: write one in GROUP BY, e.g. tumblingwindow('ss', 10)"
    )


def _watermark(clauses: _Clauses, parts: list[list[Token]], facts: dict[str, object]) -> None:
    for part in parts:
        if [token.word for token in part[:2]] == ["ALLOWED", "LATENESS"]:
            facts["lateness_us"] = _interval(clauses, part[2:])
        else:
            facts["lag_us"] = _interval(clauses, part)


def _interval(
    clauses: _Clauses, tokens: list[Token], what: str = "a duration", least: int = 0
) -> int:
    text = clauses.text(tokens)
    node = parse_scalar(text)
    if not isinstance(node, exp.Interval):
        raise Refused(f"{what} is an INTERVAL literal, found {text}")
    length = interval_us(node)
    if length < least:
        raise Refused(f"{what} is {text}, which must be {'positive' if least else 'not negative'}")
    return length


def _window_clause(clauses: _Clauses, facts: dict[str, object]) -> Window:
    kind, *rest = clauses.found["WINDOW"]
    words = _CLAUSE_WORDS[kind.word]
    lengths: dict[str, int] = {}
    for part in split(_inside(rest)):
        word = part[0].word
        if word in lengths:
            raise Refused(f"{word} stands twice in WINDOW {kind.word}")
        if word == "ON":
            facts["event_time"] = clauses.text(part[1:])
        elif word == "WATERMARK":
            facts["has_watermark"] = True
            _watermark(clauses, [part[1:]], facts)
        elif word == "ALLOWED":
            _watermark(clauses, [part], facts)
        elif word in words:
            least = -(1 << 62) if word == "OFFSET" else 1
            lengths[word] = _interval(clauses, part[1:], word, least)
        else:
            raise Refused(f"WINDOW {kind.word} takes {', '.join(words)}, found {word}")
    for word in words:
        if word not in lengths and word != "OFFSET":
            raise Refused(f"WINDOW {kind.word} needs {word}")
    offset = lengths.get("OFFSET", 0)
    match kind.word:
        case "TUMBLING":
            return Hops(lengths["SIZE"], lengths["SIZE"], offset)
        case "HOPPING":
            return Hops(lengths["SIZE"], lengths["SLIDE"], offset)
        case "CUMULATE":
            return _cumulate(lengths["SIZE"], lengths["STEP"], offset, "SIZE and STEP")
    return Session(lengths["GAP"])


def _window_call(clauses: _Clauses, call: list[Token], facts: dict[str, object]) -> Window:
    name = call[0].text.lower()
    end = closing(call, 1)
    args = split(call[2:end])
    if len(args) not in _WINDOWS[name]:
        counts = " or ".join(map(str, _WINDOWS[name]))
        raise Refused(f"{name} takes {counts} arguments, found {len(args)}. {_USAGE.get(name, '')}")
    over = _read_over(clauses, name, call[end + 1 :])
    if name == "statewindow":
        partition = over.get("partition", ())
        return State(clauses.text(args[0]), clauses.text(args[1]), partition)
    written = clauses.text(call[: end + 1])
    if name == "countwindow":
        numbers = [_number(clauses, arg, written, least=1) for arg in args]
        return Count(
            numbers[0], numbers[1] if len(numbers) > 1 else None, over.get("partition", ())
        )
    if name in ("tumble", "hop", "session"):
        facts["event_time"] = clauses.text(args[0])
        return _named_call(clauses, name, args[1:])
    unit = UNITS.get(args[0][0].text.strip("'\"").lower()) if len(args[0]) == 1 else None
    if unit is None:
        raise Refused(f"{clauses.text(args[0])} is no unit; units are {', '.join(UNITS)}")
    sliding = name == "slidingwindow"
    sizes = [
        _number(
            clauses, arg, written, least=0 if sliding else -(1 << 62) if _is_offset(name, i) else 1
        )
        * unit
        for i, arg in enumerate(args[1:])
    ]
    match name:
        case "tumblingwindow":
            return Hops(sizes[0], sizes[0], *sizes[1:])
        case "hoppingwindow":
            return Hops(*sizes)
        case "cumulatewindow":
            return _cumulate(*sizes, *([0] if len(sizes) == 2 else []), written)
        case "sessionwindow":
            return Session(sizes[0])
    window = Sliding(sizes[0], sizes[1] if len(sizes) > 1 else None)
    return replace(window, **over)


def _is_offset(name: str, index: int) -> bool:
    return (name == "tumblingwindow" and index == 1) or (
        name in ("hoppingwindow", "cumulatewindow") and index == 2
    )


def _named_call(clauses: _Clauses, name: str, args: list[list[Token]]) -> Window:
    lengths = [
        _interval(
            clauses,
            arg,
            f"an argument of {name}",
            -(1 << 62) if i == (2 if name == "hop" else 1) else 1,
        )
        for i, arg in enumerate(args)
    ]
    match name:
        case "tumble":
            return Hops(lengths[0], lengths[0], *lengths[1:])
        case "hop":
            return Hops(lengths[1], lengths[0], *lengths[2:])
    return Session(lengths[0])


def _cumulate(size: int, step: int, offset: int, written: str) -> Cumulate:
    if size % step:
        raise Refused(f"{written}: the step must divide the size")
    return Cumulate(size, step, offset)


def _number(clauses: _Clauses, tokens: list[Token], written: str, least: int) -> int:
    text = clauses.text(tokens)
    if not re.fullmatch(r"-\s*\d+|\d+" if least < 0 else r"\d+", text):
        raise Refused(f"{written}: a size is an unsigned whole number, found {text}")
    if int(text.replace(" ", "")) < least:
        raise Refused(f"{written}: a size must be positive, found {text}")
    return int(text.replace(" ", ""))


def _read_over(clauses: _Clauses, name: str, tokens: list[Token]) -> dict[str, object]:
    if not tokens:
        return {}
    text = clauses.text(tokens)
    if tokens[0].word != "OVER" or len(tokens) < 2 or tokens[1].text != "(":
        raise Refused(f"{text!r} after {name}: only OVER (..) may follow")
    inside = tokens[2:-1]
    words = [token.word for token in inside]
    if "WHEN" in words and name != "slidingwindow":
        raise Refused(f"WHEN picks triggers, and {name} has none")
    if name not in _OVER:
        raise Refused(f"{name} takes no OVER; write keys in GROUP BY")
    for banned in (["ORDER", "BY"], ["ROWS"], ["RANGE"]):
        if words[-len(banned) :] == banned or any(
            words[i : i + len(banned)] == banned for i in range(len(words))
        ):
            raise Refused(f"{' '.join(banned)} in the OVER of {name}; it takes PARTITION BY only")
    if words[:2] != ["PARTITION", "BY"] and words[:1] != ["WHEN"]:
        raise Refused(f"OVER of {name} needs PARTITION BY, found {text}")
    at = words.index("WHEN") if "WHEN" in words else len(words)
    after = words.index("PARTITION", at) if "PARTITION" in words[at:] else len(words)
    over: dict[str, object] = {}
    partition = inside[2:at] if at else inside[after + 2 :]
    if partition:
        over["partition"] = tuple(clauses.text(part) for part in split(partition))
    if at < len(words):
        over["when"] = clauses.text(inside[at + 1 : after])
    return over
