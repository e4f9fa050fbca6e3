"""Checks across the keys of a pipeline file: every name that is used must exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidegate.config.model import (
    PipelineFile,
    SinkSection,
    TableSection,
    TransformSection,
)
from tidegate.config.problems import Problem, nearest_of
from tidegate.config.settings import setting_problems
from tidegate.config.side_output import reserved_problems, route_problems
from tidegate.connectors.table import (
    REFUSED_SINKS,
    REFUSED_SOURCES,
    SINKS,
    SOURCES,
    SinkKind,
    SourceKind,
    sink_kind,
)
from tidegate.names import nearest


def cross_problems(sections: PipelineFile) -> Iterable[Problem]:
    """Yield conflicts between keys that are each valid on their own."""
    for kind, tables in (("sources", sections.sources), ("tables", sections.tables)):
        for name, table in tables.items():
            yield from _source_problems((kind, name), table)
    for name in sections.tables.keys() & sections.sources.keys():
        yield Problem(
            path=("tables", name),
            what=f"{name} is a source and a table",
            mend="Give one of them another name.",
        )
    for name, transform in sections.transforms.items():
        yield from _transform_problems(name, transform, sections)
    yield from reserved_problems(sections)
    for name, sink in sections.sinks.items():
        yield from _sink_problems(name, sink, sections)


def _source_problems(path: tuple[str, str], section: TableSection) -> Iterable[Problem]:
    kind = SOURCES.get(section.format)
    if kind is not None and kind.has_path and section.path is None:
        yield _path_problem(path, section.format)
    yield from _key_problems(path, section, kind, SOURCES)
    if section.format in REFUSED_SOURCES:
        yield _refused(path, section.format, REFUSED_SOURCES)
    # A format that Spark does not know may come from a package, unless it looks like a typo.
    near = nearest(section.format, SOURCES)
    if near and kind is None:
        yield Problem(
            path=(*path, "format"),
            what=f'format = "{section.format}": there is no such format',
            mend=f"Did you mean {near}?",
        )


def _key_problems(
    path: tuple[str, str],
    section: TableSection | SinkSection,
    kind: SourceKind | SinkKind | None,
    kinds: Mapping[str, SourceKind | SinkKind],
) -> Iterable[Problem]:
    """Yield the keys of other formats that a section has, and the options that it lacks."""
    own = () if kind is None else kind.keys
    others = {key: name for name, other in kinds.items() for key in other.keys if key not in own}
    for key, name in others.items():
        if getattr(section, key, None) is not None:
            yield Problem(
                path=(*path, key),
                what=f"{key} is a key of format {name}; the format here is {section.format}",
                mend=f"Leave {key} out.",
            )
    given = {option.lower() for option in section.options}
    for names in () if kind is None else kind.needs:
        if not given & {name.lower() for name in names}:
            yield Problem(
                path=(*path, "options"),
                what=f"format {section.format} needs the option {' or '.join(names)}",
                mend=f'Add options."{names[0]}" = "..".',
            )


def _refused(path: tuple[str, str], file_format: str, reasons: Mapping[str, str]) -> Problem:
    return Problem(
        path=(*path, "format"),
        what=f'format = "{file_format}": {reasons[file_format]}',
        mend="Use another format, e.g. delta or parquet.",
    )


def _path_problem(path: tuple[str, str], file_format: str) -> Problem:
    return Problem(
        path=(*path, "path"),
        what=f"path is missing, and format {file_format} needs one",
        mend="path is relative to the folder of this file, absolute, or a URL.",
    )


def _union_problems(
    path: tuple[str, ...], transform: TransformSection, sections: PipelineFile
) -> Iterable[Problem]:
    if transform.sources is None:
        return
    for source in transform.sources:
        if source not in sections.sources:
            yield Problem(
                path=path,
                what=f'sources names "{source}": there is no source {source}',
                mend=nearest_of(source, sections.sources, "sources"),
            )
    if len(set(transform.sources)) < max(2, len(transform.sources)):
        yield Problem(
            path=path,
            what="sources must name two sources or more, each once",
            mend="To read a single source, leave sources out and name it in FROM.",
        )


def _transform_problems(
    name: str, transform: TransformSection, sections: PipelineFile
) -> Iterable[Problem]:
    path = ("transforms", name)
    yield from setting_problems(transform, path)
    if (transform.sql is None) == (transform.sql_file is None):
        both = transform.sql is not None
        yield Problem(
            path=(*path, "sql"),
            what="sql and sql_file are both given" if both else "sql is missing",
            mend="Give the statement as sql, or the file that contains it as sql_file.",
        )
    yield from _union_problems((*path, "sources"), transform, sections)
    yield from _company_problems(name, transform, sections)
    for route in transform.side_output.routes():
        yield from route_problems((*path, "side_output", route.kind), route, sections)
    is_taken = any(section.transform == name for section in sections.sinks.values())
    if not is_taken and not _may_be_read(name, sections):
        yield Problem(
            path=(*path, ""),
            what="no sink takes its results",
            mend=f'Add [sinks.NAME] with from = "{name}" and a format.',
        )


def _company_problems(
    name: str, transform: TransformSection, sections: PipelineFile
) -> Iterable[Problem]:
    other = transform.reads_with
    if other is None:
        return
    path = ("transforms", name, "reads_with")
    if transform.reads_alone:
        yield Problem(
            path=path,
            what=f'reads_with = "{other}": reads_alone is set too',
            mend="Leave one of them out.",
        )
    if other == name or other not in sections.transforms:
        others = [each for each in sections.transforms if each != name]
        yield Problem(
            path=path,
            what=f'reads_with = "{other}": there is no other transform {other}',
            mend=nearest_of(other, others, "transforms"),
        )
        return
    first = sections.transforms[other].reads_with
    if first is not None:
        yield Problem(
            path=path,
            what=f'reads_with = "{other}": {other} reads with {first} itself',
            mend=f'Write reads_with = "{first}".' if first != name else "Leave one of them out.",
        )


def _may_be_read(name: str, sections: PipelineFile) -> bool:
    """Whether another transform has the name in its statement; planning knows for sure."""
    word = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)
    others = [each for other, each in sections.transforms.items() if other != name]
    return any(each.sql is None or word.search(each.sql) for each in others)


def _sink_problems(name: str, sink: SinkSection, sections: PipelineFile) -> Iterable[Problem]:
    path = ("sinks", name)
    kind = sink_kind(sink.format)
    # A format that is not in the table may come from a package, unless it looks like a typo.
    near = nearest(sink.format, SINKS) if sink.format not in SINKS else None
    if sink.format in REFUSED_SINKS:
        yield _refused(path, sink.format, REFUSED_SINKS)
    elif near:
        yield Problem(
            path=(*path, "format"),
            what=f'format = "{sink.format}": sinks have no such format',
            mend=f"Did you mean {near}?",
        )
    else:
        yield from _kind_problems(path, sink, kind)
    if sink.transform is not None and sink.transform not in sections.transforms:
        yield Problem(
            path=("sinks", name, "from"),
            what=f'from = "{sink.transform}": there is no transform {sink.transform}',
            mend=nearest_of(sink.transform, sections.transforms, "transforms"),
        )
    users = [
        transform_name
        for transform_name, transform in sections.transforms.items()
        if name in transform.side_output.sinks().values()
    ]
    if sink.transform is None and not users:
        yield Problem(
            path=("sinks", name, "from"),
            what=f"nothing goes to sink {name}",
            mend="Add from with a transform's name, or name the sink in a side_output.",
        )
    if users and not kind.nested:
        yield Problem(
            path=(*path, "format"),
            what=f"format {sink.format} cannot hold the records of side output",
            mend="Records contain structs, such as the original row: choose json, parquet or orc.",
        )
    if len(users) > 1 and kind.has_path:
        yield Problem(
            path=(*path, "path"),
            what=f"sink {name} takes side output of {' and '.join(users)}",
            mend="Each would replace the other's files: make a sink for each.",
        )
    if sink.transform is not None and users:
        yield Problem(
            path=("sinks", name, "from"),
            what=f"sink {name} takes results and side output",
            mend="Their columns differ: make a sink for each.",
        )


def _kind_problems(path: tuple[str, str], sink: SinkSection, kind: SinkKind) -> Iterable[Problem]:
    """Yield which keys do not fit the format of a sink."""
    yield from _key_problems(path, sink, kind, SINKS)
    if kind.has_path and sink.path is None:
        yield _path_problem(path, sink.format)
    if kind.has_path is False and sink.path is not None:
        yield Problem(
            path=(*path, "path"),
            what=f"format {sink.format} takes no path",
            mend="Remove path, or choose a format that writes files.",
        )
    known = sink.options if kind.options is None else kind.options
    for option in sink.options:
        if option not in known:
            yield Problem(
                path=(*path, "options", option),
                what=f"format {sink.format} has no option {option}",
                mend=nearest_of(option, known, "options"),
            )
