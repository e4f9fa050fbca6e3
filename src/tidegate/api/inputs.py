"""The inputs that a user gives for the names in a statement: DataFrames, or schemas of streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from tidegate.api.arguments import each_once
from tidegate.api.chain import ResultsOf
from tidegate.api.unions import columns_of, united
from tidegate.errors import ConfigError
from tidegate.plan.columns import MALFORMED, SOURCE
from tidegate.plan.schema import parse_schema
from tidegate.plan.statement import Column, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a stream is given as: a DataFrame, a schema, or a query whose results it is.
Stream: TypeAlias = "DataFrame | str | ResultsOf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Streams and static tables by name; a stream may also be a schema (DDL), or results."""

    streams: Mapping[str, Stream]
    tables: Mapping[str, DataFrame]

    @classmethod
    def of(
        cls,
        streams: Mapping[str, Stream],
        tables: Mapping[str, DataFrame],
        named: Mapping[str, Stream],
    ) -> Given:
        """Return all inputs, with ``named`` ones sorted into streams and tables."""
        each_once(streams, tables, named)
        streaming = {n: v for n, v in named.items() if not _is_frame(v) or v.isStreaming}
        static: dict[str, Any] = {n: v for n, v in named.items() if n not in streaming}
        if not streams and not streaming:
            # Only tables: the statement is for batch(), and the one in FROM stands for the stream.
            streaming, static = static, {}
        return cls(streams={**streams, **streaming}, tables={**tables, **static})

    def relations(self) -> list[Relation]:
        """Return the relations for the binder.

        Raises:
            ConfigError: a schema cannot be read.
        """
        return [
            *(
                v.relation(n)
                if isinstance(v, ResultsOf)
                else Relation(
                    name=n,
                    columns=_columns(n, v),
                    malformed=_has_column(v, MALFORMED),
                    united=_has_column(v, SOURCE),
                )
                for n, v in self.streams.items()
            ),
            *(
                Relation(name=n, columns=_columns(n, v), streaming=False)
                for n, v in self.tables.items()
            ),
        ]

    def uniting(self, source: Relation) -> Given:
        """Return the inputs with the stream that the statement reads, if it unites several.

        Args:
            source: the stream of the statement.
        """
        if not source.members or source.name in self.streams:
            return self
        members = {name: self._stream(name) for name in source.members}
        schemas = [each for each in members.values() if isinstance(each, str)]
        # A schema has no rows, so the union of it and others has none.
        stream = f"{schemas[0]}, {SOURCE} STRING" if schemas else united(source.name, members)
        return Given(streams={**self.streams, source.name: stream}, tables=self.tables)

    def _stream(self, name: str) -> Any:  # noqa: ANN401 - a DataFrame or a schema
        return next(each for key, each in self.streams.items() if key.lower() == name.lower())

    def frames(self) -> dict[str, DataFrame]:
        """Return the DataFrames by name, without streams that are none."""
        streams = {n: v for n, v in self.streams.items() if _is_frame(v)}
        return {**streams, **self.tables}

    def empty(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Return the tables, and a static DataFrame without rows for each stream.

        Raises:
            ConfigError: Spark refuses a schema.
        """
        from tidegate.spark.statements import empty_frame

        empty = {
            name: frame_of_ddl(spark, name, value)
            if isinstance(value, str)
            else empty_frame(spark, value.schema)
            for name, value in self.streams.items()
        }
        return {**empty, **self.tables}

    def session(self) -> SparkSession | None:
        """Return the session of the first DataFrame, or of the query whose results are read."""
        frame = next(iter(self.frames().values()), None)
        if frame is not None:
            return frame.sparkSession
        results = (each for each in self.streams.values() if isinstance(each, ResultsOf))
        return next((each.session for each in results), None)


def _is_frame(value: Stream) -> TypeGuard[DataFrame]:
    return not isinstance(value, (str, ResultsOf))


def frame_of_ddl(spark: SparkSession, name: str, ddl: str) -> DataFrame:
    """Return a frame without rows, with the schema of a stream or table.

    Raises:
        ConfigError: Spark refuses it.
    """
    from pyspark.errors import PySparkException

    from tidegate.analysis.analyzer import failure_of, unlogged
    from tidegate.spark.statements import empty_frame

    try:
        with unlogged():
            return empty_frame(spark, ddl)
    except PySparkException as error:
        raise ConfigError(
            f"the schema of {name}: {failure_of(error).message}\n\n"
            'A schema is DDL, e.g. "ts TIMESTAMP, v INT".'
        ) from None


def _has_column(value: DataFrame | str, name: str) -> bool:
    return not isinstance(value, str) and name in value.columns


def _columns(name: str, value: DataFrame | str) -> tuple[Column, ...]:
    if not isinstance(value, str):
        return columns_of(value)
    try:
        return parse_schema(value)
    except ValueError as error:
        raise ConfigError(f"schema of {name}: {error}") from error
