"""From the tree to window dataclasses: the calls in GROUP BY, the WINDOW clause, the WATERMARK clause."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Span
from tidegate.plan.windows import Count, Cumulate, Hopping, Session, Sliding, State, Tumbling, Window
from tidegate.sql.dialect import STREAM_WINDOWS, TIME_WINDOWS
from tidegate.sql.durations import Duration, common_unit, read_interval, read_unit
from tidegate.sql.names import listed, nearest, suggestion
from tidegate.sql.nodes import StreamOver, WatermarkClause, WindowClause, WindowParameter, span_of
from tidegate.sql.refusal import Refusal
from tidegate.sql.source import Source
from tidegate.time import TimeUnit

_LARGEST_US = 2**62

_Check = Callable[[str, int, Span], None]


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

# The parameters of each kind of the WINDOW clause: those it needs; OFFSET where it stands in the last field.
CLAUSE_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "TUMBLING": (("SIZE",), ("OFFSET",)),
    "HOPPING": (("SIZE", "SLIDE"), ("OFFSET",)),
    "SESSION": (("GAP",), ()),
    "CUMULATE": (("SIZE", "STEP"), ("OFFSET",)),
}
_CLAUSE_TIME = ("ON", "WATERMARK", "ALLOWED LATENESS")

# Spark's own windows, which only Spark's own operators can run.
_SPARK_WINDOWS = {
    "window": "Write tumblingwindow('ss', 10), hoppingwindow('ss', 10, 5) or TUMBLE(ts, INTERVAL '10' SECOND).",
    "session_window": "Write sessionwindow('ss', 30) or SESSION(ts, INTERVAL '30' SECOND).",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWindow:
    """A window with its place, and what it says about the time of rows."""

    window: Window
    span: Span
    event_time: exp.Expr | None = None
    lag: WindowParameter | None = None
    lateness: WindowParameter | None = None


def window_call(node: exp.Expr) -> exp.Anonymous | None:
    """Return the window call that a node is (with or without OVER), or None."""
    call = node.this if isinstance(node, StreamOver) else node
    if isinstance(call, exp.Anonymous) and call.name.lower() in SIGNATURES:
        return call
    return None


def refuse_near_windows(node: exp.Expr) -> None:
    """Refuse an item of GROUP BY that is a misspelt window, or a window of Spark's own."""
    call = node.this if isinstance(node, StreamOver) else node
    if not isinstance(call, exp.Anonymous) or window_call(node):
        return
    name = call.name.lower()
    if name in _SPARK_WINDOWS:
        raise Refusal(f"{name}() is Spark's own window and does not run here", span_of(node), _SPARK_WINDOWS[name])
    near = nearest(name, STREAM_WINDOWS, cutoff=0.8)
    if near or isinstance(node, StreamOver):
        mend = f"Did you mean {near}? " if near else ""
        raise Refusal(
            f"there is no window {call.name}", span_of(call), f"{mend}The windows are {listed(STREAM_WINDOWS)}."
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


def read_clause(source: Source, clause: WindowClause) -> ReadWindow:
    """Return the window of a WINDOW clause.

    Raises:
        Refusal: its kind or its parameters are not those of the grammar.
    """
    kind = clause.name
    if kind not in CLAUSE_KINDS:
        raise Refusal(
            f"there is no window kind {kind}",
            Span(*clause.meta["kind_span"]),
            suggestion(kind, CLAUSE_KINDS, otherwise=f"Write one of {listed(CLAUSE_KINDS)}."),
        )
    needed, optional = CLAUSE_KINDS[kind]
    given = _clause_parameters(clause, kind, (*needed, *optional, *_CLAUSE_TIME))
    for missing in needed:
        if missing not in given:
            raise Refusal(
                f"WINDOW {kind} has no {missing}",
                span_of(clause),
                f"Write WINDOW {kind} ({', '.join(f'{word} INTERVAL ..' for word in needed)}).",
            )
    durations = [read_duration(source, given[word], _positive) for word in needed]
    if "OFFSET" in given:
        durations.append(read_duration(source, given["OFFSET"], None))
    on = given.get("ON")
    return ReadWindow(
        window=_from_durations(kind, durations),
        span=span_of(clause),
        event_time=on.args["expression"] if on else None,
        lag=given.get("WATERMARK"),
        lateness=given.get("ALLOWED LATENESS"),
    )


def read_watermark(clause: WatermarkClause) -> tuple[WindowParameter | None, WindowParameter | None]:
    """Return the lag and the lateness of a WATERMARK clause, None where it gives none.

    Raises:
        Refusal: it has other parameters, or one twice, or none.
    """
    given: dict[str, WindowParameter] = {}
    for parameter in clause.expressions:
        if parameter.name not in ("", "ALLOWED LATENESS"):
            raise Refusal(
                f"WATERMARK has no parameter {parameter.name}", span_of(parameter), _WATERMARK_MEND
            )
        if parameter.name in given:
            raise Refusal(
                f"WATERMARK gives the {parameter.name or 'lag'} twice", span_of(parameter), "Leave one of the two out."
            )
        given[parameter.name] = parameter
    if not given:
        raise Refusal("WATERMARK () says nothing", span_of(clause), _WATERMARK_MEND)
    return given.get(""), given.get("ALLOWED LATENESS")


_WATERMARK_MEND = "Write WATERMARK (INTERVAL '5' SECOND) or WATERMARK (INTERVAL '5' SECOND, ALLOWED LATENESS INTERVAL '1' MINUTE)."


def read_delay(source: Source, parameter: WindowParameter | None) -> int | None:
    """Return the microseconds of a lag or a lateness: 0 or more, None when not given."""
    return None if parameter is None else read_duration(source, parameter, _not_negative).micros


def read_duration(source: Source, parameter: exp.Expr, check: _Check | None) -> Duration:
    """Return the interval of a parameter or an argument, checked."""
    node = parameter.args["expression"] if isinstance(parameter, WindowParameter) else parameter
    duration = read_interval(source.slice(node), span_of(node))
    if check is not None:
        check(duration.text, duration.micros, duration.span)
    if abs(duration.micros) > _LARGEST_US:
        raise _too_long(duration.text, duration.span)
    return duration


def _clause_parameters(
    clause: WindowClause, kind: str, known: Sequence[str]
) -> dict[str, WindowParameter]:
    given: dict[str, WindowParameter] = {}
    for parameter in clause.expressions:
        name = parameter.name
        if name not in known:
            raise Refusal(
                f"WINDOW {kind} has no parameter {name}" if name else f"a parameter of WINDOW {kind} has no name",
                span_of(parameter),
                f"Its parameters are {listed(known)}.",
            )
        if name in given:
            raise Refusal(f"{name} is given twice", span_of(parameter), f"Leave one {name} out.")
        given[name] = parameter
    return given


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
            f"{name} does not take WHEN, its OVER takes PARTITION BY only",
            when_span,
            f"Write {name}(..) OVER (PARTITION BY expression, ..).",
        )
    if not (partition_by or when):
        raise Refusal(
            f"the OVER () of {name} is empty",
            span,
            "Write OVER (PARTITION BY expression, ..), or leave OVER out for one window over the whole stream.",
        )


def _stream_window(source: Source, name: str, node: exp.Expr) -> Window:
    call = window_call(node)
    assert call is not None
    arguments = call.expressions
    partition_nodes = (node.args.get("partition_by") or []) if isinstance(node, StreamOver) else []
    partition_by = tuple(source.slice(each) for each in partition_nodes)
    if name == "statewindow":
        return State(open=source.slice(arguments[0]), emit=source.slice(arguments[1]), partition_by=partition_by)
    if name == "countwindow":
        count, *every = (_number(source, each, TimeUnit.MICROSECOND, 1) for each in arguments)
        return Count(count=count, every=every[0] if every else None, partition_by=partition_by)
    unit = read_unit(_unit_word(source, arguments[0]), span_of(arguments[0]))
    if name == "slidingwindow":
        lookback, *lookahead = (_number(source, each, unit, 0) for each in arguments[1:])
        when = node.args.get("when") if isinstance(node, StreamOver) else None
        return Sliding(
            time_unit=unit,
            lookback=lookback,
            lookahead=lookahead[0] if lookahead else None,
            when=source.slice(when) if when else None,
            partition_by=partition_by,
        )
    sized = SIGNATURES[name].arity[0]
    sizes = [_number(source, each, unit, 1) for each in arguments[1:sized]]
    offset = [_offset(source, each, unit) for each in arguments[sized:]]
    return _of_kind(_STREAM_KINDS[name], unit, sizes, offset[0] if offset else 0, span_of(arguments[-1 - len(offset)]))


def _time_window(source: Source, name: str, arguments: list[exp.Expr]) -> Window:
    sized = SIGNATURES[name].arity[0] - 1
    durations = [read_duration(source, each, _positive) for each in arguments[:sized]]
    if name == "hop":
        durations.reverse()
    durations += [read_duration(source, each, None) for each in arguments[sized:]]
    return _from_durations(_STREAM_KINDS[name], durations)


_STREAM_KINDS = {
    "tumblingwindow": "TUMBLING",
    "hoppingwindow": "HOPPING",
    "cumulatewindow": "CUMULATE",
    "sessionwindow": "SESSION",
    "tumble": "TUMBLING",
    "hop": "HOPPING",
    "session": "SESSION",
}


def _from_durations(kind: str, durations: list[Duration]) -> Window:
    unit = common_unit([duration.micros for duration in durations])
    numbers = [duration.micros // unit.micros for duration in durations]
    sized = len(CLAUSE_KINDS[kind][0])
    offset = numbers[sized] if len(numbers) > sized else 0
    return _of_kind(kind, unit, numbers[:sized], offset, durations[sized - 1].span)


def _of_kind(kind: str, unit: TimeUnit, sizes: list[int], offset: int, last_span: Span) -> Window:
    match kind:
        case "TUMBLING":
            return Tumbling(time_unit=unit, size=sizes[0], offset=offset)
        case "HOPPING":
            return Hopping(time_unit=unit, size=sizes[0], slide=sizes[1], offset=offset)
        case "SESSION":
            return Session(time_unit=unit, gap=sizes[0])
    size, step = sizes
    if size % step:
        raise Refusal(
            f"the step {step} does not divide the size {size}",
            last_span,
            f"Write a step that divides {size}, e.g. {_nearest_divisor(size, step)}.",
        )
    return Cumulate(time_unit=unit, size=size, step=step, offset=offset)


def _nearest_divisor(size: int, step: int) -> int:
    return next(each for each in range(min(step, size), 0, -1) if size % each == 0)


def _unit_word(source: Source, node: exp.Expr) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return str(node.name)
    return source.slice(node)


def _number(source: Source, node: exp.Expr, unit: TimeUnit, least: int) -> int:
    text, span = source.slice(node), span_of(node)
    if not re.fullmatch(r"\d+", text):
        raise Refusal(
            f"{text} is not an unsigned whole number, the numbers of a window are literals",
            span,
            f"Write a number of {least} or more, e.g. 10.",
        )
    number = int(text)
    if number < least:
        raise Refusal(f"{text} is too small, the least is {least}", span, f"Write a number of {least} or more, e.g. 10.")
    if number * unit.micros > _LARGEST_US:
        raise _too_long(text, span)
    return number


def _offset(source: Source, node: exp.Expr, unit: TimeUnit) -> int:
    text, span = source.slice(node), span_of(node)
    if not re.fullmatch(r"[+-]?\s*\d+", text):
        raise Refusal(
            f"{text} is not a whole number, an offset is a literal", span, "Write a whole number, e.g. 3 or -3."
        )
    number = int(re.sub(r"\s", "", text))
    if abs(number) * unit.micros > _LARGEST_US:
        raise _too_long(text, span)
    return number


def _positive(text: str, micros: int, span: Span) -> None:
    if micros <= 0:
        raise Refusal(
            f"{text} is not positive, sizes, slides, steps and gaps are",
            span,
            "Write an interval longer than nothing, e.g. INTERVAL '10' SECOND.",
        )


def _not_negative(text: str, micros: int, span: Span) -> None:
    if micros < 0:
        raise Refusal(
            f"{text} is negative, a lag or a lateness is 0 or more", span, "Write e.g. INTERVAL '5' SECOND."
        )


def _too_long(text: str, span: Span) -> Refusal:
    return Refusal(f"{text} is longer than 146,000 years, the longest there is", span, "Write something shorter.")


def _shown(name: str) -> str:
    return name.upper() if name in TIME_WINDOWS else name
