"""Running one statement over files."""

from __future__ import annotations

from dataclasses import dataclass

import click

from tidegate.api.query import sql
from tidegate.cli.planning import named, relations_from_words, settings_from_words
from tidegate.cli.query import format_of
from tidegate.cli.tables import print_frame
from tidegate.config import missing_input
from tidegate.connectors.sources import read_table
from tidegate.errors import ConfigError
from tidegate.frontend.reading.parse import parse
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.statement import Relation
from tidegate.spark.session import local_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The arguments of ``tidegate sql``."""

    statement: str
    inputs: tuple[str, ...]
    file_format: str | None
    schemas: tuple[str, ...]
    settings: tuple[str, ...]


def run_batch(batch: Batch, *, output: str, most_rows: int) -> None:
    """Run the statement and print the answers.

    Raises:
        TidegateError: the statement, a setting or a file is wrong.
    """
    settings = settings_from_words(batch.settings)
    names = list(dict.fromkeys(stream.sql for stream in parse(batch.statement).streams))
    if not names:
        raise ConfigError(
            "the statement reads no stream or table\n\nName one in FROM, and its files by --input."
        )
    sources = _sources(batch, names)
    for source in sources.values():
        wrong = missing_input(source.path or "")
        if wrong is not None:
            raise ConfigError(f"--input {source.path}: {wrong[0]}\n\n{wrong[1]}")
    spark = local_session()
    frames = {name: read_table(spark, source) for name, source in sources.items()}
    stream, *tables = names
    query = sql(
        batch.statement,
        settings=settings,
        streams={stream: frames[stream]},
        tables={name: frames[name] for name in tables},
    )
    given = {stream: frames[stream]}
    print_frame(query.batch(**given), output=output, most_rows=most_rows)
    left_out = query.batch_errors(**given).groupBy("reason").count().orderBy("reason").collect()
    for reason, count in left_out:
        rows = "1 row or result" if count == 1 else f"{count:,} rows or results"
        click.echo(f"{rows} left out: {reason}", err=True)


def _sources(batch: Batch, names: list[str]) -> dict[str, SourceConfig]:
    """Return what to read for each name in FROM."""
    relations = {r.name: r for r in relations_from_words(batch.schemas, names)}
    ddl = dict(named(word, names) for word in batch.schemas)
    paths = dict(named(word, names) for word in batch.inputs)
    for name in paths:
        if name not in names:
            raise click.UsageError(f"--input {name}=..: FROM names {', '.join(names)} only.")
    for name in names:
        if name not in paths:
            raise click.UsageError(f"FROM names {name}: add --input {name}=PATH.")
    return {
        name: _source(relations[name], path, ddl.get(name), batch.file_format)
        for name, path in paths.items()
    }


def _source(
    relation: Relation, path: str, ddl: str | None, file_format: str | None
) -> SourceConfig:
    found = file_format or format_of(path)
    if found is None:
        raise ConfigError(
            f"--input {path}: the format is not clear from its name\n\n"
            "Add --format csv (or json, parquet, orc)."
        )
    return SourceConfig(
        name=relation.name,
        format=found,
        relation=Relation(name=relation.name, columns=relation.columns, streaming=False),
        path=path,
        schema=ddl,
        options={"header": "true"} if found == "csv" else {},
    )
