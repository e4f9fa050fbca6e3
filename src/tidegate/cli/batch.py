"""Runs one statement over files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.api.query import sql
from tidegate.cli.formats import format_of
from tidegate.cli.planning import named, relations_from_words, settings_from_words
from tidegate.cli.tables import print_frame
from tidegate.config import missing_input
from tidegate.connectors.sources import read_table, reporting_headers
from tidegate.errors import ConfigError
from tidegate.frontend.reading.parse import parse
from tidegate.names import listed
from tidegate.plan.columns import MALFORMED
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.statement import Relation, SelectStmt
from tidegate.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Types that Spark can widen to one another without losing rows.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The arguments of ``tidegate sql``."""

    statement: str
    inputs: tuple[str, ...]
    file_format: str | None
    schemas: tuple[str, ...]
    options: tuple[str, ...]
    settings: tuple[str, ...]


def run_batch(batch: Batch, *, output: str, most_rows: int) -> None:
    """Run the statement and print the results.

    Raises:
        TidegateError: the statement, a setting or a file is wrong.
    """
    settings = settings_from_words(batch.settings)
    statement = parse(batch.statement)
    names = list(dict.fromkeys(stream.sql for stream in statement.streams))
    if not names:
        raise ConfigError(
            "the statement reads no stream or table\n\nName one in FROM, and its files in --input."
        )
    sources = _sources(batch, statement, names)
    for source in (source for inputs in sources.values() for source in inputs):
        wrong = missing_input(source.path or "")
        if wrong is not None:
            raise ConfigError(f"--input {source.path}: {wrong[0]}\n\n{wrong[1]}")
    spark = local_session()
    streams = statement.united or tuple(names[:1])
    frames = {
        name: _read(spark, inputs, settings.error_policy if name in streams else ErrorPolicy.NULL)
        for name, inputs in sources.items()
    }
    given = {name: frames[name] for name in streams}
    query = sql(
        batch.statement,
        settings=settings,
        streams=given,
        tables={name: frames[name] for name in names if name not in streams},
    )
    with reporting_headers():
        print_frame(query.batch(**given), output=output, most_rows=most_rows)
        left_out = query.batch_errors(**given).groupBy("reason").count().orderBy("reason").collect()
    for reason, count in left_out:
        rows = "1 row or result" if count == 1 else f"{count:,} rows or results"
        click.echo(f"{rows} left out: {reason}", err=True)


def _sources(
    batch: Batch, statement: SelectStmt, names: list[str]
) -> dict[str, list[SourceConfig]]:
    """Return what to read for each name in FROM."""
    relations = {r.name: r for r in relations_from_words(batch.schemas, statement)}
    ddl = dict(named(word, names) for word in batch.schemas)
    options = dict(map(_option, batch.options))
    paths: dict[str, list[str]] = {}
    for word in batch.inputs:
        # A file may have an equals sign in its name.
        name, path = (names[0], word) if Path(word).exists() else named(word, names)
        paths.setdefault(name, []).append(path)
    for name in paths:
        if name not in names:
            raise click.UsageError(f"--input {name}=..: FROM names {', '.join(names)} only.")
    for name in names:
        if name not in paths:
            raise click.UsageError(f"FROM names {name}: add --input {name}=PATH.")
    return {
        name: [
            _source(relations[name], path, ddl.get(name), batch.file_format, options)
            for path in each
        ]
        for name, each in paths.items()
    }


def _option(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--option {word}: write KEY=VALUE, e.g. --option header=false")
    return name.strip(), value


def _source(
    relation: Relation,
    path: str,
    ddl: str | None,
    file_format: str | None,
    options: Mapping[str, str],
) -> SourceConfig:
    found = file_format or format_of(path)
    if found is None:
        raise ConfigError(
            f"--input {path}: the format is not clear from its name\n\n"
            "Add --format csv (or json, parquet, orc)."
        )
    has_header = found == "csv" and "header" not in {name.lower() for name in options}
    return SourceConfig(
        name=relation.name,
        format=found,
        relation=Relation(name=relation.name, columns=relation.columns, streaming=False),
        path=path,
        schema=ddl,
        options={**({"header": "true"} if has_header else {}), **options},
        label=f"--input {path}",
        option_form="--option {name}={value}",
    )


def _read(spark: SparkSession, inputs: list[SourceConfig], policy: ErrorPolicy) -> DataFrame:
    """Return the rows of all inputs of one name.

    Raises:
        ConfigError: an input cannot be read, or two have different columns.
    """
    frames = [read_table(spark, source, policy) for source in inputs]
    for source, frame in zip(inputs[1:], frames[1:], strict=True):
        _refuse_other_columns(inputs[0], frames[0], source, frame)
    return reduce(lambda some, more: some.unionByName(more), frames)


def _refuse_other_columns(
    first: SourceConfig, mine: DataFrame, second: SourceConfig, other: DataFrame
) -> None:
    here, there = (
        {name.lower(): kind for name, kind in frame.dtypes if name != MALFORMED}
        for frame in (mine, other)
    )
    both = f"{first.path} and {second.path} have different columns"
    if here.keys() != there.keys():
        only = sorted(here.keys() ^ there.keys())
        raise ConfigError(
            f"{both}: {listed(only)} {'is' if len(only) == 1 else 'are'} only in one of them\n\n"
            "Inputs of the same name must have the same columns."
        )
    for name, kind in here.items():
        kinds = {kind, there[name]}
        if len(kinds) > 1 and not kinds <= set(_NUMBERS):
            raise ConfigError(
                f"{both}: {name} is {kind.upper()} in the first and {there[name].upper()} in the "
                'second\n\nGive the type: --schema "ts TIMESTAMP, .."'
            )
