"""Statements that the driver runs in a database, over a connection of Spark's own JDBC support.

Spark finds the driver's class and knows its ways to log in, so nothing else is needed in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[str | None, ...]]


class Connection:
    """An open connection, in a transaction."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - a JVM object
        self._connection = connection

    def run(self, statement: str) -> None:
        """Run a statement, whatever it returns."""
        running = self._connection.createStatement()
        try:
            running.execute(statement)
        finally:
            running.close()

    def rows(self, statement: str) -> Rows:
        """Return the few rows of a query, their values as text."""
        running = self._connection.createStatement()
        try:
            found = running.executeQuery(statement)
            width = range(1, found.getMetaData().getColumnCount() + 1)
            rows: Rows = []
            while found.next():
                rows.append(tuple(found.getString(column) for column in width))
            return rows
        finally:
            running.close()


@contextmanager
def transaction(spark: SparkSession, options: Mapping[str, str]) -> Iterator[Connection]:
    """Open a connection for one transaction, which is rolled back if the block raises.

    Args:
        spark: the session.
        options: options of Spark's JDBC writer.

    Raises:
        Py4JJavaError: the server cannot be reached, or refuses.
    """
    jvm: Any = spark._jvm
    jdbc: Any = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
        jvm.PythonUtils.toScalaMap(dict(options))
    )
    dialects: Any = getattr(jvm.org.apache.spark.sql.jdbc, "JdbcDialects$")
    dialect = getattr(dialects, "MODULE$").get(jdbc.url())
    connection = dialect.createConnectionFactory(jdbc).apply(-1)
    try:
        connection.setAutoCommit(False)
        yield Connection(connection)
        connection.commit()
    finally:
        # Without a commit this rolls back.
        connection.close()
