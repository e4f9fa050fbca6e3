"""The keys of a pipeline file and their values: one pydantic model for each section.

The text under a key is its description; messages end with it when the value is missing or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PositiveInt,
    WithJsonSchema,
    create_model,
)

from tidegate.connectors.kafka_columns import VALUES
from tidegate.plan.pipeline import LogFormat, Restart, RestartPolicy
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import DEFAULTS, ErrorPolicy, Lateness, OnIdle, RowPath, TimeMode
from tidegate.plan.side_output import KINDS, METRICS_ONLY, Route, SideOutputKind
from tidegate.plan.time_columns import EVENT_TIME_UNITS
from tidegate.time import parse_duration

RESTARTS = RestartPolicy()


def _duration(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError("a duration is text with a unit, one of us ms s m h d")
    return parse_duration(value) if isinstance(value, str) else value


def _positive_duration(value: object) -> object:
    if _duration(value) == 0:
        raise ValueError("it must be greater than 0")
    return _duration(value)


def _duration_text(value: object) -> object:
    _duration(value)
    return value


def _schema(value: object) -> object:
    if isinstance(value, str):
        parse_schema(value)
    return value


def _not_empty(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("it is empty")
    return value


def _option(value: object) -> object:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return value


@dataclass(frozen=True, slots=True)
class _Words:
    """Checks that a text is one of some words."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> object:
        if isinstance(value, str) and value not in self.words:
            raise ValueError(f"it must be one of {', '.join(self.words)}")
        return value


class _OneOf(BeforeValidator):
    """``_Words``, which the JSON schema of the file lists."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> Any:  # noqa: ANN401 - of pydantic
        assert isinstance(self.func, _Words), "made by _one_of"
        return handler(schema) | {"enum": list(self.func.words)}


def _one_of(*words: str) -> BeforeValidator:
    return _OneOf(_Words(words))


# What editors check: the values before the validators convert them.
_DURATION_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^\s*\d+\s*(us|ms|s|m|h|d)\s*$"})
_OPTION_SCHEMA = WithJsonSchema({"type": ["string", "number", "boolean"]})
_TEXT_SCHEMA = WithJsonSchema({"type": "string", "minLength": 1})

Duration = Annotated[int, BeforeValidator(_duration), _DURATION_SCHEMA]
PositiveDuration = Annotated[int, BeforeValidator(_positive_duration), _DURATION_SCHEMA]
DurationText = Annotated[str, BeforeValidator(_duration_text), _DURATION_SCHEMA]
SchemaText = Annotated[str, BeforeValidator(_schema)]
Text = Annotated[str, BeforeValidator(_not_empty), _TEXT_SCHEMA]
Options = dict[str, Annotated[str, BeforeValidator(_option), _OPTION_SCHEMA]]


class Section(BaseModel):
    """A table of the file: unknown keys are wrong, and so are values of another type."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )


class SettingsSection(Section):
    """The settings of a transform; durations become microseconds."""

    time: TimeMode | None = Field(None, strict=False)
    """time is "event" or "processing"; "event" is the default."""
    event_time_field: str | None = None
    """event_time_field is the column that holds the time of a row, e.g. "ts"."""
    event_time_unit: Annotated[str, _one_of(*EVENT_TIME_UNITS)] | None = None
    """event_time_unit is the unit of a numeric event time: "s", "ms", "us" or "ns"."""
    event_time_metadata: Annotated[str, _one_of("file")] | None = None
    """event_time_metadata = "file" takes the modification time of a row's file."""
    null_event_time: Annotated[str, _one_of("error", "fallback")] | None = None
    """null_event_time is "error" (the default: the row goes to the side output) or "fallback"
    (it takes the clock)."""
    max_future_skew: PositiveDuration = DEFAULTS.max_future_skew_us
    """max_future_skew is how far ahead of the clock a row may be, e.g. "24h" (the default)."""
    watermark_lag: Duration | None = None
    """watermark_lag is how far the watermark stays behind the greatest event time, e.g. "5m"."""
    allowed_lateness: Duration | None = None
    """allowed_lateness is how much longer a window stays open, e.g. "1m"."""
    lateness: Lateness = Field(DEFAULTS.lateness, strict=False)
    """lateness is "batch" (the default) or "record": a row is judged by the watermark before its
    batch, or by the one at its place in its shard."""
    shard: str | None = None
    """shard is an expression, e.g. "partition"; each of its values has its own watermark."""
    shard_expiry: PositiveDuration | None = None
    """shard_expiry is the silence after which a shard is forgotten, e.g. "7d"."""
    idle_timeout: PositiveDuration | None = None
    """idle_timeout is the silence after which a shard no longer holds the watermark, e.g. "30s"."""
    on_idle: OnIdle = Field(DEFAULTS.on_idle, strict=False)
    """on_idle is "hold" (the default) or "advance": what the watermark does when all shards are
    idle."""
    clock_interval: PositiveDuration = DEFAULTS.clock_interval_us
    """clock_interval is how often time passes when no rows come, e.g. "1s" (the default)."""
    max_groups: PositiveInt | None = None
    """max_groups is the maximum number of groups in a window; rows of other groups are evicted."""
    max_rows_per_group: PositiveInt | None = None
    """max_rows_per_group is the maximum number of rows kept for a group of a window; other rows
    are evicted."""
    error_policy: ErrorPolicy = Field(DEFAULTS.error_policy, strict=False)
    """error_policy is "side_output" (the default), "null" or "fail": what happens to a row whose
    expression fails."""
    dedup_key: str | None = None
    """dedup_key is an expression, e.g. "id"; a row whose value was seen before is a duplicate."""
    dedup_horizon: PositiveDuration | None = None
    """dedup_horizon is how long a value of dedup_key is remembered, e.g. "10m"."""
    streaming_aggregation: RowPath = Field(DEFAULTS.streaming_aggregation, strict=False)
    """streaming_aggregation is "auto" (the default) or "off": rows are kept whole."""
    monitor_samples: Annotated[int, Field(ge=0, le=100)] = DEFAULTS.monitor_samples
    """monitor_samples is how many rows of a step's output its manifest shows; 0: none."""


class SideOutputKindSection(Section):
    """What happens to rows of one kind of side output."""

    sink: str | None = None
    """sink is the name of a sink, "metrics_only" (the default: counted and dropped) or "reinject"
    (the rows go back to their input)."""
    include_original: bool = True
    """include_original = false leaves the original row out of the records."""
    rate_limit: PositiveInt | None = None
    """rate_limit is the maximum number of records a second of the clock; others are dropped and
    counted."""
    timeout: PositiveDuration = 30_000_000
    """timeout is how long a write may take in a batch, e.g. "30s" (the default); what is not
    written by then is dropped and counted."""

    reinject_to: str | None = None
    """reinject_to is the source to which rows go back, with sink = "reinject"."""
    allow_reinject: bool = False
    """allow_reinject = true is needed to reinject late rows, which stay late unless the watermark
    allows them by then."""

    def route(self, kind: str) -> Route:
        """Return where a kind goes."""
        return Route(
            kind=kind,
            sink=METRICS_ONLY if self.sink is None else self.sink,
            by_default=self.sink is None,
            include_original=self.include_original,
            rate_limit=self.rate_limit,
            timeout_us=self.timeout,
            reinject_to=self.reinject_to,
            allow_reinject=self.allow_reinject,
        )


def _of_kind(kind: SideOutputKind) -> Any:  # noqa: ANN401 - what pydantic takes for a field
    text = f'{kind.name} is a table, e.g. {kind.name}.sink = "{kind.example}".'
    return SideOutputKindSection, Field(SideOutputKindSection(), description=text)


_KINDS: Any = create_model(
    "_KINDS", __base__=Section, **{kind.name: _of_kind(kind) for kind in KINDS}
)


class SideOutputSection(_KINDS):  # type: ignore[misc]  # its fields are the rows of KINDS
    """The kinds of side output."""

    def routes(self) -> tuple[Route, ...]:
        """Return where each kind goes."""
        sections = ((kind.name, getattr(self, kind.name)) for kind in KINDS)
        return tuple(section.route(name) for name, section in sections)

    def sinks(self) -> dict[str, str]:
        """Return the name of the sink of each kind, or ``metrics_only``."""
        return {route.kind: route.sink for route in self.routes()}


class TransformSection(SettingsSection):
    """A transform: a statement, its settings and its side output."""

    sql: str | None = None
    """sql is the statement; long ones go between triple quotes."""
    sql_file: Text | None = None
    """sql_file is the file with the statement, e.g. "delays.sql"."""
    sources: list[Text] | None = None
    """sources are sources of the same columns that are read as one stream, e.g. ["web", "app"]."""
    reads_with: Text | None = None
    """reads_with is another transform of the same source, which is then read once for both."""
    reads_alone: bool = False
    """reads_alone is true for a transform that reads its source in a query of its own."""
    side_output: SideOutputSection = SideOutputSection()
    """side_output is a table, e.g. late.sink = "late_rows"."""


class TableSection(Section):
    """A static table: what Spark's batch reader needs."""

    format: str
    """format is a format of Spark: csv, json, parquet, orc, text, delta, .."""
    path: Text | None = None
    """path is a file, a folder or a pattern, relative to the folder of this file."""
    ddl: SchemaText | None = Field(None, alias="schema")
    """schema is DDL, e.g. "ts TIMESTAMP, user STRING"."""
    options: Options = {}
    """options is a table of options of Spark's reader."""


class SourceSection(TableSection):
    """A stream."""

    max_files_per_trigger: PositiveInt | None = None
    """max_files_per_trigger is the maximum number of files in one micro-batch."""
    max_offsets_per_trigger: PositiveInt | None = None
    """max_offsets_per_trigger is the maximum number of records in one micro-batch."""
    value: Annotated[str, _one_of(*VALUES)] | None = None
    """value says how the values of records are decoded: "json" by schema, "avro" by avro_schema,
    or "bytes" (the default: not at all)."""
    avro_schema: Text | None = None
    """avro_schema is the schema of the values as JSON, or the file that contains it."""


class SinkSection(Section):
    """A sink: of a transform (``from``), or of side output."""

    transform: str | None = Field(None, alias="from")
    """from is the transform whose results the sink takes."""
    format: str
    """format is parquet, json, csv, orc, delta, jdbc, kafka, console, or another of Spark's."""
    path: Text | None = None
    """path is the folder of the results, relative to the folder of this file."""
    options: Options = {}
    """options is a table of options of the sink: of Spark's writer, or options.rows of console."""
    key: Text | None = None
    """key is an expression over the columns of the result: the key of a Kafka record."""


class PipelineSection(Section):
    """What holds for the whole pipeline."""

    name: str | None = None
    """name is the name of the pipeline in logs and metrics."""
    checkpoint: Text
    """checkpoint is the folder that keeps the state, e.g. checkpoint = "checkpoint"."""
    trigger: DurationText | None = None
    """trigger is the minimum time between two micro-batches, e.g. "1s"."""
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """metrics_port is the port on which metrics are served to Prometheus, e.g. 9464."""
    metrics_host: Text = "127.0.0.1"
    """metrics_host is the address to serve metrics on; "0.0.0.0" lets other machines read them."""
    monitor_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """monitor_port is the port on which the monitor's page is served, e.g. 9465."""
    monitor_host: Text = "127.0.0.1"
    """monitor_host is the address to serve it on; "0.0.0.0" lets other machines see it."""
    restart: Restart = Field(RESTARTS.restart, strict=False)
    """restart is "transient" (the default: a query is started again after a failure that may pass
    by itself, such as a server that is away) or "never"."""
    restart_attempts: PositiveInt = RESTARTS.attempts
    """restart_attempts is the maximum number of restarts in a row, e.g. 5 (the default)."""
    restart_delay: PositiveDuration = RESTARTS.delay_us
    """restart_delay is the time before the first restart, e.g. "1s" (the default); it doubles with
    each further one."""
    restart_max_delay: PositiveDuration = RESTARTS.max_delay_us
    """restart_max_delay is the maximum time before a restart, e.g. "1m" (the default)."""
    log: LogFormat = Field(LogFormat.TEXT, strict=False)
    """log is "text" (the default) or "json": what run prints, lines for people or JSON objects."""
    spark: dict[str, Any] = {}
    """spark is a table of options of Spark, e.g. master = "local[4]"."""


class PipelineFile(Section):
    """The whole file."""

    pipeline: PipelineSection
    """The section [pipeline] names the checkpoint, e.g. checkpoint = "checkpoint"."""
    sources: dict[str, SourceSection]
    """A pipeline needs at least one source: [sources.NAME] with a format."""
    tables: dict[str, TableSection] = {}
    """[tables.NAME] is a static table that statements may join."""
    transforms: dict[str, TransformSection]
    """A pipeline needs at least one transform: [transforms.NAME] with sql."""
    sinks: dict[str, SinkSection] = {}
    """[sinks.NAME] takes the results of a transform, or side output."""
