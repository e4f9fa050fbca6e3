"""The owner of a table of a database: the one checkpoint whose query may write there.

A table ``tidegate_owners`` in the schema of the results has a row for each table of results. The
row also names the writer, which each start replaces, and the newest epoch in the table. A merge
looks at it in its transaction, so a query finds out when another one has begun to write.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from tidegate.connectors.dialects import Dialect, text_sql
from tidegate.errors import ConfigError, ExecutionError

if TYPE_CHECKING:
    from tidegate.spark.jdbc import Connection

OWNERS = "tidegate_owners"
_COLUMNS = (
    "target varchar(300) PRIMARY KEY, id varchar(64) NOT NULL, checkpoint varchar(1000) NOT NULL, "
    "writer varchar(64) NOT NULL, epoch bigint NOT NULL"
)
_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOwner:
    """A checkpoint: its id and its path; ``writer`` is its query, another one at each start."""

    id: str
    checkpoint: str
    writer: str = field(default_factory=lambda: uuid4().hex)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the owners of a schema are, and how a table is named there."""

    owners: str
    target: str

    @property
    def condition(self) -> str:
        return f"target = {text_sql(self.target)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Reads and writes the owner of a table.

    Attributes:
        table: the table, as the user wrote it.
        dialect: the SQL of its database.
    """

    table: str
    dialect: Dialect

    def check(self, connection: Connection, owner: str | None) -> None:
        """Refuse a table that belongs to another checkpoint; nothing is changed.

        Args:
            connection: a transaction.
            owner: the id of the query's checkpoint, None if it is new.

        Raises:
            ConfigError: it does.
        """
        place = self._place(connection)
        if place is None or self.dialect.columns(connection, place.owners) is None:
            return
        for id, checkpoint in connection.rows(
            f"SELECT id, checkpoint FROM {place.owners} WHERE {place.condition}"
        ):
            if id != owner:
                raise ConfigError(
                    f"the table {self.table} holds the results of another query: its owner is "
                    f"checkpoint {checkpoint} (id {id})\n\nWrite to another table. If that query "
                    f"is gone for good, run: DELETE FROM {place.owners} WHERE {place.condition}"
                )

    def take(
        self, connection: Connection, owner: TableOwner, newest_epoch: int | None, *, is_made: bool
    ) -> None:
        """Make a checkpoint the owner of a table.

        Args:
            connection: a transaction.
            owner: the checkpoint, and the query that will write.
            newest_epoch: its newest epoch, None if it has none.
            is_made: whether the table has just been made, so that an earlier owner means nothing.

        Raises:
            ConfigError: the table belongs to another checkpoint.
        """
        place = self._place(connection)
        assert place is not None, "the table is there"
        # Queries that start at once would all make it.
        connection.run(self.dialect.lock(place.owners))
        connection.run(f"CREATE TABLE IF NOT EXISTS {place.owners} ({_COLUMNS})")
        if not is_made:
            self.check(connection, owner.id)
            self._tell_newer(connection, place, newest_epoch)
        connection.run(f"DELETE FROM {place.owners} WHERE {place.condition}")
        values = ", ".join(
            map(text_sql, (place.target, owner.id, owner.checkpoint[-1000:], owner.writer))
        )
        connection.run(
            f"INSERT INTO {place.owners} (target, id, checkpoint, writer, epoch) "
            f"VALUES ({values}, {-1 if newest_epoch is None else newest_epoch})"
        )

    def note(self, connection: Connection, owner: TableOwner, epoch: int) -> None:
        """Note that a transaction writes an epoch; until its end, no other query can begin to.

        Raises:
            ExecutionError: another query has begun to write to the table.
        """
        place = self.check_writer(connection, owner)
        connection.run(f"UPDATE {place.owners} SET epoch = {epoch} WHERE {place.condition}")

    def check_writer(self, connection: Connection, owner: TableOwner) -> _Place:
        """Check that no other query has begun to write to the table since ``take``.

        Raises:
            ExecutionError: one has.
        """
        place = self._place(connection)
        if place is None:
            raise ExecutionError(
                f"the table {self.table} is gone\n\nRestore it, or start with a new checkpoint."
            )
        rows = connection.rows(
            f"SELECT writer, checkpoint FROM {place.owners} WHERE {place.condition} FOR UPDATE"
        )
        if not rows or rows[0][0] != owner.writer:
            other = f"the query with checkpoint {rows[0][1]}" if rows else "another query"
            raise ExecutionError(
                f"{other} has begun to write to the table {self.table}, so this one stops; nothing "
                "of its epoch is there\n\nRun one query for a table. If this is the right one, "
                "end the other and start this one again."
            )
        return place

    def _tell_newer(self, connection: Connection, place: _Place, newest_epoch: int | None) -> None:
        """Log that the table has epochs which the checkpoint does not know."""
        rows = connection.rows(f"SELECT epoch FROM {place.owners} WHERE {place.condition}")
        known = -1 if newest_epoch is None else newest_epoch
        if rows and int(rows[0][0] or -1) > known:
            _LOG.warning(
                "%s: it has results up to epoch %s, and the checkpoint ends at %s, so it was "
                "rolled back or restored from a copy; results of the epochs between stay until "
                "they are written again",
                self.table,
                rows[0][0],
                "its start" if newest_epoch is None else f"epoch {newest_epoch}",
            )

    def _place(self, connection: Connection) -> _Place | None:
        """Return where the owner of the table is noted; None if there is no such table."""
        found = self.dialect.full_name(connection, self.table)
        if found is None:
            return None
        schema, name = found
        return _Place(owners=f"{schema}.{OWNERS}", target=f"{schema}.{name}")
