"""The work of ``tidegate replay``: reads records, runs their rows again, writes corrections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tidegate.api.replay import REPLAYED, replay
from tidegate.cli.pipeline import open_query
from tidegate.connectors.needed import needed_packages
from tidegate.connectors.records import Records, format_of_folder, read_records
from tidegate.environment import with_values
from tidegate.errors import ConfigError
from tidegate.names import listed
from tidegate.plan.columns import HIDDEN
from tidegate.plan.pipeline import SinkConfig
from tidegate.spark.files import write_folder
from tidegate.spark.folders import open_folder
from tidegate.spark.observe import observed
from tidegate.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.api.query import Query
    from tidegate.plan.pipeline import PipelineConfig, TransformConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of ``replay``; paths are relative to the working directory.

    ``records`` is the name of a side sink of the pipeline, or a folder.
    """

    records: str
    into: str
    kinds: tuple[str, ...]
    form: str
    any_plan: bool
    keep_repeats: bool


def run_replay(config: PipelineConfig, transform: TransformConfig, asked: Asked) -> Iterator[str]:
    """Write the corrections, and yield what was done, line by line.

    Raises:
        TidegateError: the records cannot be run again, or the folder is not new.
    """
    spark = local_session(options=config.spark_options, formats=needed_packages(config))
    if open_folder(spark, asked.into).names():
        raise ConfigError(
            f"{asked.into} is not empty\n\nName a new folder: corrections are written once, and "
            "those of two replays would be added up."
        )
    query = open_query(spark, config, transform)
    records = _records(spark, config, asked, query)
    found = replay(query, records.frame, kinds=asked.kinds or REPLAYED, any_plan=asked.any_plan)
    watched, numbers = observed(found.corrections, {"rows": "count(1)"})
    write_folder(watched, asked.into, format=asked.form, options=_options(asked.form))
    for kind, rows in found.rows.items():
        yield f"{kind}: {rows:,} rows run again"
    yield f"{numbers()['rows']:,} corrections in {asked.into}"
    failed = {
        row["reason"]: row["count"] for row in found.errors.groupBy("reason").count().collect()
    }
    if failed:
        yield f"failed again: {_counted(failed)}"
    if records.repeats:
        yield f"left out as repeats: {records.repeats:,} records (--keep-repeats runs them)"
    if found.skipped:
        yield f"cannot be run again: {_counted(found.skipped)}"


def _records(spark: SparkSession, config: PipelineConfig, asked: Asked, query: Query) -> Records:
    """Return the records, with the original rows as the stream has them."""
    stream = query.given.frames()[query.physical.prepare.source.name]
    original = StructType([field for field in stream.schema if field.name not in HIDDEN])
    return read_records(
        spark, _sink(spark, config, asked.records), original, keep_repeats=asked.keep_repeats
    )


def _sink(spark: SparkSession, config: PipelineConfig, records: str) -> SinkConfig:
    """The side sink of the pipeline that has a name, or one for a folder."""
    sink = config.sinks.get(records)
    if sink is None:
        form = format_of_folder(spark, records)
        return SinkConfig(name=records, format=form, path=records)
    if sink.transform is not None:
        sides = [name for name, each in config.sinks.items() if each.transform is None]
        raise ConfigError(
            f"sinks.{records} takes results, not rows that could not be used\n\n"
            + (f"Side sinks are {listed(sides)}." if sides else "The pipeline has no side sink.")
        )
    return replace(sink, options=with_values(sink.options))


def _options(form: str) -> Mapping[str, str]:
    exact = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"
    return {"timestampFormat": exact} if form == "json" else {}


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
