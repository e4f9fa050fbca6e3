"""What ``Query.start`` is given for each kind of side output: a sink, alone or with limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.api import arguments
from tidegate.connectors.sinks import FileSink, Sink, SinkLike
from tidegate.errors import ConfigError
from tidegate.plan.side_output import KINDS, METRICS_ONLY, REINJECT, Route
from tidegate.time import parse_duration

DEFAULT_TIMEOUT = "30s"


@dataclass(frozen=True, slots=True)
class SideOutput:
    """Where one kind of side output goes, and within which limits.

    >>> import tidegate as tg
    >>> late = tg.SideOutput("out/late", rate_limit=1000, timeout="5s")

    Args:
        sink: a sink as ``Query.start`` takes it; ``metrics_only``: rows are only counted; or
            ``reinject``: the rows themselves go back to their input.
        include_original: whether records have the original row.
        rate_limit: the most records a second of the batches' clock; None: no limit.
        timeout: how long a write may take in a batch; what is not written by then is dropped.
        reinject_to: with ``reinject`` as sink, the stream to whose input the rows go back.
        allow_reinject: with ``reinject`` as sink, needed for late rows.
    """

    sink: SinkLike
    include_original: bool = True
    rate_limit: int | None = None
    timeout: str = DEFAULT_TIMEOUT
    reinject_to: str | None = None
    allow_reinject: bool = False


SideOutputLike: TypeAlias = "SideOutput | SinkLike"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The side output of a query that starts.

    Attributes:
        sinks: by the argument of ``Query.start``, without those of rows that go back.
        routes: one for each kind.
    """

    sinks: Mapping[str, Sink]
    routes: tuple[Route, ...]

    @property
    def keep_rows(self) -> bool:
        """Whether some records show the original row."""
        return any(route.writes and route.include_original for route in self.routes)


def sides_of(given: Mapping[str, object], *, local: bool) -> Sides:
    """Return what is given for the kinds of side output.

    Args:
        given: by the argument of ``Query.start``; None: nothing.
        local: whether plain paths are on this machine.

    Raises:
        ConfigError: names the argument, the value and the mend.
    """
    sinks: dict[str, Sink] = {}
    routes: list[Route] = []
    for kind in KINDS:
        name, value = kind.argument, given[kind.argument]
        if value is None:
            routes.append(Route(kind=kind.name, by_default=True))
            continue
        side = value if isinstance(value, SideOutput) else SideOutput(value)  # type: ignore[arg-type]
        sink = METRICS_ONLY
        if side.sink == REINJECT:
            sink = REINJECT
        elif side.sink != METRICS_ONLY:
            sinks[name] = _exact(arguments.sink(side.sink, name, local=local))
            sink = type(sinks[name]).__name__
        routes.append(
            Route(
                kind=kind.name,
                sink=sink,
                include_original=arguments.flag(side.include_original, "include_original", name),
                rate_limit=_rate_limit(side.rate_limit, name),
                timeout_us=_timeout_us(side.timeout, name),
                reinject_to=side.reinject_to,
                allow_reinject=arguments.flag(side.allow_reinject, "allow_reinject", name),
            )
        )
    return Sides(sinks=sinks, routes=tuple(routes))


# Spark cuts the times of JSON to milliseconds; a row that is run again needs its own.
_EXACT_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


def _exact(sink: Sink) -> Sink:
    """Return a sink that keeps the microseconds of original rows, unless the user has a format."""
    if not isinstance(sink, FileSink) or sink.format != "json":
        return sink
    given = {name.lower() for name in sink.options}
    ours = {name: text for name, text in _EXACT_TIMES.items() if name.lower() not in given}
    return replace(sink, options={**ours, **sink.options})


def _rate_limit(value: object, name: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ConfigError(
            f"{name}: rate_limit is {arguments.shown(value)}, it must be a whole number above 0\n\n"
            "Give the most records a second, e.g. rate_limit=1000, or leave it out."
        )
    return value


def _timeout_us(value: object, name: str) -> int:
    mend = 'Give a duration, e.g. timeout="5s".'
    if not isinstance(value, str):
        raise ConfigError(
            f"{name}: timeout is {arguments.shown(value)}, it must be text with a unit\n\n{mend}"
        )
    try:
        timeout_us = parse_duration(value)
    except ValueError as error:
        raise ConfigError(f"{name}: timeout: {error}\n\n{mend}") from None
    if not timeout_us:
        raise ConfigError(f"{name}: timeout is {value!r}, it must be greater than 0\n\n{mend}")
    return timeout_us
