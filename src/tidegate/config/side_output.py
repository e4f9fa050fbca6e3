"""Checks of side output in a pipeline file: its sinks exist, and rows can go back to an input."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.config.model import PipelineFile
from tidegate.config.problems import Problem, nearest_of
from tidegate.connectors.places import WILDCARDS
from tidegate.connectors.table import SOURCES
from tidegate.names import listed
from tidegate.plan.side_output import METRICS_ONLY, REINJECT, Route

_WORDS = (METRICS_ONLY, REINJECT)


def route_problems(
    path: tuple[str, ...], route: Route, sections: PipelineFile
) -> Iterable[Problem]:
    """Yield what is wrong with one kind of side output; ``path`` is the one of its section."""
    if route.sink not in (*_WORDS, *sections.sinks):
        yield Problem(
            path=(*path, "sink"),
            what=f'sink = "{route.sink}": there is no sink {route.sink}',
            mend=nearest_of(route.sink, (*sections.sinks, *_WORDS), "sinks"),
        )
    if route.reinjects:
        yield from _reinject_problems(path, route, sections)
    elif route.reinject_to is not None:
        yield Problem(
            path=(*path, "reinject_to"),
            what=f'reinject_to = "{route.reinject_to}" has no effect: {route.kind} rows go to '
            f"{route.sink}",
            mend=f'Write sink = "{REINJECT}", or remove reinject_to.',
        )


def _reinject_problems(
    path: tuple[str, ...], route: Route, sections: PipelineFile
) -> Iterable[Problem]:
    name = route.reinject_to
    if name is None:
        return  # reported when the statement is planned, which tells the stream to name
    source = sections.sources.get(name)
    if source is None:
        yield Problem(
            path=(*path, "reinject_to"),
            what=f'reinject_to = "{name}": there is no source {name}',
            mend=nearest_of(name, sections.sources, "sources"),
        )
        return
    kind = SOURCES.get(source.format)
    if kind is None or not kind.takes_back:
        files = [name for name, kind in SOURCES.items() if kind.takes_back and kind.has_path]
        yield Problem(
            path=(*path, "reinject_to"),
            what=f'reinject_to = "{name}": rows cannot go back to format {source.format}',
            mend=f"They can go back to a folder of {listed(files)}, or to kafka; or name a sink.",
        )
    elif source.path is not None and any(each in source.path for each in WILDCARDS):
        yield Problem(
            path=(*path, "reinject_to"),
            what=f'reinject_to = "{name}": its path is a pattern, not a folder',
            mend="Read one folder, or name a sink.",
        )


def reserved_problems(sections: PipelineFile) -> Iterable[Problem]:
    """Yield the sinks whose names mean something else in side output."""
    for name in sections.sinks:
        if name in _WORDS:
            yield Problem(
                path=("sinks", name),
                what=f"{name} cannot be the name of a sink: in side output the word has a meaning",
                mend="Give the sink another name.",
            )
