"""What divides a stream into shards, each with a watermark of its own.

The setting ``shard`` is an expression over FROM. Where it is not set, a source of Kafka records has
a shard for each partition, whose records are in order; any other stream is one shard.
"""

from __future__ import annotations

from tidegate.names import quoted
from tidegate.plan.logical import Authority
from tidegate.plan.settings import Settings, TimeMode
from tidegate.plan.statement import BoundQuery, Column
from tidegate.plan.time_columns import find_column

# The columns of a Kafka source; decoded, their names begin with ``kafka_``.
_KAFKA_COLUMNS = ("topic", "partition", "offset", "timestamp")
_PREFIXES = ("", "kafka_")


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
    partition = kafka_column(columns, "partition")
    if partition is not None and not bound.statement.from_clause.hides_sources:
        return quoted(partition.name), Authority.METADATA
    return None, Authority.DEFAULT


def kafka_column(columns: tuple[Column, ...], name: str) -> Column | None:
    """Return the column that a Kafka source gives its records, None if the source is another one.

    Args:
        columns: the columns of the source.
        name: what Spark calls it, e.g. ``partition``.
    """
    names = {column.name.lower() for column in columns}
    for prefix in _PREFIXES:
        if names.issuperset(prefix + each for each in _KAFKA_COLUMNS):
            return find_column(columns, prefix + name)
    return None
