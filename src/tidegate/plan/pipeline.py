"""A pipeline file as data: sources, tables, transforms and sinks, by name.

``config`` makes these from TOML; ``connectors`` and the command line read them. Paths are absolute
or have a scheme; durations for Spark stay text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tidegate.plan.settings import Settings
from tidegate.plan.side_output import METRICS_ONLY, REINJECT, Route, route_of
from tidegate.plan.statement import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """A stream or, without ``streaming``, a static table, in any format that Spark reads.

    ``relation`` has the columns of ``schema`` (DDL); without a schema only Spark knows them.
    ``value`` and ``avro_schema`` say how the values of a Kafka source are decoded;
    ``keeps_records`` whether it has all parts of a record as columns, so that a record can go back.
    ``label`` names the source in messages, ``option_form`` shows how to set one of its options.
    """

    name: str
    format: str
    relation: Relation
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_files_per_trigger: int | None = None
    max_offsets_per_trigger: int | None = None
    value: str | None = None
    avro_schema: str | None = None
    keeps_records: bool = False
    label: str | None = None
    option_form: str = 'options.{name} = "{value}"'

    @property
    def streaming(self) -> bool:
        return self.relation.streaming

    @property
    def place(self) -> str:
        """The name of the source in messages."""
        return self.label or f"{'sources' if self.streaming else 'tables'}.{self.name}"

    def advise(self, name: str, value: str) -> str:
        """Return how to set an option, for messages."""
        return self.option_form.format(name=name, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutputConfig:
    """Where each kind of side output goes."""

    routes: tuple[Route, ...] = ()

    def route(self, kind: str) -> Route:
        """Return where a kind goes."""
        return route_of(self.routes, kind)

    def sink_of(self, kind: str) -> str:
        """Return the name of the sink of a kind, ``metrics_only`` or ``reinject``."""
        return self.route(kind).sink

    @property
    def sinks(self) -> tuple[str, ...]:
        """The names of the sinks in use, without duplicates."""
        names = dict.fromkeys(route.sink for route in self.routes)
        return tuple(name for name in names if name not in (METRICS_ONLY, REINJECT))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformConfig:
    """One statement and its settings.

    ``origin`` names the statement in messages. ``sql_offset`` is where the statement starts in the
    text of the pipeline file, None if it has a file of its own or is written with escapes.
    ``sources`` are those that are read as one stream, if there are several. ``reads_with`` is the
    transform in whose streaming query it runs, because both read the same source; ``reads_alone``
    is whether it has one of its own although others read the source too.
    """

    name: str
    sql: str
    origin: str
    sql_offset: int | None
    settings: Settings
    side_output: SideOutputConfig
    sources: tuple[str, ...] = ()
    reads_with: str | None = None
    reads_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig:
    """A sink for the results of ``transform``, or for side output if ``transform`` is None.

    ``key`` is the expression that gives the key of a Kafka record.
    """

    name: str
    format: str
    transform: str | None = None
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None


class LogFormat(StrEnum):
    """What a running pipeline prints: lines for people, or a JSON object in each line."""

    TEXT = "text"
    JSON = "json"


class Restart(StrEnum):
    """Which failures of a query make a running pipeline start it again."""

    NEVER = "never"
    # Those that may pass by themselves, see ``connectors/transient.py``.
    TRANSIENT = "transient"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a query that has failed is started again.

    ``attempts`` are the most restarts in a row. The first comes after ``delay_us``, and each
    further one after twice the time, at most ``max_delay_us``.
    """

    restart: Restart = Restart.TRANSIENT
    attempts: int = 5
    delay_us: int = 1_000_000
    max_delay_us: int = 60_000_000

    def delay_before(self, attempt: int) -> float:
        """Return the seconds to wait before a restart; the first is attempt 1."""
        # 2**60 times the shortest delay is longer than any longest one.
        doubled: int = self.delay_us << min(attempt - 1, 60)
        return min(doubled, max(self.delay_us, self.max_delay_us)) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """A whole pipeline file; ``text`` is the file itself, for messages."""

    file: Path
    text: str
    name: str
    checkpoint: str
    trigger: str | None
    spark_options: Mapping[str, str]
    sources: Mapping[str, SourceConfig]
    transforms: Mapping[str, TransformConfig]
    sinks: Mapping[str, SinkConfig]
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    monitor_port: int | None = None
    monitor_host: str = "127.0.0.1"
    log: LogFormat = LogFormat.TEXT
    restarts: RestartPolicy = RestartPolicy()

    def sinks_of(self, transform: str) -> tuple[SinkConfig, ...]:
        """The sinks that take a transform's results, in the order of the file."""
        return tuple(sink for sink in self.sinks.values() if sink.transform == transform)
