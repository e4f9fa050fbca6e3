"""What divides a stream into shards, each with a watermark of its own.

The setting ``shard`` is an expression over FROM. Where it is not set, a source of Kafka records has
a shard for each partition, whose records are in order; any other stream is one shard.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.names import quoted
from tidegate.plan.logical import Authority
from tidegate.plan.settings import Settings, TimeMode
from tidegate.plan.statement import BoundQuery, Column
from tidegate.plan.time_columns import find_column

_KAFKA_COLUMNS = {"topic", "partition", "offset", "timestamp"}


def resolve_shard(
    bound: BoundQuery, settings: Settings, mode: TimeMode
) -> tuple[str | None, Authority]:
    """Return the shard of a row as Spark SQL over FROM, None if the stream is one shard, and why.

    In processing time the clock is the watermark, so there are no shards.
    """
    if mode is TimeMode.PROCESSING:
        return None, Authority.DEFAULT
    if settings.shard is not None:
        # What follows must not become part of a comment.
        return settings.shard.strip() + ("\n" if "--" in settings.shard else ""), Authority.SETTING
    columns = bound.source.columns or ()
    if are_of_kafka(columns) and not bound.statement.from_clause.hides_sources:
        partition = find_column(columns, "partition")
        assert partition is not None, "it is one of Kafka's columns"
        return quoted(partition.name), Authority.METADATA
    return None, Authority.DEFAULT


def are_of_kafka(columns: Iterable[Column]) -> bool:
    """Whether columns are those that a Kafka source gives its records."""
    return {column.name.lower() for column in columns} >= _KAFKA_COLUMNS
