"""The window of a statement: a call in GROUP BY, or the WINDOW clause."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from .arithmetic import interval_us
from .kinds import Count, Cumulate, Hops, Session, Sliding, State, Window
from .parse import Refused, parse_scalar
from .tokens import CLAUSE_WORDS, Clauses, Token, closing, split

UNITS = {"dd": 86_400_000_000, "hh": 3_600_000_000, "mi": 60_000_000, "ss": 1_000_000, "ms": 1_000}
NEGATIVE = -(1 << 62)


@dataclass(frozen=True)
class Call:
    """A window function: how many arguments it takes, and the window of their values.

    Sizes come first and must be at least ``least``; argument ``offset_at`` is an offset, which
    may be negative.
    """

    counts: tuple[int, ...]
    make: Callable[..., Window]
    offset_at: int | None = None
    least: int = 1


def _tumbling(size: int, offset: int = 0) -> Window:
    return Hops(size, size, offset)


def _hop(slide: int, size: int, offset: int = 0) -> Window:
    return Hops(size, slide, offset)


def _cumulate(size: int, step: int, offset: int = 0) -> Window:
    if size % step:
        seconds = f"{size / 1e6:g} s by {step / 1e6:g} s"
        raise Refused(f"the step of a cumulating window must divide its size, found {seconds}")
    return Cumulate(size, step, offset)


# With a unit and whole numbers.
UNIT_CALLS = {
    "tumblingwindow": Call((2, 3), _tumbling, offset_at=1),
    "hoppingwindow": Call((3, 4), Hops, offset_at=2),
    "cumulatewindow": Call((3, 4), _cumulate, offset_at=2),
    "sessionwindow": Call((2,), Session),
    "slidingwindow": Call((2, 3), Sliding, least=0),
}
# With an event time and intervals.
INTERVAL_CALLS = {
    "tumble": Call((2, 3), _tumbling, offset_at=1),
    "hop": Call((3, 4), _hop, offset_at=2),
    "session": Call((2,), Session),
}
# With conditions, and with whole numbers of rows.
OTHER_CALLS = {"statewindow": Call((2,), State), "countwindow": Call((1, 2), Count)}
CALLS = UNIT_CALLS | INTERVAL_CALLS | OTHER_CALLS

CLAUSE_MAKERS: dict[str, Callable[..., Window]] = {
    "TUMBLING": lambda size, offset=0: Hops(size, size, offset),
    "HOPPING": lambda size, slide, offset=0: Hops(size, slide, offset),
    "CUMULATE": _cumulate,
    "SESSION": Session,
}
WITH_OVER = ("slidingwindow", "statewindow", "countwindow")


def read_clause(clauses: Clauses, parts: list[list[Token]]) -> Window:
    """The window of ``WINDOW KIND (SIZE .., ..)``; ``parts`` are what stands between the commas."""
    kind = clauses.found["WINDOW"][0].word
    words = CLAUSE_WORDS[kind]
    lengths: dict[str, int] = {}
    for part in parts:
        word = part[0].word
        if word not in words:
            raise Refused(f"WINDOW {kind} takes {', '.join(words)}, found {word}")
        if word in lengths:
            raise Refused(f"{word} stands twice in WINDOW {kind}")
        least = NEGATIVE if word == "OFFSET" else 1
        lengths[word] = read_interval(clauses, part[1:], word, least)
    for word in words:
        if word not in lengths and word != "OFFSET":
            raise Refused(f"WINDOW {kind} needs {word}")
    return CLAUSE_MAKERS[kind](*(lengths[word] for word in words if word in lengths))


def read_call(clauses: Clauses, call: list[Token]) -> tuple[Window, str | None]:
    """The window of a call, and the event time that it names, if any."""
    name = call[0].text.lower()
    end = closing(call, 1)
    args = split(call[2:end])
    known = CALLS[name]
    if len(args) not in known.counts:
        counts = " or ".join(map(str, known.counts))
        raise Refused(f"{name} takes {counts} arguments, found {len(args)}")
    over = _read_over(clauses, name, call[end + 1 :])
    if name in INTERVAL_CALLS:
        lengths = [
            read_interval(clauses, arg, f"an argument of {name}", _least(known, i))
            for i, arg in enumerate(args[1:])
        ]
        return known.make(*lengths), clauses.text(args[0])
    if name == "statewindow":
        values: list[object] = [clauses.text(arg) for arg in args]
    else:
        written = clauses.text(call[: end + 1])
        unit = 1 if name == "countwindow" else _unit(clauses, args.pop(0))
        values = [
            _number(clauses, arg, written, _least(known, i)) * unit for i, arg in enumerate(args)
        ]
    return replace(known.make(*values), **over), None


def read_interval(
    clauses: Clauses, tokens: list[Token], what: str = "a duration", least: int = 0
) -> int:
    """The microseconds of an INTERVAL literal that must be at least ``least``."""
    text = clauses.text(tokens)
    node = parse_scalar(text)
    if not isinstance(node, exp.Interval):
        raise Refused(f"{what} is an INTERVAL literal, found {text}")
    length = interval_us(node)
    if length < least:
        raise Refused(f"{what} is {text}, which must be {'positive' if least else 'not negative'}")
    return length


def _least(call: Call, index: int) -> int:
    return NEGATIVE if index == call.offset_at else call.least


def _unit(clauses: Clauses, tokens: list[Token]) -> int:
    text = clauses.text(tokens).strip("'\"").lower()
    if text not in UNITS:
        raise Refused(f"{text} is no unit; units are {', '.join(UNITS)}")
    return UNITS[text]


def _number(clauses: Clauses, tokens: list[Token], written: str, least: int) -> int:
    text = clauses.text(tokens).replace(" ", "")
    if not re.fullmatch(r"-?\d+" if least < 0 else r"\d+", text):
        raise Refused(f"{written}: a size is an unsigned whole number, found {text}")
    if int(text) < least:
        raise Refused(f"{written}: a size must be positive, found {text}")
    return int(text)


def _read_over(clauses: Clauses, name: str, tokens: list[Token]) -> dict[str, object]:
    """What ``OVER (WHEN .. PARTITION BY ..)`` says, by the fields of the window."""
    if not tokens:
        return {}
    text = clauses.text(tokens)
    if tokens[0].word != "OVER" or len(tokens) < 3 or tokens[1].text != "(":
        raise Refused(f"{text!r} after {name}: only OVER (..) may follow")
    inside = tokens[2:-1]
    words = [token.word for token in inside]
    _check_over(name, words, text)
    when = words.index("WHEN") if "WHEN" in words else len(words)
    after = words.index("PARTITION", when) if "PARTITION" in words[when:] else len(words)
    partition = inside[2:when] if when else inside[after + 2 :]
    over: dict[str, object] = {}
    if partition:
        over["partition"] = tuple(clauses.text(part) for part in split(partition))
    if when < len(words):
        over["when"] = clauses.text(inside[when + 1 : after])
    return over


def _check_over(name: str, words: list[str], text: str) -> None:
    if "WHEN" in words and name != "slidingwindow":
        raise Refused(f"WHEN picks triggers, and {name} has none")
    if name not in WITH_OVER:
        raise Refused(f"{name} takes no OVER; write keys in GROUP BY")
    for banned in ("ORDER BY", "ROWS", "RANGE"):
        if banned in " ".join(words):
            raise Refused(f"{banned} in the OVER of {name}; it takes PARTITION BY only")
    if words[:2] != ["PARTITION", "BY"] and words[:1] != ["WHEN"]:
        raise Refused(f"OVER of {name} needs PARTITION BY, found {text}")
