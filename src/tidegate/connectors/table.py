"""The sources and sinks that a pipeline file may name: two literal tables.

Configuration, the command line and the docs read them. Builders are named by text and imported when
a pipeline starts, so this module needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.plan.settings import ErrorPolicy

if TYPE_CHECKING:
    from tidegate.plan.pipeline import SourceConfig

from tidegate.connectors.kafka_columns import kafka_columns
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.statement import Column


class Guarantee(Enum):
    """What a sink guarantees when a batch is replayed after a crash."""

    EXACTLY_ONCE = "exactly once (a replay replaces the epoch)"
    IDEMPOTENT = "idempotent by key"
    AT_LEAST_ONCE = "at least once"


class Replay(Enum):
    """What a source delivers when a batch is replayed after a crash."""

    SAME_ROWS = "the same rows"
    NOTHING = "nothing: rows of the batch are lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkKind:
    """The keys that ``[sinks.NAME]`` takes for a format, and what the sink can do.

    Attributes:
        build: ``module:function``; the function makes the sink from a ``SinkConfig``.
        has_path: whether ``path`` is required; otherwise it is refused.
        options: the options that it takes; None: those of Spark's writer for the format.
        nested: whether columns may be structs, as side output needs.
        jar: the package that Spark needs for it, ``group:artifact``.
        keys: its own keys of the section, which other formats refuse.
        needs: the options that must be given; of several in one entry, one.
    """

    build: str
    guarantee: Guarantee
    has_path: bool = True
    options: tuple[str, ...] | None = None
    nested: bool = True
    jar: str | None = None
    keys: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()

    @property
    def replaces_results(self) -> bool:
        """Whether a result replaces an earlier one of its window and keys, as EMIT EARLY needs."""
        return self.guarantee is Guarantee.IDEMPOTENT


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """The keys that ``[sources.NAME]`` takes for a format, and what the source can do.

    Attributes:
        build: ``module:function``; the function makes the stream from a session, a
            ``SourceConfig`` and an ``ErrorPolicy``.
        has_path: whether ``path`` is required.
        infers: whether columns are inferred from the files when there is no ``schema``.
        text: whether files are text, so that a value may not fit its column's type.
        jar: the package that Spark needs for it, ``group:artifact``.
        keys: its own keys of the section, which other formats refuse.
        needs: the options that must be given; of several in one entry, one.
        columns: returns the columns of a source without Spark; None: those of its ``schema``.
    """

    build: str = "tidegate.connectors.sources:read_stream"
    replay: Replay = Replay.SAME_ROWS
    has_path: bool = False
    infers: bool = False
    text: bool = False
    jar: str | None = None
    keys: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    columns: Callable[[SourceConfig], tuple[Column, ...] | None] | None = None


_KAFKA_JAR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_FILES = "tidegate.connectors.files:make_file_sink"

SINKS = {
    "parquet": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE),
    "json": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE),
    "csv": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE, nested=False),
    "orc": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE),
    "console": SinkKind(
        build="tidegate.connectors.console:make_console_sink",
        guarantee=Guarantee.AT_LEAST_ONCE,
        has_path=False,
        options=("rows",),
    ),
    "kafka": SinkKind(
        build="tidegate.connectors.kafka_sink:make_kafka_sink",
        guarantee=Guarantee.AT_LEAST_ONCE,
        has_path=False,
        jar=_KAFKA_JAR,
        keys=("key",),
        needs=(("kafka.bootstrap.servers",), ("topic",)),
    ),
}

# Other formats are left to Spark, because a package may add them.
SOURCES = {
    "csv": SourceKind(has_path=True, infers=True, text=True),
    "json": SourceKind(has_path=True, infers=True, text=True),
    "parquet": SourceKind(has_path=True, infers=True),
    "orc": SourceKind(has_path=True, infers=True),
    "text": SourceKind(has_path=True),
    "kafka": SourceKind(
        build="tidegate.connectors.kafka:read_kafka",
        jar=_KAFKA_JAR,
        keys=("value", "avro_schema", "max_offsets_per_trigger"),
        needs=(
            ("kafka.bootstrap.servers",),
            ("subscribe", "subscribePattern", "assign"),
        ),
        columns=kafka_columns,
    ),
    "delta": SourceKind(jar="io.delta:delta-spark_2.13"),
    "iceberg": SourceKind(jar="org.apache.iceberg:iceberg-spark-runtime"),
    "rate": SourceKind(),
    "socket": SourceKind(replay=Replay.NOTHING),
}


def tells_malformed(source: SourceConfig, policy: ErrorPolicy) -> bool:
    """Return whether a malformed record of a stream becomes an error row.

    It does not if the user sets Spark's own options for such records.
    """
    own = {name.lower() for name in source.options} & {"mode", "columnnameofcorruptrecord"}
    kind = SOURCES.get(source.format)
    is_text = kind is not None and kind.text
    return is_text and policy is ErrorPolicy.SIDE_OUTPUT and not own
