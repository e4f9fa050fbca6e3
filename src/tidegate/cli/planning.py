"""Plans of a pipeline file, an SQL file or a statement, without Spark."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import click

from tidegate.cli.readings import Checkpoints, Readings, readings_of
from tidegate.cli.results import check_results
from tidegate.cli.targets import Target, targets_of
from tidegate.compile import Compiled, compile_statement
from tidegate.connectors.table import tells_malformed
from tidegate.errors import ConfigError, QueryError, Span, TidegateError
from tidegate.explain.render import explain_json, explain_text
from tidegate.names import listed
from tidegate.paths import local_path, why_unreadable
from tidegate.plan.pipeline import PipelineConfig, SourceConfig, TransformConfig
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation, SelectStmt
from tidegate.plan.unions import difference
from tidegate.planner.results import result_columns, upstream_of
from tidegate.planner.warnings import warnings
from tidegate.state.files import LocalFiles

_SETTING = re.compile(r"(?:.*: )?(?:(\w+) = |The setting (\w+) is)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A planned statement; ``name`` is the transform's, or ``query``.

    ``targets`` are the sinks that a pipeline file names for it, ``readers`` the transforms that
    read its results, ``reads_with`` the one with which it reads its source, ``together`` all those,
    and ``alone`` says why it does not read it together with others that read it too.
    """

    name: str
    compiled: Compiled
    targets: tuple[Target, ...] = ()
    readers: tuple[str, ...] = ()
    reads_with: str | None = None
    together: tuple[str, ...] = ()
    alone: str | None = None

    @property
    def reads(self) -> str | None:
        """The transform whose results the statement reads, None if it reads a source."""
        upstream = self.compiled.physical.prepare.source.upstream
        return None if upstream is None else upstream.name

    def takers(self) -> list[str]:
        """Return a line for each sink, and for the transforms that it works with."""
        lines = [target.text() for target in self.targets]
        if self.readers:
            lines.append(f"results are read by {listed(self.readers)}")
        if self.together:
            lines.append(f"its source is read together with {listed(self.together)}")
        if self.alone is not None:
            lines.append(f"its source is read for it alone: {self.alone}")
        return lines

    def text(self) -> str:
        """Return EXPLAIN as text for people."""
        plans = explain_text(self.compiled.logical, self.compiled.physical)
        lines = [f"  {line}" for line in self.takers()]
        return "\n".join([plans, "Sinks", *lines, ""]) if lines else plans

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about likely mistakes in the statement."""
        return warnings(self.compiled.logical)

    def json(self) -> dict[str, object]:
        """Return EXPLAIN as JSON."""
        return {
            "name": self.name,
            **explain_json(self.compiled.logical, self.compiled.physical),
            "sinks": [asdict(target) for target in self.targets],
            "readers": list(self.readers),
            "reads_with": self.reads_with,
            "together": list(self.together),
            "alone": self.alone,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The arguments of ``check`` and ``explain``."""

    file: Path | None
    sql: str | None
    schemas: tuple[str, ...]
    settings: tuple[str, ...]


def plan_requested(asked: PlanRequest) -> Iterator[Planned | TidegateError]:
    """Yield the plan or the error of each statement.

    Raises:
        click.UsageError: neither or both of a file and a statement are given.
        ConfigError: the pipeline file, a schema or a setting is wrong.
    """
    if (asked.file is None) == (asked.sql is None):
        raise click.UsageError("Give a pipeline file, or a statement with --sql.")
    if asked.file is not None and asked.file.suffix != ".sql":
        if asked.schemas or asked.settings:
            raise click.UsageError("--schema and --set go with a statement; a file has its own.")
        yield from plan_pipeline(asked.file)
        return
    text, origin = (asked.sql, "query") if asked.sql is not None else read_statement(asked.file)
    settings = settings_from_words(asked.settings)
    try:
        relations = partial(relations_from_words, asked.schemas)
        compiled = compile_statement(text, relations, settings, origin=origin)
        yield Planned(name="query", compiled=compiled)
    except TidegateError as error:
        yield error


def plan_pipeline(file: Path) -> Iterator[Planned | TidegateError]:
    """Yield the plan or the error of each transform of a pipeline file."""
    from tidegate.config import load_config

    config = load_config(file)
    found: list[Planned | TidegateError] = []
    for transform in config.transforms.values():
        try:
            found.append(plan_transform(config, transform))
        except TidegateError as error:
            # One that reads a wrong transform has the error of that one.
            if str(error) not in map(str, found):
                found.append(error)
    plans = [each for each in found if isinstance(each, Planned)]
    readers = readers_of(plans)
    try:
        readings = readings_of(plans, config, _local_checkpoints(config))
    except ConfigError as error:
        readings = Readings(queries=())
        found.append(error)
    for each in found:
        if isinstance(each, Planned):
            yield in_company(replace(each, readers=tuple(readers.get(each.name, ()))), readings)
        else:
            yield each


def in_company(planned: Planned, readings: Readings) -> Planned:
    """Return a plan with the transforms that read its source together with it."""
    reading = readings.of(planned.name)
    if reading is None:
        return planned
    return replace(
        planned,
        reads_with=None if reading.first == planned.name else reading.first,
        together=tuple(name for name in reading.names if name != planned.name),
        alone=readings.alone.get(planned.name),
    )


def _local_checkpoints(config: PipelineConfig) -> Checkpoints | None:
    """What tells how transforms have begun; None if their checkpoints are not on this machine."""
    folder = local_path(config.checkpoint)
    return None if folder is None else Checkpoints(lambda name: LocalFiles(str(folder / name)))


def readers_of(plans: Iterable[Planned]) -> dict[str, list[str]]:
    """Return the transforms that read the results of a transform, by its name."""
    found: dict[str, list[str]] = {}
    for each in plans:
        if each.reads is not None:
            found.setdefault(each.reads, []).append(each.name)
    return found


def plan_transform(
    config: PipelineConfig, transform: TransformConfig, above: tuple[str, ...] = ()
) -> Planned:
    """Return the plan of a transform.

    Args:
        config: the pipeline file.
        transform: the transform.
        above: the transforms that read it, the one it was planned for first.

    Raises:
        TidegateError: the transform is wrong; the message has the place in the pipeline file.
    """
    try:
        compiled = compile_statement(
            transform.sql,
            partial(_relations, config, transform, above),
            transform.settings,
            origin=transform.origin,
        )
    except TidegateError as error:
        raise in_file(error, config, transform) from None
    check_results(compiled, config, transform)
    return Planned(
        name=transform.name,
        compiled=compiled.with_routes(transform.side_output.routes),
        targets=tuple(targets_of(config, transform)),
    )


def _relations(
    config: PipelineConfig,
    transform: TransformConfig,
    above: tuple[str, ...],
    statement: SelectStmt,
) -> list[Relation]:
    """Return what the statement of a transform may read.

    Raises:
        ConfigError: its ``sources`` cannot be read as one stream, or it reads its own results.
    """
    policy = transform.settings.error_policy
    relations = {
        # The frames of such a source have a hidden column, which needs the names of the others.
        name: replace(source.relation, malformed=True)
        if source.streaming and source.schema is not None and tells_malformed(source, policy)
        else source.relation
        for name, source in config.sources.items()
    }
    if not transform.sources:
        results = _results(config, (*above, transform.name), statement)
        return [*relations.values(), *results]
    listed = json.dumps(transform.sources)
    known = {name.lower() for name in relations}
    union = next((each.sql for each in statement.streams if each.sql.lower() not in known), None)
    if union is None:
        raise ConfigError(
            f"sources = {listed}: FROM does not name the stream that they are read as\n\n"
            "Write any name in FROM that is not one of a source or table, e.g. FROM events."
        )
    united = {name: relations[name] for name in transform.sources}
    columns = {name: relation.columns for name, relation in united.items()}
    differs = difference(columns)
    if differs is not None:
        raise ConfigError(
            f"sources = {listed}: their columns differ: {differs}\n\n"
            "Only sources with the same columns can be read as one stream."
        )
    first = next((each for each in columns.values() if each is not None), None)
    malformed = any(relation.malformed for relation in united.values())
    stream = Relation(name=union, columns=first, malformed=malformed, united=True)
    stream = replace(stream, members=transform.sources)
    return [*relations.values(), stream]


def _results(
    config: PipelineConfig, above: tuple[str, ...], statement: SelectStmt
) -> list[Relation]:
    """Return the results of transforms; of those that a statement does not read only the name."""
    asked = {stream.sql.lower() for stream in statement.streams}
    sources = {name.lower() for name in config.sources}
    found = []
    for other in config.transforms.values():
        if other.name.lower() in sources:
            continue
        if other.name.lower() not in asked:
            found.append(Relation(name=other.name, columns=None))
            continue
        if other.name in above:
            circle = [*above[above.index(other.name) :], other.name]
            path = " reads ".join(circle)
            raise ConfigError(
                f"a transform cannot read its own results: {path}\n\nRead a source in one of them."
            )
        compiled = plan_transform(config, other, above).compiled
        plan = compiled.physical
        columns = None if compiled.bound.star else result_columns(plan)
        upstream = upstream_of(other.name, plan)
        found.append(Relation(name=other.name, columns=columns, upstream=upstream))
    return found


def in_file(
    error: TidegateError, config: PipelineConfig, transform: TransformConfig
) -> TidegateError:
    """Return an error of a transform with its line in the pipeline file, if it has one."""
    if isinstance(error, QueryError) and error.sql == transform.sql:
        if transform.sql_offset is None:
            return error
        start = transform.sql_offset
        return QueryError(
            error.what,
            sql=config.text,
            span=Span(start + error.span.start, start + error.span.end),
            mend=error.mend,
            origin=error.origin,
        )
    if isinstance(error, ConfigError):
        from tidegate.config import explain_at

        if str(error).startswith(f"{config.file.name}, line "):
            return error  # of a transform that this one reads

        setting = _SETTING.match(str(error))
        key = (setting[1] or setting[2]) if setting else ""
        path = ("transforms", transform.name, key)
        return ConfigError(explain_at(config, path, str(error)))
    return error


def at_source(error: ConfigError, config: PipelineConfig, source: SourceConfig) -> ConfigError:
    """Return an error of a source or table with its line in the pipeline file."""
    from tidegate.config import explain_at

    section = "sources" if source.streaming else "tables"
    message = str(error).removeprefix(f"{section}.{source.name}: ")
    what, _, mend = message.partition("\n\n")
    # Find the key that the message is about; if there is none, use the section.
    key = ""
    if what.startswith("path = ") or mend.startswith("Correct the path"):
        key = "path"
    elif mend.startswith("Correct the format"):
        key = "format"
    elif "DDL" in mend and source.schema is not None:
        key = "schema"
    return ConfigError(explain_at(config, (section, source.name, key), message))


def read_statement(file: Path | None) -> tuple[str, str]:
    """Return the text of an SQL file and its name for messages."""
    assert file is not None, "checked by the caller"
    try:
        return file.read_text(encoding="utf-8-sig"), file.name
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: the file cannot be read: {why_unreadable(error)}\n\n"
            "Give a file that contains one statement."
        ) from None


def settings_from_words(words: Iterable[str]) -> Settings:
    """Return the settings of ``--set KEY=VALUE``; the value is TOML if it parses, else text."""
    values: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--set {word}: write KEY=VALUE, e.g. --set watermark_lag=5m")
        try:
            values[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text.strip()
    if not values:
        return Settings()
    from tidegate.config import read_settings

    return read_settings(values, "--set")


def relations_from_words(words: Iterable[str], statement: SelectStmt) -> list[Relation]:
    """Return the relations that a statement reads, with the columns of ``--schema [NAME=]DDL``.

    The first name in FROM is the stream, or those are streams that FROM unites; the others are
    static tables.
    """
    names = [stream.sql for stream in statement.streams]
    streams = statement.united or tuple(names[:1])
    schemas: dict[str, str] = {}
    for word in words:
        name, ddl = named(word, names)
        schemas[name] = ddl
    relations = []
    for name in dict.fromkeys(names):
        try:
            columns = parse_schema(schemas.pop(name)) if name in schemas else None
        except ValueError as error:
            raise ConfigError(
                f'--schema: {error}\n\nA schema is DDL, e.g. --schema "ts TIMESTAMP, v INT".'
            ) from None
        relations.append(Relation(name=name, columns=columns, streaming=name in streams))
    if schemas:
        known = f"names {', '.join(names)} only" if names else "reads no stream or table"
        raise click.UsageError(f"--schema {next(iter(schemas))}: the statement {known}.")
    return relations


def named(word: str, names: list[str]) -> tuple[str, str]:
    """Split ``NAME=VALUE``; without a name it is for the first of ``names``."""
    match = re.match(r"\s*(\w+)\s*=\s*(.*)", word, re.DOTALL)
    if match:
        return match[1], match[2]
    return (names[0] if names else "", word)
