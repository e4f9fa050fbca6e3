"""What divides a stream into shards, each with a watermark of its own.

The setting ``shard`` is an expression over FROM. Where it is not set, a source of Kafka records has
a shard for each partition, whose records are in order; any other stream is one shard. If a stream
unites several, each of them has shards of its own.
"""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.names import quoted
from tidegate.plan.columns import SOURCE
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

    Raises:
        ConfigError: FROM hides from which of several united streams a row is.
    """
    if mode is TimeMode.PROCESSING:
        return None, Authority.DEFAULT
    shard, authority = _within_source(bound, settings)
    if not bound.source.united:
        return shard, authority
    name = bound.source.name
    if bound.statement.from_clause.has_queries:
        raise ConfigError(
            f"stream {name} unites several, and a WITH clause or a subquery hides which of them a "
            f"row is from\n\nName the stream itself: FROM {name}."
        )
    if shard is None:
        return SOURCE, Authority.METADATA
    return f"named_struct('source', {SOURCE}, 'shard', {shard})", authority


def _within_source(bound: BoundQuery, settings: Settings) -> tuple[str | None, Authority]:
    """Return what divides the rows of one source."""
    if settings.shard is not None:
        return shard_setting(settings), Authority.SETTING
    columns = bound.source.columns or ()
    partition = kafka_column(columns, "partition")
    if partition is not None and not bound.statement.from_clause.hides_sources:
        return quoted(partition.name), Authority.METADATA
    return None, Authority.DEFAULT


def shard_setting(settings: Settings) -> str | None:
    """Return the setting ``shard``, so that what follows does not become part of a comment."""
    if settings.shard is None:
        return None
    return settings.shard.strip() + ("\n" if "--" in settings.shard else "")


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
