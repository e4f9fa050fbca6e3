"""The pipeline file: from TOML to ``PipelineConfig``, or a message that names each wrong line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from tidegate.config.checks import cross_problems
from tidegate.config.folders import folder_problems, resolve
from tidegate.config.kafka import avro_schema_text, kafka_problems
from tidegate.config.lines import find_places, string_offset
from tidegate.config.model import (
    PipelineFile,
    SourceSection,
    TableSection,
    TransformSection,
)
from tidegate.config.problems import Problem, render_in_file, validation_problems
from tidegate.config.settings import to_settings
from tidegate.connectors.table import SOURCES
from tidegate.errors import ConfigError
from tidegate.paths import why_unreadable
from tidegate.plan.pipeline import (
    PipelineConfig,
    RestartPolicy,
    SideOutputConfig,
    SinkConfig,
    SourceConfig,
    TransformConfig,
)
from tidegate.plan.schema import parse_schema
from tidegate.plan.statement import Relation

_TOML_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)")


def load_config(path: str | Path) -> PipelineConfig:
    """Return what a pipeline file says. Paths in it are relative to the folder it is in.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or has mistakes.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no such file\n\nName a pipeline file, e.g. pipeline.toml."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: the file cannot be read: {why_unreadable(error)}\n\n"
            "A pipeline file is TOML in UTF-8."
        ) from None
    return parse_config(text, file)


def parse_config(text: str, file: Path) -> PipelineConfig:
    """Return what the text of a pipeline file says; ``file`` is for messages and relative paths.

    Raises:
        ConfigError: the text is not TOML or has mistakes; the message lists all of them, by line.
    """
    text = text.replace("\r\n", "\n")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax_message(str(error), text, file.name)) from None
    try:
        sections = PipelineFile.model_validate(data)
        problems = [
            *cross_problems(sections),
            *folder_problems(sections, file.resolve().parent),
            *kafka_problems(sections, file.resolve().parent),
        ]
    except ValidationError as error:
        problems = validation_problems(error, PipelineFile)
    if problems:
        raise ConfigError(render_in_file(problems, file.name, text))
    return _pipeline(sections, text, file)


def explain_at(config: PipelineConfig, path: tuple[str, ...], message: str) -> str:
    """Add the line of ``path`` in the file to a message that was made without the file."""
    what, _, mend = message.partition("\n\n")
    return render_in_file([Problem(path=path, what=what, mend=mend)], config.file.name, config.text)


def _syntax_message(message: str, text: str, file: str) -> str:
    match = _TOML_PLACE.fullmatch(message)
    mend = "Text goes in quotes, long text in triple quotes, a section's name in brackets."
    if match is None or match[2] is None:
        what = match[1] if match else message
        return f"{file}: the file is not valid TOML: {what}, at its end\n\n{mend}"
    line, column = int(match[2]), int(match[3])
    content = [*text.split("\n"), ""][line - 1]
    margin = f"  {line} | "
    return (
        f"{file}, line {line}, column {column}: the file is not valid TOML: {match[1]}\n\n"
        f"{margin}{content}\n{' ' * (len(margin) - 2)}| {' ' * (column - 1)}^\n\n{mend}"
    )


def _pipeline(sections: PipelineFile, text: str, file: Path) -> PipelineConfig:
    folder = file.resolve().parent
    routes = (route for each in sections.transforms.values() for route in each.side_output.routes())
    reinjected = {route.reinject_to for route in routes if route.reinjects}
    sources = {
        name: _source(name, section, folder, reinjected=name in reinjected)
        for name, section in (sections.sources | sections.tables).items()
    }
    return PipelineConfig(
        file=file,
        text=text,
        name=sections.pipeline.name or file.stem,
        checkpoint=resolve(sections.pipeline.checkpoint, folder),
        trigger=sections.pipeline.trigger,
        metrics_port=sections.pipeline.metrics_port,
        metrics_host=sections.pipeline.metrics_host,
        monitor_port=sections.pipeline.monitor_port,
        monitor_host=sections.pipeline.monitor_host,
        log=sections.pipeline.log,
        restarts=RestartPolicy(
            restart=sections.pipeline.restart,
            attempts=sections.pipeline.restart_attempts,
            delay_us=sections.pipeline.restart_delay,
            max_delay_us=sections.pipeline.restart_max_delay,
        ),
        spark_options=dict(_spark_options(sections.pipeline.spark)),
        sources=sources,
        transforms={
            name: _transform(name, section, text, file)
            for name, section in sections.transforms.items()
        },
        sinks={
            name: SinkConfig(
                name=name,
                transform=section.transform,
                format=section.format,
                path=resolve(section.path, folder) if section.path else None,
                options=section.options,
                key=section.key,
            )
            for name, section in sections.sinks.items()
        },
    )


def _source(
    name: str, section: TableSection, folder: Path, *, reinjected: bool = False
) -> SourceConfig:
    columns = parse_schema(section.ddl) if section.ddl else None
    table = SourceConfig(
        name=name,
        format=section.format,
        relation=Relation(name=name, columns=columns, streaming=False),
        path=resolve(section.path, folder) if section.path else None,
        schema=section.ddl,
        options=section.options,
    )
    if not isinstance(section, SourceSection):
        return table
    source = replace(
        table,
        relation=replace(table.relation, streaming=True),
        max_files_per_trigger=section.max_files_per_trigger,
        max_offsets_per_trigger=section.max_offsets_per_trigger,
        value=section.value,
        keeps_records=reinjected,
        avro_schema=avro_schema_text(section.avro_schema, folder) if section.avro_schema else None,
    )
    kind = SOURCES.get(section.format)
    if kind is None or kind.columns is None:
        return source
    return replace(source, relation=replace(source.relation, columns=kind.columns(source)))


def _transform(name: str, section: TransformSection, text: str, file: Path) -> TransformConfig:
    side_output = SideOutputConfig(routes=section.side_output.routes())
    if section.sql is not None:
        place = find_places(text).get(("transforms", name, "sql"))
        sql, origin = section.sql, f"{file.name}, transforms.{name}.sql"
        offset = string_offset(text, place, sql) if place else None
    else:
        assert section.sql_file is not None, "checked: one of the two is given"
        sql, origin, offset = (
            _read_statement(name, section.sql_file, text, file),
            section.sql_file,
            None,
        )
    return TransformConfig(
        name=name,
        sql=sql,
        origin=origin,
        sql_offset=offset,
        settings=to_settings(section),
        side_output=side_output,
        sources=tuple(section.sources or ()),
        reads_with=section.reads_with,
        reads_alone=section.reads_alone,
    )


def _read_statement(name: str, sql_file: str, text: str, file: Path) -> str:
    try:
        return (file.resolve().parent / sql_file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        problem = Problem(
            path=("transforms", name, "sql_file"),
            what=f'sql_file = "{sql_file}": the file cannot be read: {why_unreadable(error)}',
            mend="sql_file is relative to the folder of this file.",
        )
        raise ConfigError(render_in_file([problem], file.name, text)) from None


def _spark_options(table: Mapping[str, object], prefix: str = "spark") -> Iterable[tuple[str, str]]:
    """Yield Spark's options by their full names: TOML makes tables of the dots in a bare key."""
    for key, value in table.items():
        name = key if key.startswith("spark.") else f"{prefix}.{key}"
        if isinstance(value, Mapping):
            yield from _spark_options(value, name)
        else:
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
