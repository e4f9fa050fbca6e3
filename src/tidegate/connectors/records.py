"""Records of side output, read back from where a sink has put them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.connectors.kafka_failures import kafka_failure
from tidegate.connectors.kafka_sink import TOPIC
from tidegate.connectors.table import RECORDS
from tidegate.errors import ConfigError
from tidegate.names import listed
from tidegate.spark.failures import is_of_spark, reason_of, text_of
from tidegate.spark.folders import open_folder
from tidegate.spark.jars import check_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.plan.pipeline import SinkConfig

# Formats of folders, by the ends of the names of what is in them.
_FORMATS = {"_delta_log": "delta", ".parquet": "parquet", ".json": "json", ".orc": "orc"}

# As the Kafka sink writes times.
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of side output.

    Attributes:
        frame: kind, reason, window, original_event, plan_id.
        repeats: how many records of a topic are left out because they repeat another one.
    """

    frame: DataFrame
    repeats: int = 0


def read_records(
    spark: SparkSession, sink: SinkConfig, original: StructType, *, keep_repeats: bool = False
) -> Records:
    """Return what a sink of side output has.

    Args:
        spark: the session.
        sink: the sink.
        original: the columns of the original rows.
        keep_repeats: keep records that repeat another one, see ``read_topic``.

    Raises:
        ConfigError: the format cannot be read back, or the place cannot be read.
    """
    build = RECORDS.get(sink.format)
    if build is None:
        raise ConfigError(
            f"sinks.{sink.name}: records in format {sink.format} cannot be read back\n\nThey can "
            f"be from {listed(RECORDS)}. In Python, query.replay(..) takes any DataFrame of them."
        )
    check_package(spark, sink.format, f"sinks.{sink.name}")
    if sink.path is not None and not open_folder(spark, sink.path).names():
        raise ConfigError(
            f"{sink.path}: there are no records\n\nThe sink makes the folder with the first one."
        )
    module, name = build.split(":")
    read = cast("Callable[..., Records]", getattr(import_module(module), name))
    return read(spark, sink, _schema(original), keep_repeats=keep_repeats)


def format_of_folder(spark: SparkSession, path: str) -> str:
    """Return the format of the records in a folder.

    Raises:
        ConfigError: there are none.
    """
    folder = open_folder(spark, path)
    for below in ("", *(name for name in folder.names() if not name.startswith(("_", ".")))):
        for name in folder.names(below):
            for end, form in _FORMATS.items():
                if name.endswith(end) or f"{end}." in name:
                    return form
    raise ConfigError(
        f"{path}: there are no records\n\nName a side sink of the pipeline, or the folder of one "
        "in format parquet, json, orc or delta."
    )


def read_files(
    spark: SparkSession, sink: SinkConfig, schema: StructType, *, keep_repeats: bool
) -> Records:
    """Return the records in the files of a folder; a replayed batch has replaced its own."""
    del keep_repeats
    return Records(frame=spark.read.schema(schema).format(sink.format).load(sink.path))


def read_delta(
    spark: SparkSession, sink: SinkConfig, schema: StructType, *, keep_repeats: bool
) -> Records:
    """Return the records in a Delta table, which has them in their own types."""
    del keep_repeats
    rows = spark.read.format("delta").load(sink.path)
    return Records(frame=rows.select(*(name for name in schema.names if name in rows.columns)))


def read_topic(
    spark: SparkSession, sink: SinkConfig, schema: StructType, *, keep_repeats: bool
) -> Records:
    """Return the records that a topic has now.

    After a crash the records of an epoch are sent again. A record tells the clock of its batch, so
    one that is equal to another and of the same epoch is a repeat, or its row is equal to another
    one of the same batch.
    """
    options = {n: v for n, v in sink.options.items() if n.lower() != TOPIC}
    topic = next(v for n, v in sink.options.items() if n.lower() == TOPIC)
    reader = spark.read.format("kafka").options(**options)
    wanted = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    sent = reader.options(**wanted).load()
    epoch = "filter(headers, h -> h.key = 'emit_epoch')[0].value"
    try:
        # Read once: the topic may grow.
        records = sent.selectExpr("value", f"{epoch} AS epoch").persist()
        repeats = 0 if keep_repeats else records.count() - records.distinct().count()
    except Exception as error:
        if not is_of_spark(error):
            raise
        what, mend = kafka_failure(text_of(error)) or (
            f"topic {topic} cannot be read: {reason_of(error)}",
            "Create the topic, or correct the name and the options of the sink.",
        )
        raise ConfigError(f"sinks.{sink.name}: {what}\n\n{mend}") from error
    kept = records if keep_repeats else records.distinct()
    value = functions.col("value").cast("string")
    parsed = kept.select(functions.from_json(value, schema, _TIMES).alias("record"))
    return Records(
        frame=parsed.where("record.kind IS NOT NULL").select("record.*"), repeats=repeats
    )


def _schema(original: StructType) -> StructType:
    text = StringType()
    window = StructType([StructField("start", text), StructField("end", text)])
    columns = {
        "kind": text,
        "reason": text,
        "window": window,
        "original_event": original,
        "plan_id": text,
    }
    return StructType([StructField(name, kind) for name, kind in columns.items()])
