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
from tidegate.spark.packages import PACKAGES

if TYPE_CHECKING:
    from tidegate.plan.pipeline import SourceConfig

from tidegate.connectors.kafka_columns import kafka_columns
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.statement import Column


class Guarantee(Enum):
    """What a sink guarantees when a batch is replayed after a crash."""

    EXACTLY_ONCE = "exactly once (a replay replaces the epoch)"
    ONCE_BY_TRANSACTION = "exactly once (a replayed epoch is left out)"
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
        has_path: whether ``path`` is required; otherwise it is refused. None: it may be given.
        options: the options that it takes; None: those of Spark's writer for the format.
        nested: whether columns may be structs, as side output needs.
        arrays: whether columns may be arrays of values that are not nested.
        jar: the package that Spark needs for it, ``group:artifact:version``.
        keys: its own keys of the section, which other formats refuse.
        needs: the options that must be given; of several in one entry, one.
    """

    build: str
    guarantee: Guarantee
    has_path: bool | None = True
    options: tuple[str, ...] | None = None
    nested: bool = True
    arrays: bool = True
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
        takes_back: whether rows of side output can go back to it.
        columnar: whether it is read by columns, so quickly that keeping its rows for a second
            transform costs more than reading them again.
        jar: the package that Spark needs for it, ``group:artifact:version``.
        keys: its own keys of the section, which other formats refuse.
        needs: the options that must be given; of several in one entry, one.
        columns: returns the columns of a source without Spark; None: those of its ``schema``.
    """

    build: str = "tidegate.connectors.sources:read_stream"
    replay: Replay = Replay.SAME_ROWS
    has_path: bool = False
    infers: bool = False
    text: bool = False
    takes_back: bool = False
    columnar: bool = False
    jar: str | None = None
    keys: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    columns: Callable[[SourceConfig], tuple[Column, ...] | None] | None = None


_KAFKA_JAR = PACKAGES["kafka"].name
_FILES = "tidegate.connectors.files:make_file_sink"

SINKS = {
    "parquet": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE),
    "json": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE),
    "csv": SinkKind(build=_FILES, guarantee=Guarantee.EXACTLY_ONCE, nested=False, arrays=False),
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
    "delta": SinkKind(
        build="tidegate.connectors.delta:make_delta_sink",
        guarantee=Guarantee.ONCE_BY_TRANSACTION,
        jar=PACKAGES["delta"].name,
    ),
    "jdbc": SinkKind(
        build="tidegate.connectors.jdbc:make_jdbc_sink",
        guarantee=Guarantee.IDEMPOTENT,
        has_path=False,
        nested=False,
        jar=PACKAGES["postgresql"].name,
        needs=(("url",), ("dbtable",)),
    ),
}

# Any other format is left to Spark, because a package may add it.
OTHER_SINK = SinkKind(
    build="tidegate.connectors.formats:make_format_sink",
    guarantee=Guarantee.AT_LEAST_ONCE,
    has_path=None,
)

# The formats of sinks from which records of side output can be read back to be run again, with the
# function that reads them.
RECORDS = {
    "parquet": "tidegate.connectors.records:read_files",
    "json": "tidegate.connectors.records:read_files",
    "orc": "tidegate.connectors.records:read_files",
    "delta": "tidegate.connectors.records:read_delta",
    "kafka": "tidegate.connectors.records:read_topic",
}

# Formats that sources and tables, and those that sinks do not take, and why.
_ICEBERG = {"iceberg": "no release of Iceberg runs on Spark 4.2 (1.12.0 is the newest one tried)"}
REFUSED_SOURCES = _ICEBERG
REFUSED_SINKS = _ICEBERG | {"rate": "Spark only reads it", "socket": "Spark only reads it"}


def sink_kind(format: str) -> SinkKind:
    """Return the row of ``SINKS`` for a format, ``OTHER_SINK`` if there is none."""
    return SINKS.get(format, OTHER_SINK)


SOURCES = {
    "csv": SourceKind(has_path=True, infers=True, text=True, takes_back=True),
    "json": SourceKind(has_path=True, infers=True, text=True, takes_back=True),
    "parquet": SourceKind(has_path=True, infers=True, takes_back=True, columnar=True),
    "orc": SourceKind(has_path=True, infers=True, takes_back=True, columnar=True),
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
        takes_back=True,
    ),
    "avro": SourceKind(has_path=True, jar=PACKAGES["avro"].name),
    "delta": SourceKind(has_path=True, columnar=True, jar=PACKAGES["delta"].name),
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
