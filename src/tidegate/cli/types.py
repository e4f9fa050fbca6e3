"""``tidegate check --spark``: checks the types of statements with Spark's analyzer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.analysis.types import refusal
from tidegate.api.chain import ResultsOf
from tidegate.api.inputs import frame_of_ddl
from tidegate.api.query import Query, sql
from tidegate.cli.planning import Planned, at_source, in_file, plan_transform
from tidegate.config import explain_at
from tidegate.connectors.needed import needed_packages
from tidegate.connectors.nested import cannot_hold, nested_column
from tidegate.connectors.sources import read_stream, read_table
from tidegate.connectors.table import sink_kind
from tidegate.errors import ConfigError, TidegateError
from tidegate.names import in_backticks
from tidegate.plan.columns import MALFORMED
from tidegate.spark.session import local_session
from tidegate.spark.statements import empty_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.plan.pipeline import PipelineConfig
    from tidegate.plan.statement import Relation


def wrong_types(plans: Sequence[Planned], file: Path | None) -> Iterator[TidegateError]:
    """Yield the errors that Spark's analyzer finds in planned statements.

    Args:
        plans: the statements.
        file: the pipeline file or SQL file that they come from; None: the command line.

    Raises:
        click.UsageError: the columns of a stream or table are not known.
        ConfigError: Spark cannot be started, or a source without a schema cannot be read.
    """
    config = None
    if file is not None and file.suffix != ".sql":
        from tidegate.config import load_config

        config = load_config(file)
    spark = (
        local_session()
        if config is None
        else local_session(options=config.spark_options, formats=needed_packages(config))
    )
    for planned in plans:
        relations = planned.compiled.physical.prepare.relations
        frames = {each.name: _frame(spark, each, planned, config) for each in relations}
        found = refusal(planned.compiled, frames, spark)
        if found is not None:
            yield (
                found if config is None else in_file(found, config, config.transforms[planned.name])
            )
        elif config is not None:
            yield from _nested_results(spark, planned, config)


def _nested_results(
    spark: SparkSession, planned: Planned, config: PipelineConfig
) -> Iterator[TidegateError]:
    """Yield the errors of a transform's sinks that cannot hold a column of the results."""
    flat = [each for each in config.sinks_of(planned.name) if not sink_kind(each.format).nested]
    if not flat:
        return
    query = _query(spark, planned, config)
    columns = [(each.name, each.dataType.simpleString()) for each in query.schema]
    for sink in flat:
        column = nested_column(columns, sink_kind(sink.format))
        if column is not None:
            yield ConfigError(
                explain_at(config, ("sinks", sink.name, "format"), cannot_hold(sink.format, column))
            )


def _query(spark: SparkSession, planned: Planned, config: PipelineConfig) -> Query:
    """The query of a transform over frames without rows."""
    prepare = planned.compiled.physical.prepare
    transform = config.transforms[planned.name]
    stream = (
        _frame(spark, prepare.source, planned, config)
        if planned.reads is None
        else _query(spark, plan_transform(config, config.transforms[planned.reads]), config)
    )
    names = planned.compiled.statement.united or (prepare.source.name,)
    streams: dict[str, DataFrame | Query] = dict.fromkeys(names, stream)
    tables = {each.name: _frame(spark, each, planned, config) for each in prepare.tables}
    return sql(transform.sql, settings=transform.settings, streams=streams, tables=tables)


def _frame(
    spark: SparkSession, relation: Relation, planned: Planned, config: PipelineConfig | None
) -> DataFrame:
    """A frame with the columns of a stream or table; its rows are never read."""
    if relation.upstream is not None and config is not None:
        upstream = plan_transform(config, config.transforms[relation.upstream.name])
        return empty_frame(spark, ResultsOf(_query(spark, upstream, config)).schema)
    if relation.columns is not None:
        ddl = ", ".join(f"{in_backticks(each.name)} {each.type}" for each in relation.columns)
        if relation.malformed:
            ddl += f", {MALFORMED} STRING"
        return frame_of_ddl(spark, relation.name, ddl)
    if config is None:
        raise click.UsageError(
            f"--spark checks types, but the columns of {relation.name} are not known: "
            f'add --schema {relation.name}="ts TIMESTAMP, ..".'
        )
    name = relation.members[0] if relation.members else relation.name
    if name not in config.sources:
        name = config.transforms[planned.name].sources[0]
    source = config.sources[name]
    try:
        return read_stream(spark, source) if source.streaming else read_table(spark, source)
    except ConfigError as error:
        raise at_source(error, config, source) from None
