"""Checks of a planned statement against the sinks of its results, without Spark."""

from __future__ import annotations

from tidegate.compile import Compiled
from tidegate.connectors.nested import cannot_hold, nested_column
from tidegate.connectors.table import sink_kind
from tidegate.errors import ConfigError, QueryError
from tidegate.plan.pipeline import PipelineConfig, SinkConfig, TransformConfig
from tidegate.planner.guards import result_types


def check_results(compiled: Compiled, config: PipelineConfig, transform: TransformConfig) -> None:
    """Refuse results that a sink of theirs cannot hold, and a record's key that is none.

    Only types that are known without Spark count; the start checks all.

    Raises:
        ConfigError: a sink is wrong for them; the message has the place in the pipeline file.
    """
    types = result_types(compiled.physical)
    columns = [(name, type_) for name, type_ in types.items() if type_ is not None]
    for sink in config.sinks_of(transform.name):
        nested = nested_column(columns, sink_kind(sink.format))
        if nested is not None:
            raise _error(config, sink, "format", cannot_hold(sink.format, nested))
        if sink.key is None or compiled.bound.star:
            continue
        try:
            compiled.with_record_keys([sink.key])
        except QueryError as error:
            message = f'key = "{sink.key}": {error.what}\n\n{error.mend}'
            raise _error(config, sink, "key", message) from None


def _error(config: PipelineConfig, sink: SinkConfig, key: str, message: str) -> ConfigError:
    from tidegate.config import explain_at

    return ConfigError(explain_at(config, ("sinks", sink.name, key), message))
