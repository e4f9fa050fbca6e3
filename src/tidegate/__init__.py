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
    from tidegate.engine.report import BatchReport
    from tidegate.engine.stream import Run
    from tidegate.plan.accumulator_registry import register_accumulator
    from tidegate.query import Query, sql
    from tidegate.session import local_session

__version__ = "0.1.0"

__all__ = [
    "BatchReport",
    "ConfigError",
    "ExecutionError",
    "Query",
    "QueryError",
    "Run",
    "StateError",
    "TidegateError",
    "local_session",
    "register_accumulator",
    "sql",
]

_LATE = {
    "BatchReport": "tidegate.engine.report",
    "Query": "tidegate.query",
    "Run": "tidegate.engine.stream",
    "local_session": "tidegate.session",
    "register_accumulator": "tidegate.plan.accumulator_registry",
    "sql": "tidegate.query",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    # A submodule and its function share the name ``sql``: the function wins once it is asked for
    # here.
    if name in _LATE:
        value = getattr(import_module(_LATE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
