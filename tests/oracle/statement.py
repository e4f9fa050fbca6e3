"""Recognizing a statement: its clauses, its window, and the rest as text."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from .kinds import Window
from .parse import Refused
from .tokens import Clauses, Token, inside, split, split_clauses
from .window_syntax import CALLS, read_call, read_clause, read_interval


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
    early_us: int | None = None


@dataclass
class _Times:
    """What a statement says about time, while it is read."""

    event_time: str | None
    lag_us: int | None = None
    lateness_us: int | None = None
    has_watermark: bool = False


def read_statement(sql: str) -> Statement:
    """The statement of a text; raises Refused."""
    clauses = split_clauses(sql)
    keys, call = _group_by(clauses)
    _refuse_misplaced(clauses)
    times = _Times(clauses.clause("ON"))
    if "WATERMARK" in clauses.found:
        _watermark(clauses, split(inside(clauses.found["WATERMARK"])), times)
    window = _window(clauses, call, times)
    emit = clauses.found.get("EMIT")
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
        event_time=times.event_time,
        lag_us=times.lag_us,
        lateness_us=times.lateness_us,
        has_watermark=times.has_watermark,
        emit_on_close=emit == [],
        early_us=read_interval(clauses, emit, "EMIT EARLY EVERY", 1) if emit else None,
    )


def _window(clauses: Clauses, call: list[Token] | None, times: _Times) -> Window:
    if "WINDOW" in clauses.found:
        if call is not None:
            written = clauses.text(call)
            raise Refused(f"{written} in GROUP BY and a WINDOW clause: write one of them")
        sizes = []
        for part in split(inside(clauses.found["WINDOW"][1:])):
            if part[0].word == "ON":
                times.event_time = clauses.text(part[1:])
            elif part[0].word in ("WATERMARK", "ALLOWED"):
                _watermark(clauses, [part[part[0].word == "WATERMARK" :]], times)
            else:
                sizes.append(part)
        return read_clause(clauses, sizes)
    if call is not None:
        window, event_time = read_call(clauses, call)
        times.event_time = event_time or times.event_time
        return window
    if "EMIT" in clauses.found:
        raise Refused("EMIT ON WINDOW CLOSE, but there is no window")
    raise Refused("the statement has no window: write one in GROUP BY, e.g. countwindow(100)")


def _watermark(clauses: Clauses, parts: list[list[Token]], times: _Times) -> None:
    times.has_watermark = True
    for part in parts:
        if [token.word for token in part[:2]] == ["ALLOWED", "LATENESS"]:
            times.lateness_us = read_interval(clauses, part[2:])
        else:
            times.lag_us = read_interval(clauses, part)


def _name_of_call(tokens: list[Token]) -> str:
    """The function that an item begins with, in lower case, or nothing."""
    return tokens[0].text.lower() if len(tokens) > 1 and tokens[1].text == "(" else ""


def _group_by(clauses: Clauses) -> tuple[list[str], list[Token] | None]:
    keys, call = [], None
    for item in split(clauses.found.get("GROUP", [])):
        name = _name_of_call(item)
        if name in CALLS:
            if call is not None:
                raise Refused(
                    f"a second window in GROUP BY: {clauses.text(item)}; a statement has one"
                )
            call = item
        elif (near := get_close_matches(name, CALLS, 1, 0.85)) and name.endswith("window"):
            raise Refused(f"there is no window {name}; did you mean {near[0]}?")
        else:
            keys.append(clauses.text(item))
    return keys, call


def _refuse_misplaced(clauses: Clauses) -> None:
    for name in ("SELECT", "WHERE", "HAVING", "ORDER"):
        for token in clauses.found.get(name, []):
            if (
                token.kind == "word"
                and token.text.lower() in CALLS
                and token.text.lower().endswith("window")
            ):
                raise Refused(f"{token.text} stands in {name}; a window stands in GROUP BY")
