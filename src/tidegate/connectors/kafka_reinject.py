"""Reinjecting to Kafka: records of side output go back to their topic, as they were.

A record keeps its key, value, headers and partition, and gets one more header, by which the query
knows it when it comes again. Its timestamp is new: Spark's writer cannot set it. A batch that runs
again after a crash may send records a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from tidegate.connectors.kafka_columns import BESIDE, RECORD_VALUE
from tidegate.connectors.protocol import persisted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The header of a record that has gone back; its value is the epoch.
MARK = "tidegate_reinjected"

# Spark's column of each part of a record, and its name in a decoded record.
_DECODED = {own: name for name, own in BESIDE.items()} | {"value": RECORD_VALUE}
_PARTS = ("key", "value", "topic", "partition", "headers")


def record_parts(columns: Sequence[str]) -> dict[str, str] | None:
    """Return the columns of the parts of a record, None if not all of them are there."""
    for names in ({part: part for part in _PARTS}, {part: _DECODED[part] for part in _PARTS}):
        if set(names.values()) <= set(columns):
            return names
    return None


def is_reinjected(columns: Sequence[str]) -> str | None:
    """Return the condition under which a row has gone back before, None if it is no record."""
    parts = record_parts(columns)
    if parts is None:
        return None
    return f"coalesce(exists({parts['headers']}, h -> h.key = '{MARK}'), false)"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaReinjectSink:
    """Sends records back to the topic that they came from.

    Args:
        options: options of the reader of the stream, of which those of the client are used.
    """

    reads_once: ClassVar = True

    options: Mapping[str, str] = field(repr=False)

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Send the records of an epoch."""
        parts = record_parts(frame.columns)
        assert parts is not None, "checked at the start"
        mark = f"named_struct('key', '{MARK}', 'value', CAST('{epoch}' AS BINARY))"
        headers = f"concat(coalesce({parts['headers']}, array()), array({mark}))"
        columns = [f"{parts[part]} AS {part}" for part in _PARTS if part != "headers"]
        client = {name: text for name, text in self.options.items() if name.startswith("kafka.")}
        # Spark's writer does not say how many rows it has sent.
        with persisted(frame) as kept:
            records = kept.selectExpr(*columns, f"{headers} AS headers")
            records.write.format("kafka").options(**client).save()
