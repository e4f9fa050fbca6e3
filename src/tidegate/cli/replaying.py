"""The work of ``tidegate replay``: reads records, runs their rows again, writes corrections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField, StructType

from tidegate.api.replay import REPLAYED, replay
from tidegate.cli.pipeline import open_query
from tidegate.errors import ConfigError
from tidegate.plan.columns import HIDDEN
from tidegate.spark.files import write_folder
from tidegate.spark.folders import open_folder
from tidegate.spark.observe import observed
from tidegate.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.api.query import Query
    from tidegate.plan.pipeline import PipelineConfig, TransformConfig

# Formats of records, by the ends of the names of their files.
_FORMATS = {".parquet": "parquet", ".json": "json", ".orc": "orc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of ``replay``; paths are relative to the working directory."""

    records: str
    into: str
    kinds: tuple[str, ...]
    form: str
    any_plan: bool


def run_replay(config: PipelineConfig, transform: TransformConfig, asked: Asked) -> Iterator[str]:
    """Write the corrections, and yield what was done, line by line.

    Raises:
        TidegateError: the records cannot be run again, or the folder is not new.
    """
    spark = local_session(options=config.spark_options)
    if open_folder(spark, asked.into).names():
        raise ConfigError(
            f"{asked.into} is not empty\n\nName a new folder: corrections are written once, and "
            "those of two replays would be added up."
        )
    query = open_query(spark, config, transform)
    records = _read(spark, asked.records, query)
    found = replay(query, records, kinds=asked.kinds or REPLAYED, any_plan=asked.any_plan)
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
    if found.skipped:
        yield f"cannot be run again: {_counted(found.skipped)}"


def _read(spark: SparkSession, path: str, query: Query) -> DataFrame:
    """Return the records of a folder, with the original rows as the stream has them."""
    text = StringType()
    window = StructType([StructField("start", text), StructField("end", text)])
    stream = query.given.frames()[query.physical.prepare.source.name]
    original = StructType([field for field in stream.schema if field.name not in HIDDEN])
    columns = {
        "kind": text,
        "reason": text,
        "window": window,
        "original_event": original,
        "plan_id": text,
    }
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    return spark.read.schema(schema).format(_format_of(spark, path)).load(path)


def _format_of(spark: SparkSession, path: str) -> str:
    folder = open_folder(spark, path)
    for below in ("", *(name for name in folder.names() if not name.startswith(("_", ".")))):
        for name in folder.names(below):
            for end, form in _FORMATS.items():
                if name.endswith(end) or f"{end}." in name:
                    return form
    raise ConfigError(
        f"{path}: there are no records\n\nName the folder of a side sink of format parquet, json "
        "or orc."
    )


def _options(form: str) -> Mapping[str, str]:
    exact = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"
    return {"timestampFormat": exact} if form == "json" else {}


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
