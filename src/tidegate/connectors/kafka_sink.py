"""Kafka as a sink: a record for each result, marked so that a consumer can drop repeats.

    key      the group keys as JSON, or a chosen expression over the columns of the result
    value    the columns of the result as JSON, all of them, times with their microseconds
    headers  ``window_id``, the id of the result's window, and ``emit_epoch``

A topic cannot take records back, so after a crash the records of an epoch are sent again (at least
once): with the same key, value, window_id and emit_epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.connectors.protocol import persisted
from tidegate.errors import ConfigError
from tidegate.names import in_backticks
from tidegate.plan.columns import RECORD_KEYS, RESULT_ID, RESULT_KEYS
from tidegate.spark.failures import reason_of
from tidegate.spark.jars import check_package
from tidegate.spark.statements import ROW_NUMBER, by_reference, empty_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.connectors.protocol import Start
    from tidegate.plan.pipeline import SinkConfig

SERVERS, TOPIC = "kafka.bootstrap.servers", "topic"

# The column with the keys of a record of side output.
_GROUP_KEY = "group_key"

# What a result has beside its own columns.
_BESIDE = (RESULT_ID, RESULT_KEYS, RECORD_KEYS)

# Spark leaves out what is NULL, and cuts times to milliseconds.
_JSON = (
    "map('ignoreNullFields', 'false', "
    "'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss[.SSSSSS]XXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss[.SSSSSS]')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSink:
    """Sends each result to a topic: key, JSON value, headers ``window_id`` and ``emit_epoch``.

    Args:
        topic: the topic; it must exist, unless the broker creates topics by itself.
        options: options of Spark's Kafka writer; ``kafka.bootstrap.servers`` is required.
        key: a Spark SQL expression over the columns of the result, e.g. ``user``; without it the
            key is the group keys as JSON, or there is none. If it fails, so does the result.

    Raises:
        ConfigError: an argument is missing or of the wrong type.
    """

    needs_identity: ClassVar = True
    reads_once: ClassVar = True

    topic: str
    options: Mapping[str, str] = field(repr=False)
    key: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("topic", self.topic), ("key", self.key)):
            if not isinstance(value, str) and (name == "topic" or value is not None):
                raise ConfigError(f"KafkaSink: {name} is {value!r:.80}, it must be text\n\n{_MEND}")
        if not isinstance(self.options, Mapping):
            raise ConfigError(
                f"KafkaSink: options is {self.options!r:.80}, it must be a dict\n\n{_MEND}"
            )
        if SERVERS not in {name.lower() for name in self.options}:
            raise ConfigError(f"KafkaSink: options has no {SERVERS}\n\n{_MEND}")

    @property
    def record_key(self) -> str | None:
        """See ``Sink``."""
        return self.key

    def check_start(self, start: Start) -> None:
        """Refuse a session without Kafka, and a key that is no expression over the results.

        Raises:
            ConfigError: the session lacks the package, or Spark refuses the key.
        """
        from pyspark.errors import PySparkException

        check_package(start.spark, "kafka", f"topic {self.topic}")
        if self.key is None or start.results is None:
            return
        columns = start.results().columns
        try:
            empty_frame(start.spark, columns).selectExpr(f"CAST(({self.key}) AS STRING)")
        except PySparkException as error:
            raise ConfigError(
                f'key = "{self.key}": {reason_of(error)}\n\nThe key is an expression over the '
                f"columns of the result: {', '.join(columns.names)}."
            ) from None

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Send the rows of an epoch."""
        # Spark's writer does not say how many rows it has sent.
        with persisted(frame) as kept:
            records = kept.selectExpr(*self._record(kept.columns, epoch))
            records.write.format("kafka").options(**{**self.options, TOPIC: self.topic}).save()

    def _record(self, columns: list[str], epoch: int) -> list[str]:
        own = [in_backticks(name) for name in columns if name not in _BESIDE]
        headers = {"emit_epoch": by_reference(epoch, ROW_NUMBER)}
        if RESULT_ID in columns:
            headers = {"window_id": RESULT_ID, **headers}
        pairs = (
            f"named_struct('key', '{name}', 'value', CAST(CAST({value} AS STRING) AS BINARY))"
            for name, value in headers.items()
        )
        return [
            f"{self._key(columns)} AS key",
            f"to_json(struct({', '.join(own)}), {_JSON}) AS value",
            f"array({', '.join(pairs)}) AS headers",
        ]

    def _key(self, columns: list[str]) -> str:
        """The key of a record: the one that was asked for, else the group keys, if any."""
        is_result = RESULT_ID in columns
        if self.key is not None and is_result:
            return f"{RECORD_KEYS}.{in_backticks(self.key)}"
        keys = RESULT_KEYS if is_result else _GROUP_KEY
        return f"to_json({keys}, {_JSON})" if keys in columns else "CAST(NULL AS STRING)"


def make_kafka_sink(config: SinkConfig) -> KafkaSink:
    """Return the sink of a section of a pipeline file."""
    options: dict[str, Any] = dict(config.options)
    topic = next(name for name in options if name.lower() == TOPIC)
    return KafkaSink(topic=options.pop(topic), options=options, key=config.key)


_MEND = (
    'Give e.g. KafkaSink(topic="delays", options={"kafka.bootstrap.servers": "localhost:9092"}).'
)
