"""Streaming window SQL for Apache Spark.

>>> import tidegate as tg
>>> query = tg.sql(
...     "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)",
...     clicks="ts TIMESTAMP, page STRING",
...     settings={"event_time_field": "ts"},
... )
>>> print(query.explain())  # doctest: +SKIP

Names are loaded when they are first used, so that ``check`` and ``explain`` start no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, ExecutionError, QueryError, StateError, TidegateError

if TYPE_CHECKING:
    from tidegate.api.query import Query, sql
    from tidegate.api.side_output import SideOutput
    from tidegate.connectors.callback import CallbackSink
    from tidegate.connectors.console import ConsoleSink
    from tidegate.connectors.delta import DeltaSink
    from tidegate.connectors.files import FileSink
    from tidegate.connectors.formats import FormatSink
    from tidegate.connectors.jdbc import JdbcSink
    from tidegate.connectors.kafka_sink import KafkaSink
    from tidegate.connectors.memory import MemorySink
    from tidegate.connectors.protocol import Sink
    from tidegate.engine.stream import Run
    from tidegate.metrics.report import BatchReport
    from tidegate.metrics.server import serve_metrics
    from tidegate.plan.aggregates.registry import register_accumulator
    from tidegate.spark.session import local_session

__version__ = "0.1.0"

__all__ = [
    "BatchReport",
    "CallbackSink",
    "ConfigError",
    "ConsoleSink",
    "DeltaSink",
    "ExecutionError",
    "FileSink",
    "FormatSink",
    "JdbcSink",
    "KafkaSink",
    "MemorySink",
    "Query",
    "QueryError",
    "Run",
    "SideOutput",
    "Sink",
    "StateError",
    "TidegateError",
    "local_session",
    "register_accumulator",
    "serve_metrics",
    "sql",
]

_LATE = {
    "BatchReport": "tidegate.metrics.report",
    "CallbackSink": "tidegate.connectors.callback",
    "ConsoleSink": "tidegate.connectors.console",
    "DeltaSink": "tidegate.connectors.delta",
    "FileSink": "tidegate.connectors.files",
    "KafkaSink": "tidegate.connectors.kafka_sink",
    "FormatSink": "tidegate.connectors.formats",
    "JdbcSink": "tidegate.connectors.jdbc",
    "MemorySink": "tidegate.connectors.memory",
    "Query": "tidegate.api.query",
    "Run": "tidegate.engine.stream",
    "SideOutput": "tidegate.api.side_output",
    "Sink": "tidegate.connectors.protocol",
    "local_session": "tidegate.spark.session",
    "register_accumulator": "tidegate.plan.aggregates.registry",
    "serve_metrics": "tidegate.metrics.server",
    "sql": "tidegate.api.query",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _LATE:
        value = getattr(import_module(_LATE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
