"""A table of a database, over JDBC. An epoch is merged in one transaction, so it may be replayed.

    stage     Spark writes the rows of the epoch into a table of their own, with one task or many
    merge     one transaction of the driver upserts them by window and keys, and drops that table

A crash before the merge leaves the results as they were, and the replay stages the rows anew.
A table beside the results names the checkpoint that owns them (``jdbc_owner.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from tidegate.connectors.dialects import DIALECTS, UNTRIED, Dialect, Merge
from tidegate.connectors.jdbc_layout import Layout, in_table, layout_of
from tidegate.connectors.jdbc_owner import Owners, TableOwner
from tidegate.connectors.needed import package_of, with_driver
from tidegate.errors import ConfigError, ExecutionError
from tidegate.spark.failures import reason_of
from tidegate.spark.jars import check_package
from tidegate.spark.jdbc import Connection, transaction
from tidegate.spark.session import current_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.connectors.protocol import Start
    from tidegate.plan.pipeline import SinkConfig

_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_]\w*)'
_TABLE = re.compile(rf"(?:({_NAME})\.)?{_NAME}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSink:
    """Upserts results into a table: a result replaces an earlier one of the same window and keys.

    Args:
        url: ``jdbc:postgresql://host/database``.
        table: the table, with its schema if it needs one, e.g. ``public.results``.
        create: whether the table is made if there is none.
        options: options of Spark's JDBC writer and of the driver: ``user``, ``password``, ..
        checkpoint: where the query's checkpoint is, for messages; ``Query.start`` sets it.

    Raises:
        ConfigError: the URL is of a database that is not supported, or an argument is wrong.
    """

    reads_once: ClassVar = True
    needs_identity: ClassVar = True
    replaces_results: ClassVar = True
    nested: ClassVar = False
    format: ClassVar = "jdbc"

    url: str
    table: str
    create: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    checkpoint: str | None = field(default=None, compare=False, repr=False)
    _writer: TableOwner | None = field(default=None, init=False, compare=False, repr=False)
    _layout: Layout | None = field(default=None, init=False, compare=False, repr=False)
    _types: tuple[str, ...] = field(default=(), init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        name = package_of("jdbc", {"url": self.url}) if isinstance(self.url, str) else ""
        if name not in DIALECTS:
            shown = self.url.partition("?")[0] if isinstance(self.url, str) else repr(self.url)
            what = UNTRIED.get(name)
            why = (
                "which is of no database that Tidegate writes to" if what is None else f"of {what}"
            )
            raise ConfigError(
                f"JdbcSink: url is {shown:.80}, {why}\n\n"
                f"Give one that begins with {' or '.join(f'jdbc:{name}:' for name in DIALECTS)}, "
                'e.g. url="jdbc:postgresql://localhost/results". For another database, give a '
                "function of (frame, epoch) that writes there."
            )
        if not isinstance(self.table, str) or not _TABLE.fullmatch(self.table):
            raise ConfigError(
                f"JdbcSink: table is {self.table!r:.80}, which is not the name of a table\n\n"
                'Give a name, with its schema if it needs one, e.g. table="public.results".'
            )
        if not isinstance(self.options, Mapping):
            raise ConfigError(
                f"JdbcSink: options is of type {type(self.options).__name__}, it must be a dict\n\n"
                'Give options of Spark\'s JDBC writer, e.g. options={"user": "etl"}.'
            )

    def replace_by(self, columns: Sequence[str]) -> None:
        """Do nothing: ``check_start`` is told more."""

    def check_start(self, start: Start) -> None:
        """Check that the table can hold the results of a query; nothing is changed.

        Raises:
            ConfigError: it cannot, the database cannot be reached, or the table belongs to another
                checkpoint.
        """
        assert start.results is not None, "side output does not go to tables"
        place = f"sink {self.table}"
        check_package(start.spark, package_of("jdbc", {"url": self.url}), place)
        layout = layout_of(start.results(), self._dialect, place)
        object.__setattr__(self, "_types", tuple(column.type for column in layout.columns))
        try:
            with transaction(start.spark, self._options) as connection:
                layout = self._checked(connection, layout, place)
                if start.owner is not None or start.is_new:
                    self._owners.check(connection, start.owner)
        except Py4JJavaError as error:
            raise ConfigError(
                f"{place}: {self.url.partition('?')[0]} cannot be used: {reason_of(error)}\n\n"
                "Start the server, or correct url, user and password."
            ) from error
        object.__setattr__(self, "_layout", layout)

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Make a checkpoint the owner, and the table if that is asked for.

        What crashed attempts had staged is dropped.

        Raises:
            ConfigError: the table belongs to another checkpoint.
        """
        layout = self._known_layout
        with transaction(current_session(), self._options) as connection:
            is_made = self._dialect.columns(connection, self.table) is None
            if is_made:
                made = self._dialect.create(self.table, layout.columns, layout.key, layout.window)
                for statement in made:
                    connection.run(statement)
            taker = TableOwner(id=owner, checkpoint=self.checkpoint or "unknown")
            self._owners.take(connection, taker, newest_epoch, is_made=is_made)
            object.__setattr__(self, "_writer", taker)
            for leftover in self._dialect.leftovers(connection, self._prefix):
                connection.run(f"DROP TABLE {leftover}")

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Merge the rows of an epoch into the table.

        Raises:
            ExecutionError: the server crashed in between and lost the staged rows, or another
                query has begun to write to the table.
        """
        spark, layout = frame.sparkSession, self._known_layout
        assert self._writer is not None, "open comes before the first write"
        staging = self._staging(epoch)
        with transaction(spark, self._options) as connection:
            self._owners.check_writer(connection, self._writer)
            for statement in self._dialect.stage(staging, self._types):
                connection.run(statement)
        values = [f"{value} AS c{number}" for number, value in enumerate(layout.values)]
        rows = frame.selectExpr("spark_partition_id() AS task", *values)
        rows.write.format("jdbc").options(**{**self._options, "dbtable": staging}).mode(
            "append"
        ).save()
        merge = Merge(
            table=self.table,
            staging=staging,
            columns=layout.columns,
            key=layout.key,
            window=layout.window,
            final=layout.final,
        )
        with transaction(spark, self._options) as connection:
            self._owners.note(connection, self._writer, epoch)
            if not connection.rows(self._dialect.is_staged(staging)):
                lost = ExecutionError(
                    f"the database of {self.table} crashed while epoch {epoch} was written, and "
                    "lost its staged rows\n\nStart the query again: it writes the epoch anew."
                )
                lost.transient = "database"
                raise lost
            for statement in self._dialect.merge(merge):
                connection.run(statement)
            connection.run(f"DROP TABLE {staging}")

    def _checked(self, connection: Connection, layout: Layout, place: str) -> Layout:
        """Return the layout in the table that is there, or in the one that will be made."""
        self._dialect.check_server(connection)
        there = self._dialect.columns(connection, self.table)
        if there is None:
            if self.create:
                return layout
            made = self._dialect.create(self.table, layout.columns, layout.key, layout.window)
            raise ConfigError(
                f"{place}: there is no table {self.table}\n\nSet create = true, or run: "
                f"{'; '.join(made)}"
            )
        layout = in_table(layout, there, place, self.table)
        if layout.key and not self._dialect.has_key(connection, self.table, layout.key):
            raise ConfigError(
                f"{place}: the table {self.table} has no unique index on exactly "
                f"{', '.join(layout.key)} that takes NULLs for equal, so no result could replace "
                f"another\n\nRun: {self._dialect.key_statement(self.table, layout.key)}"
            )
        return layout

    @property
    def _known_layout(self) -> Layout:
        if self._layout is None:
            raise ExecutionError(
                "JdbcSink: it does not know the results\n\nGive it to Query.start(sink=..)."
            )
        return self._layout

    @property
    def _dialect(self) -> Dialect:
        return DIALECTS[package_of("jdbc", {"url": self.url})]

    @property
    def _owners(self) -> Owners:
        return Owners(table=self.table, dialect=self._dialect)

    @property
    def _options(self) -> dict[str, str]:
        ours = {"url": self.url, "dbtable": self.table}
        return with_driver("jdbc", {**self._dialect.options, **self.options, **ours})

    @property
    def _prefix(self) -> str:
        assert self._writer is not None, "open comes before the first write"
        return f"_tidegate_{re.sub(r'[^a-z0-9]', '', self._writer.id.lower())[:16]}_"

    def _staging(self, epoch: int) -> str:
        """Return the name of a table that was never used, in the schema of the results."""
        schema = _TABLE.fullmatch(self.table)
        assert schema is not None, "checked when it was made"
        name = f"{self._prefix}{epoch}_{uuid4().hex[:8]}"
        return f"{schema[1]}.{name}" if schema[1] else name


def make_jdbc_sink(config: SinkConfig) -> JdbcSink:
    """Return the sink of a section of a pipeline file.

    Raises:
        ConfigError: ``url``, ``dbtable`` or ``create`` is missing or wrong.
    """
    given = {name.lower(): value for name, value in config.options.items()}
    create = given.get("create", "false")
    if create not in ("true", "false"):
        raise ConfigError(
            f'sinks.{config.name}: options.create = "{create}"\n\nWrite true or false.'
        )
    own = ("url", "dbtable", "create")
    options = {name: value for name, value in config.options.items() if name.lower() not in own}
    try:
        return JdbcSink(
            url=given["url"],
            table=given["dbtable"],
            create=create == "true",
            options=options,
        )
    except ConfigError as error:
        raise ConfigError(str(error).replace("JdbcSink: ", f"sinks.{config.name}: ", 1)) from None
