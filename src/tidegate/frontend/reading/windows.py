"""The window calls in GROUP BY: their arguments and their OVER."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Span
from tidegate.frontend.grammar.dialect import STREAM_WINDOWS, TIME_WINDOWS
from tidegate.frontend.grammar.nodes import StreamOver, span_of
from tidegate.frontend.grammar.source import Source
from tidegate.frontend.reading.durations import read_unit
from tidegate.frontend.reading.sizes import (
    ReadWindow,
    from_durations,
    of_kind,
    positive,
    read_duration,
    whole_number,
    whole_offset,
)
from tidegate.frontend.refusal import Refusal
from tidegate.names import listed, nearest
from tidegate.plan.windows import Count, Sliding, State, Window
from tidegate.time import TimeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The ways to write a window call, an example, and what its OVER may hold."""

    arity: tuple[int, int]
    forms: tuple[str, ...]
    example: str
    partition_by: bool = False
    when: bool = False


SIGNATURES: dict[str, Signature] = {
    "tumblingwindow": Signature(
        arity=(2, 3),
        forms=("tumblingwindow(unit, size)", "tumblingwindow(unit, size, offset)"),
        example="tumblingwindow('ss', 10)",
    ),
    "hoppingwindow": Signature(
        arity=(3, 4),
        forms=("hoppingwindow(unit, size, slide)", "hoppingwindow(unit, size, slide, offset)"),
        example="hoppingwindow('ss', 10, 5)",
    ),
    "cumulatewindow": Signature(
        arity=(3, 4),
        forms=("cumulatewindow(unit, size, step)", "cumulatewindow(unit, size, step, offset)"),
        example="cumulatewindow('mi', 60, 5)",
    ),
    "sessionwindow": Signature(
        arity=(2, 2), forms=("sessionwindow(unit, gap)",), example="sessionwindow('ss', 30)"
    ),
    "slidingwindow": Signature(
        arity=(2, 3),
        forms=("slidingwindow(unit, lookback)", "slidingwindow(unit, lookback, lookahead)"),
        example="slidingwindow('ss', 10, 15)",
        partition_by=True,
        when=True,
    ),
    "statewindow": Signature(
        arity=(2, 2),
        forms=("statewindow(open condition, emit condition)",),
        example="statewindow(a > 0, b = 1)",
        partition_by=True,
    ),
    "countwindow": Signature(
        arity=(1, 2),
        forms=("countwindow(count)", "countwindow(count, every)"),
        example="countwindow(100)",
        partition_by=True,
    ),
    "tumble": Signature(
        arity=(2, 3),
        forms=("TUMBLE(event time, size)", "TUMBLE(event time, size, offset)"),
        example="TUMBLE(ts, INTERVAL '1' MINUTE)",
    ),
    "hop": Signature(
        arity=(3, 4),
        forms=("HOP(event time, slide, size)", "HOP(event time, slide, size, offset)"),
        example="HOP(ts, INTERVAL '15' SECOND, INTERVAL '1' MINUTE)",
    ),
    "session": Signature(
        arity=(2, 2),
        forms=("SESSION(event time, gap)",),
        example="SESSION(ts, INTERVAL '30' SECOND)",
    ),
}


def window_call(node: exp.Expr) -> exp.Anonymous | None:
    """Return the window call that a node is (with or without OVER), or None."""
    call = node.this if isinstance(node, StreamOver) else node
    if isinstance(call, exp.Anonymous) and call.name.lower() in SIGNATURES:
        return call
    return None


def refuse_near_windows(node: exp.Expr) -> None:
    """Refuse an item of GROUP BY that is a misspelt window."""
    call = node.this if isinstance(node, StreamOver) else node
    if not isinstance(call, exp.Anonymous) or window_call(node):
        return
    name = call.name.lower()
    near = nearest(name, STREAM_WINDOWS, cutoff=0.8)
    if near or isinstance(node, StreamOver):
        mend = f"Did you mean {near}? " if near else ""
        raise Refusal(
            f"there is no window {call.name}",
            span_of(call),
            f"{mend}The windows are {listed(STREAM_WINDOWS)}.",
        )


def read_call(source: Source, node: exp.Expr) -> ReadWindow:
    """Return the window of a call in GROUP BY.

    Raises:
        Refusal: its arguments or its OVER are not those of the window.
    """
    call = window_call(node)
    assert call is not None
    name = call.name.lower()
    signature, arguments = SIGNATURES[name], call.expressions
    fewest, most = signature.arity
    if not fewest <= len(arguments) <= most:
        takes = f"{fewest}" if fewest == most else f"{fewest} or {most}"
        noun = "argument" if takes == "1" else "arguments"
        raise Refusal(
            f"{_shown(name)} takes {takes} {noun}, found {len(arguments)}",
            span_of(call),
            f"Write {' or '.join(signature.forms)}, e.g. {signature.example}.",
        )
    if isinstance(node, StreamOver):
        _check_over(source, node, name)
    if name in TIME_WINDOWS:
        window = _time_window(source, name, arguments[1:])
        return ReadWindow(window=window, span=span_of(node), event_time=arguments[0])
    return ReadWindow(window=_stream_window(source, name, node), span=span_of(node))


def _check_over(source: Source, over: StreamOver, name: str) -> None:
    signature = SIGNATURES[name]
    partition_by, when = over.args.get("partition_by"), over.args.get("when")
    span = Span(*over.meta["over_span"])
    when_span = Span(*over.meta["when_span"]) if when else span
    if not (signature.partition_by or signature.when):
        written = "OVER (WHEN ..)" if when else "OVER"
        raise Refusal(
            f"{_shown(name)} does not take {written}",
            when_span,
            "WHEN is for slidingwindow; put the keys of this window into GROUP BY."
            if when
            else "Put the keys of this window into GROUP BY.",
        )
    if when and not signature.when:
        raise Refusal(
            f"{name} does not take WHEN; its OVER takes PARTITION BY only",
            when_span,
            f"Write {name}(..) OVER (PARTITION BY expression, ..).",
        )
    if not (partition_by or when):
        raise Refusal(
            f"the OVER () of {name} is empty",
            span,
            "Write OVER (PARTITION BY expression, ..), or leave OVER out.",
        )


def _stream_window(source: Source, name: str, node: exp.Expr) -> Window:
    call = window_call(node)
    assert call is not None
    arguments = call.expressions
    partition_nodes = (node.args.get("partition_by") or []) if isinstance(node, StreamOver) else []
    partition_by = tuple(source.slice(each) for each in partition_nodes)
    if name == "statewindow":
        return State(
            open=source.slice(arguments[0]),
            emit=source.slice(arguments[1]),
            partition_by=partition_by,
        )
    if name == "countwindow":
        count, *every = (whole_number(source, each, TimeUnit.MICROSECOND, 1) for each in arguments)
        return Count(count=count, every=every[0] if every else None, partition_by=partition_by)
    unit = read_unit(_unit_word(source, arguments[0]), span_of(arguments[0]))
    if name == "slidingwindow":
        lookback, *lookahead = (whole_number(source, each, unit, 0) for each in arguments[1:])
        when = node.args.get("when") if isinstance(node, StreamOver) else None
        return Sliding(
            time_unit=unit,
            lookback=lookback,
            lookahead=lookahead[0] if lookahead else None,
            when=source.slice(when) if when else None,
            partition_by=partition_by,
        )
    sized = SIGNATURES[name].arity[0]
    sizes = [whole_number(source, each, unit, 1) for each in arguments[1:sized]]
    offset = [whole_offset(source, each, unit) for each in arguments[sized:]]
    return of_kind(
        _STREAM_KINDS[name],
        unit,
        sizes,
        offset[0] if offset else 0,
        span_of(arguments[-1 - len(offset)]),
    )


_STREAM_KINDS = {
    "tumblingwindow": "TUMBLING",
    "hoppingwindow": "HOPPING",
    "cumulatewindow": "CUMULATE",
    "sessionwindow": "SESSION",
    "tumble": "TUMBLING",
    "hop": "HOPPING",
    "session": "SESSION",
}


def _time_window(source: Source, name: str, arguments: list[exp.Expr]) -> Window:
    sized = SIGNATURES[name].arity[0] - 1
    durations = [read_duration(source, each, positive) for each in arguments[:sized]]
    if name == "hop":
        durations.reverse()
    durations += [read_duration(source, each, None) for each in arguments[sized:]]
    return from_durations(_STREAM_KINDS[name], durations)


def _unit_word(source: Source, node: exp.Expr) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return str(node.name)
    return source.slice(node)


def _shown(name: str) -> str:
    return name.upper() if name in TIME_WINDOWS else name
