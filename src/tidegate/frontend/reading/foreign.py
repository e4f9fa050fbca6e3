"""Window syntax of Flink, ksqlDB, Databricks and Spark, refused with what to write instead.

``foreign_clause`` searches a statement that our grammar cannot read; ``foreign_call`` and
``FOREIGN_NAMES`` cover calls and columns that it can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import Token, TokenType, exp
from sqlglot.errors import TokenError

from tidegate.errors import Span
from tidegate.frontend.grammar.dialect import StreamDialect
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.refusal import Refusal

_UNITS = r"(?:WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?"
_PLAIN_INTERVAL = re.compile(rf"(\d+)\s+({_UNITS})", re.IGNORECASE)
_BOUNDS = "window_start() and window_end() are its bounds."

# Columns and functions of other systems for the bounds of a window, and ours.
FOREIGN_NAMES = {
    "window": f"Write GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE); {_BOUNDS}",
    "window_start": "Write window_start(), with brackets.",
    "window_end": "Write window_end(), with brackets.",
    "window_time": "Write window_end(); the time that Flink and Spark give is just before it.",
    "window_id": "Write window_id(), with brackets.",
    "emit_epoch": "Write emit_epoch(), with brackets.",
    "window_proctime": "Write window_end().",
    "windowstart": "Write window_start().",
    "windowend": "Write window_end().",
    **{
        f"{window}_{bound}": mend
        for window in ("tumble", "hop", "session", "cumulate")
        for bound, mend in (
            ("start", "Write window_start()."),
            ("end", "Write window_end()."),
            ("rowtime", "Write window_end(); the time that Flink gives is just before it."),
            ("proctime", "Write window_end()."),
        )
    },
}


def foreign_clause(text: str) -> Refusal | None:
    """Return the refusal of a statement with a clause of another system, None without one."""
    try:
        tokens = StreamDialect().tokenize(text)
    except TokenError:
        return None
    for place in range(len(tokens)):
        for find in _CLAUSES:
            refusal = find(text, tokens[place:])
            if refusal is not None:
                return refusal
    return None


def foreign_call(name: str, arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return what is wrong with a window function of Spark or Flink, and what to write instead.

    Args:
        name: the function, in lower case.
        arguments: its arguments as written.
    """
    match name:
        case "window" | "session_window":
            what = f"{name}() is Spark's own window and does not run here"
            return what, f"Write {_from_spark(name, arguments)}; {_BOUNDS}"
        case "cumulate":
            example = ("ts", "INTERVAL '5' MINUTE", "INTERVAL '1' HOUR")
            time, step, size = arguments if len(arguments) == 3 else example
            return (
                "CUMULATE is not a function",
                f"Write WINDOW CUMULATE (SIZE {size}, STEP {step}) ON {time}, after GROUP BY.",
            )
    return None


def _from_spark(name: str, arguments: Sequence[str]) -> str:
    """Return our call for one of Spark's, or an example if a duration is not a literal."""
    time, *rest = arguments or ["ts"]
    durations = [_from_text(each) for each in rest]
    if None in durations or not durations:
        examples = {
            "window": "TUMBLE(ts, INTERVAL '1' MINUTE)",
            "session_window": "SESSION(ts, INTERVAL '30' SECOND)",
        }
        return f"e.g. {examples[name]}"
    if name == "session_window":
        return f"SESSION({time}, {durations[0]})"
    size, *more = durations
    slide, *offset = more or [size]
    ends = "".join(f", {each}" for each in offset)
    if slide == size:
        return f"TUMBLE({time}, {size}{ends})"
    return f"HOP({time}, {slide}, {size}{ends})"


def _from_text(duration: str) -> str | None:
    """Return ``'10 minutes'`` as ``INTERVAL '10' MINUTE``."""
    found = _PLAIN_INTERVAL.fullmatch(duration.strip("'\" "))
    return f"INTERVAL '{found[1]}' {found[2].upper().removesuffix('S')}" if found else None


def _words(tokens: Sequence[Token], count: int) -> list[str]:
    return [token.text.upper() for token in tokens[:count]]


def _span(first: Token, last: Token) -> Span:
    return Span(first.start, last.end + 1)


def _table_function(text: str, tokens: Sequence[Token]) -> Refusal | None:
    """``TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)`` of Flink."""
    name, *follows = [*_words(tokens, 5), "", "", "", "", ""][:5]
    named = follows[:2] == ["(", "DATA"]
    if name not in ("TUMBLE", "HOP", "CUMULATE", "SESSION") or not (
        follows[:2] == ["(", "TABLE"] or (named and "TABLE" in follows)
    ):
        return None
    arguments, end = _arguments(text, tokens[1:])
    relation, time, *sizes = [*(re.sub(r"^\w+\s*=>\s*", "", each) for each in arguments), "", ""]
    relation = re.sub(r"^TABLE\s+", "", relation, flags=re.IGNORECASE)
    relation, _, keys = re.split(r"(\s+PARTITION\s+BY\s+|$)", relation, maxsplit=1, flags=re.I)
    column = re.sub(r"^DESCRIPTOR\s*\((.*)\)$", r"\1", time, flags=re.IGNORECASE | re.DOTALL)
    sizes = [each for each in sizes if each] or ["INTERVAL '1' MINUTE"]
    if name == "CUMULATE":
        step, size = sizes[0], sizes[-1]
        ours = f"GROUP BY {keys or '..'} WINDOW CUMULATE (SIZE {size}, STEP {step}) ON {column}"
    else:
        call = f"{name}({', '.join([column or 'ts', *sizes])})"
        ours = f"GROUP BY {', '.join(each for each in (call, keys) if each)}"
    return Refusal(
        f"{name} is not a table here: windows go in GROUP BY",
        _span(tokens[0], end),
        f"Write FROM {relation} {ours}, and leave window_start and window_end out of GROUP BY; "
        f"{_BOUNDS}",
    )


def _arguments(text: str, tokens: Sequence[Token]) -> tuple[list[str], Token]:
    """Return the arguments in the brackets that ``tokens`` begin with, and the closing bracket."""
    depth, start, arguments = 0, tokens[0].end + 1, []
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        ends = depth == 0
        if ends or (depth == 1 and token.token_type == TokenType.COMMA):
            arguments.append(text[start : token.start].strip())
            start = token.end + 1
        if ends:
            return arguments, token
    return arguments, tokens[-1]


def _emit(text: str, tokens: Sequence[Token]) -> Refusal | None:
    """``EMIT CHANGES`` and ``EMIT FINAL`` of ksqlDB, ``EMIT AFTER WATERMARK`` of Calcite."""
    emit, how = [*_words(tokens, 2), "", ""][:2]
    if emit != "EMIT" or how not in ("CHANGES", "FINAL", "AFTER", "STREAM"):
        return None
    mend = "Write EMIT ON WINDOW CLOSE, or leave it out: a window is emitted once, when it closes."
    if how in ("CHANGES", "STREAM"):
        mend += " EMIT EARLY EVERY INTERVAL '10' SECOND shows provisional results before."
    return Refusal(f"EMIT {how} is not a clause here", _span(tokens[0], tokens[1]), mend)


def _watermark(text: str, tokens: Sequence[Token]) -> Refusal | None:
    """``WATERMARK FOR ts AS ts - lag`` of Flink, ``WATERMARK ts DELAY OF lag`` of Databricks."""
    first, second, third = [*_words(tokens, 3), "", "", ""][:3]
    if first != "WATERMARK" or not (second == "FOR" or third == "DELAY"):
        return None
    rest = text[tokens[0].end + 1 :]
    found = re.match(
        rf"\s*(?:FOR\s+(?P<a>[\w.`]+)\s+AS\s+[\w.`]+(?:\s*-\s*(?P<lag>INTERVAL\s+'?\d+'?\s+{_UNITS}))?"
        rf"|(?P<b>[\w.`]+)\s+DELAY\s+OF\s+(?P<delay>INTERVAL\s+'?\d+'?\s+{_UNITS}))",
        rest,
        re.IGNORECASE,
    )
    column = (found["a"] or found["b"]) if found else "ts"
    lag = (found["lag"] or found["delay"] or "INTERVAL '0' SECOND") if found else ".."
    end = tokens[0].end + 1 + found.end() if found else tokens[1].end + 1
    return Refusal(
        f"WATERMARK {second if second == 'FOR' else '.. DELAY OF'} is not a clause here",
        Span(tokens[0].start, end),
        f"Write ON {column} WATERMARK ({lag}) after GROUP BY.",
    )


def _plain_size(text: str, tokens: Sequence[Token]) -> Refusal | None:
    """``SIZE 1 MINUTE`` of ksqlDB."""
    before = _words(tokens, 2)
    name = {"ADVANCE BY": "SLIDE", "SESSION (": "GAP"}.get(" ".join(before))
    rest = tokens[2:] if name else tokens[1:]
    name = name or before[0]
    number, unit = [*_words(rest, 2), "", ""][:2]
    if name not in ("SIZE", "SLIDE", "GAP", "STEP") or not number.isdigit():
        return None
    if not re.fullmatch(_UNITS, unit, re.IGNORECASE):
        return None
    interval = f"INTERVAL '{number}' {unit.removesuffix('S')}"
    return Refusal(
        f"{number} {unit} is not a duration: write an INTERVAL literal",
        _span(rest[0], rest[1]),
        f"Write {name} {interval}.",
    )


def _select_stream(text: str, tokens: Sequence[Token]) -> Refusal | None:
    """``SELECT STREAM`` of Calcite."""
    if [*_words(tokens, 2)] != ["SELECT", "STREAM"]:
        return None
    return Refusal(
        "SELECT STREAM is not a clause here", _span(tokens[1], tokens[1]), "Leave STREAM out."
    )


# Each gets the text and the tokens from one place on, and recognizes a form that begins there.
_CLAUSES: tuple[Callable[[str, Sequence[Token]], Refusal | None], ...] = (
    _table_function,
    _emit,
    _watermark,
    _plain_size,
    _select_stream,
)


def refuse_foreign_calls(tree: exp.Expr, slice_of: Callable[[exp.Expr], str]) -> None:
    """Refuse the window functions of Spark and Flink, wherever they stand."""
    for call in tree.find_all(exp.Anonymous):
        if isinstance(call.parent, exp.Dot):
            continue
        found = foreign_call(call.name.lower(), [slice_of(each) for each in call.expressions])
        if found is not None:
            raise Refusal(found[0], span_of(call), found[1])
