"""The WINDOW clause and the WATERMARK clause."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import Span
from tidegate.frontend.grammar.nodes import WatermarkClause, WindowClause, WindowParameter, span_of
from tidegate.frontend.grammar.source import Source
from tidegate.frontend.reading.sizes import (
    KIND_SIZES,
    ReadWindow,
    from_durations,
    not_negative,
    positive,
    read_duration,
)
from tidegate.frontend.refusal import Refusal
from tidegate.names import listed, suggestion

# What the all-in-one form says about time.
_CLAUSE_TIME = ("ON", "WATERMARK", "ALLOWED LATENESS")

_WATERMARK_MEND = (
    "Write WATERMARK (INTERVAL '5' SECOND) or "
    "WATERMARK (INTERVAL '5' SECOND, ALLOWED LATENESS INTERVAL '1' MINUTE)."
)


def read_clause(source: Source, clause: WindowClause) -> ReadWindow:
    """Return the window of a WINDOW clause.

    Raises:
        Refusal: its kind or its parameters are not those of the grammar.
    """
    kind = clause.name
    if kind not in KIND_SIZES:
        raise Refusal(
            f"there is no window kind {kind}",
            Span(*clause.meta["kind_span"]),
            suggestion(kind, KIND_SIZES, otherwise=f"Write one of {listed(KIND_SIZES)}."),
        )
    needed, optional = KIND_SIZES[kind]
    given = _clause_parameters(clause, kind, (*needed, *optional, *_CLAUSE_TIME))
    for missing in needed:
        if missing not in given:
            raise Refusal(
                f"WINDOW {kind} has no {missing}",
                span_of(clause),
                f"Write WINDOW {kind} ({', '.join(f'{word} INTERVAL ..' for word in needed)}).",
            )
    durations = [read_duration(source, given[word], positive) for word in needed]
    if "OFFSET" in given:
        durations.append(read_duration(source, given["OFFSET"], None))
    on = given.get("ON")
    return ReadWindow(
        window=from_durations(kind, durations),
        span=span_of(clause),
        event_time=on.args["expression"] if on else None,
        lag=given.get("WATERMARK"),
        lateness=given.get("ALLOWED LATENESS"),
    )


def read_watermark(
    clause: WatermarkClause,
) -> tuple[WindowParameter | None, WindowParameter | None]:
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
                f"WATERMARK gives the {parameter.name or 'lag'} twice",
                span_of(parameter),
                "Leave one of the two out.",
            )
        given[parameter.name] = parameter
    if not given:
        raise Refusal("WATERMARK () needs a lag", span_of(clause), _WATERMARK_MEND)
    return given.get(""), given.get("ALLOWED LATENESS")


def read_delay(source: Source, parameter: WindowParameter | None) -> int | None:
    """Return the microseconds of a lag or a lateness: 0 or more, None when not given."""
    return None if parameter is None else read_duration(source, parameter, not_negative).micros


def _clause_parameters(
    clause: WindowClause, kind: str, known: Sequence[str]
) -> dict[str, WindowParameter]:
    given: dict[str, WindowParameter] = {}
    for parameter in clause.expressions:
        name = parameter.name
        if name not in known:
            raise Refusal(
                f"WINDOW {kind} has no parameter {name}"
                if name
                else f"a parameter of WINDOW {kind} has no name",
                span_of(parameter),
                f"Its parameters are {listed(known)}.",
            )
        if name in given:
            raise Refusal(f"{name} is given twice", span_of(parameter), f"Leave one {name} out.")
        given[name] = parameter
    return given
