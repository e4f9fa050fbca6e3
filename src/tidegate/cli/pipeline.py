"""Runs a pipeline file: a streaming query for each transform, watched until all have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.api.chain import Attached
from tidegate.api.query import Query, sql
from tidegate.api.side_output import SideOutput
from tidegate.cli.beside import logging_to, serving_metrics, serving_monitor
from tidegate.cli.planning import at_source, in_file, plan_transform, readers_of
from tidegate.cli.progress import Progress
from tidegate.cli.readings import Checkpoints, Reading, Readings, readings_of
from tidegate.cli.restarts import Kept, watch
from tidegate.cli.runnable import unrunnable
from tidegate.cli.signals import Signals, StopRequested
from tidegate.config import check_places
from tidegate.connectors.needed import needed_packages
from tidegate.connectors.protocol import Sink
from tidegate.connectors.sinks import make_sink
from tidegate.connectors.sources import open_stream, read_table
from tidegate.connectors.transient import transient_cause
from tidegate.engine.stream import Run
from tidegate.environment import with_values
from tidegate.errors import ConfigError, TidegateError
from tidegate.metrics.report import BatchReport
from tidegate.names import listed
from tidegate.paths import local_path
from tidegate.plan.pipeline import PipelineConfig, SinkConfig, TransformConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.side_output import KINDS
from tidegate.spark.session import local_session, start_java
from tidegate.state.files import LocalFiles
from tidegate.state.hadoop_files import HadoopFiles
from tidegate.time import format_duration

_LOG = logging.getLogger("tidegate")


class Ending(Enum):
    """What happens to open windows when a run ends: keep them, emit state windows, or emit all."""

    KEEP = "keep"
    FLUSH = "flush"
    DRAIN = "drain"


def run_pipeline(
    config: PipelineConfig,
    progress: Progress,
    *,
    ending: Ending,
    once: bool = False,
) -> None:
    """Run every transform until all have ended or the process receives a stop signal.

    Raises:
        TidegateError: something is wrong with the pipeline, or one of its queries failed.
    """
    check_places(config)
    plans = [plan_transform(config, transform) for transform in config.transforms.values()]
    for planned in plans:
        refused = unrunnable(planned, config)
        if refused is not None:
            raise refused
    chains = Chains(config=config, readers=readers_of(plans), progress=progress)
    signals = Signals()
    with (
        logging_to(progress),
        signals.watched(),
        serving_metrics(config, list(config.transforms)),
        serving_monitor(config),
    ):
        try:
            with signals.starting_java():
                start_java(config.spark_options)
            with signals.starting_spark():
                spark = local_session(options=config.spark_options, formats=needed_packages(config))
        except (StopRequested, KeyboardInterrupt):  # Spark's own handler raises the latter
            _LOG.info("stopped before Spark was up")
            return
        queries: list[Kept] = []
        with _ends_all(queries):
            readings = readings_of(plans, config, _checkpoints(spark, config))
            _tell(readings)
            for reading in readings.queries:
                start = partial(chains.start, spark, reading, once=once)
                if not signals.asked.is_set():
                    queries.append(_kept(reading, start, config, chains.readers))
                    queries[-1].begin()
            watch(queries, signals.asked)
            if signals.asked.is_set():
                _LOG.info("stopping after the current batch; a second signal stops at once")
            for query in queries:
                query.stop(flush=ending is Ending.FLUSH, drain=ending is Ending.DRAIN)


def _checkpoints(spark: SparkSession, config: PipelineConfig) -> Checkpoints:
    """What tells how the transforms have begun."""
    folder = local_path(config.checkpoint)
    if folder is not None:
        return Checkpoints(lambda name: LocalFiles(str(folder / name)))
    root = config.checkpoint.rstrip("/")
    return Checkpoints(lambda name: HadoopFiles(spark, root if name == "." else f"{root}/{name}"))


def _tell(readings: Readings) -> None:
    for reading in readings.queries:
        if len(reading.names) > 1:
            _LOG.info("%s read their source together", listed(reading.names))
    for name, why in readings.alone.items():
        _LOG.info("%s reads its source alone: %s", name, why)


def _kept(
    reading: Reading,
    start: Callable[[Callable[[], None]], Run],
    config: PipelineConfig,
    readers: Mapping[str, Sequence[str]],
) -> Kept:
    """Return a query that is kept running."""

    def with_readers(name: str) -> list[str]:
        return [name, *(each for reader in readers.get(name, ()) for each in with_readers(reader))]

    of_query = [each for name in reading.names for each in with_readers(name)]
    others = tuple(name for name in of_query if name != reading.first)
    return Kept(name=reading.first, others=others, start=start, policy=config.restarts)


@contextmanager
def _ends_all(queries: list[Kept]) -> Iterator[None]:
    """If one query fails, stop the others, which keep their state, and raise the error."""
    try:
        yield
    except BaseException:
        for query in queries:
            with suppress(TidegateError):
                query.stop()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """Starts the transforms of a pipeline, each with those that read its results.

    Attributes:
        config: the pipeline file.
        readers: the transforms that read the results of a transform, by its name.
        progress: is told of each batch.
    """

    config: PipelineConfig
    readers: Mapping[str, Sequence[str]]
    progress: Progress

    def start(
        self, spark: SparkSession, reading: Reading, ran_batch: Callable[[], None], *, once: bool
    ) -> Run:
        """Start the transforms that read a source in one query.

        Args:
            spark: the session.
            reading: the query.
            ran_batch: called after each of its batches.
            once: process the available input, then end.

        Raises:
            TidegateError: what is wrong with one of them, or with one that reads its results.
        """
        transform = self.config.transforms[reading.first]
        query = open_query(spark, self.config, transform)
        downstream = self._attached(spark, reading.first, query)
        beside = self._beside(spark, reading, query)
        try:
            return query.start(
                **self._targets(transform, ran_batch),
                trigger=self.config.trigger,
                once=once,
                downstream=downstream,
                beside=beside,
                progress=f"{self.config.checkpoint}/{reading.progress}",
            )
        except TidegateError as error:
            wrong = getattr(error, "sql", transform.sql)
            chain = (each for each in self.config.transforms.values() if each.sql == wrong)
            found = in_file(error, self.config, next(chain, transform))
            found.transient = transient_cause(error)
            raise found from None

    def _attached(self, spark: SparkSession, name: str, query: Query) -> list[Attached]:
        """The transforms that read the results of a transform, and those that read theirs."""
        found = []
        for reader in self.readers.get(name, ()):
            transform = self.config.transforms[reader]
            below = open_query(spark, self.config, transform, results=query)
            downstream = self._attached(spark, reader, below)
            found.append(below.attach(**self._targets(transform), downstream=downstream))
        return found

    def _beside(self, spark: SparkSession, reading: Reading, query: Query) -> list[Attached]:
        """The other transforms of a query, and those that read their results."""
        found = []
        stream = query.given.streams[query.physical.prepare.source.name]
        for name in reading.names[1:]:
            transform = self.config.transforms[name]
            own = open_query(spark, self.config, transform, stream=stream)
            downstream = self._attached(spark, name, own)
            found.append(own.attach(**self._targets(transform), downstream=downstream))
        return found

    def _targets(
        self, transform: TransformConfig, ran_batch: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Where the rows of a transform go, as arguments of ``start`` and ``attach``."""

        def tell(report: BatchReport) -> None:
            ran_batch()
            self.progress.batch(transform.name, report)

        sinks = [_made(sink) for sink in self.config.sinks_of(transform.name)]
        return {
            "sink": sinks or None,
            "checkpoint": f"{self.config.checkpoint}/{transform.name}",
            **_side_output(self.config, transform),
            "name": transform.name,
            "on_batch": tell,
        }


def open_query(
    spark: SparkSession,
    config: PipelineConfig,
    transform: TransformConfig,
    *,
    results: Query | None = None,
    stream: Any = None,  # noqa: ANN401 - as ``Query.given`` has it
) -> Query:
    """Return the query of a transform over its inputs; nothing has started.

    Args:
        spark: the session.
        config: the pipeline file.
        transform: the transform.
        results: the query of the transform that it reads, if there is one already.
        stream: its source, if it has been opened already.

    Raises:
        TidegateError: what is wrong with it or with an input, with the place in the file.
    """
    used = plan_transform(config, transform).compiled.bound
    policy = transform.settings.error_policy
    streams: dict[str, DataFrame | dict[str, DataFrame] | Query] = {}
    if stream is not None:
        streams[used.source.name] = stream
    elif used.source.upstream is not None:
        upstream = config.transforms[used.source.upstream.name]
        query = open_query(spark, config, upstream) if results is None else results
        streams[used.source.name] = query
    else:
        for name in used.statement.united or (used.source.name,):
            parts = () if name in config.sources else transform.sources
            streams[name] = (
                {part: _open(spark, config, part, policy) for part in parts}
                if parts
                else _open(spark, config, name, policy)
            )
    tables = {table.name: _open(spark, config, table.name, policy) for table in used.tables}
    try:
        return sql(
            transform.sql,
            settings=transform.settings,
            streams=streams,
            tables=tables,
            origin=transform.origin,
        )
    except TidegateError as error:
        raise in_file(error, config, transform) from None


def _open(spark: SparkSession, config: PipelineConfig, name: str, policy: ErrorPolicy) -> DataFrame:
    source = config.sources[name]
    source = replace(source, options=with_values(source.options))
    try:
        if source.streaming:
            return open_stream(spark, source, policy)
        return read_table(spark, source)
    except ConfigError as error:
        raise at_source(error, config, source) from None


def _made(sink: SinkConfig) -> Sink:
    return make_sink(replace(sink, options=with_values(sink.options)))


def _side_output(config: PipelineConfig, transform: TransformConfig) -> dict[str, Any]:
    """The side output of a transform, by the arguments of ``Query.start``."""
    made = {name: _made(config.sinks[name]) for name in transform.side_output.sinks}
    found = {}
    for kind in KINDS:
        route = transform.side_output.route(kind.name)
        if not route.by_default:
            found[kind.argument] = SideOutput(
                made.get(route.sink, route.sink),
                include_original=route.include_original,
                rate_limit=route.rate_limit,
                timeout=format_duration(route.timeout_us),
                reinject_to=route.reinject_to,
                allow_reinject=route.allow_reinject,
            )
    return found
