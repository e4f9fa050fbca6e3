"""Memory: keeps results in this process, for notebooks and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tidegate.errors import ConfigError
from tidegate.notebook.markup import heading, page, table
from tidegate.spark.session import current_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

# How many rows a notebook shows.
_MOST_SHOWN = 20


class MemorySink:
    """Keeps all results in this process; ``rows()`` and ``frame()`` return them.

    With EMIT EARLY a result replaces an earlier one of the same window and keys.
    """

    reads_once: ClassVar = True
    replaces_results = True

    def __init__(self) -> None:
        self._epochs: dict[int, list[Row]] = {}
        self._schema: StructType | None = None
        self._key: tuple[str, ...] = ()

    def replace_by(self, columns: Sequence[str]) -> None:
        self._key = tuple(columns)

    def write(self, frame: DataFrame, epoch: int) -> None:
        self._schema = frame.schema
        self._epochs[epoch] = frame.collect()

    def rows(self) -> list[Row]:
        """Return all rows, oldest epoch first."""
        rows = [row for epoch in sorted(self._epochs) for row in self._epochs[epoch]]
        return self._newest(rows) if self._key else rows

    def _newest(self, rows: list[Row]) -> list[Row]:
        """The newest row of each result. Its text identifies it also where it has lists or NaN."""
        newest: dict[str, Row] = {}
        for row in rows:
            result = repr([row[column] for column in self._key])
            newest.pop(result, None)
            newest[result] = row
        return list(newest.values())

    def frame(self) -> DataFrame:
        """Return all rows as a DataFrame of the query's schema.

        Raises:
            ConfigError: nothing has been written yet, so there is no schema.
        """
        if self._schema is None:
            raise ConfigError(
                "the memory sink is empty\n\nWait for a window to close, or use query.schema."
            )
        return current_session().createDataFrame(self.rows(), self._schema)

    def _repr_html_(self) -> str:
        rows = self.rows()
        if self._schema is None or not rows:
            return page(heading("No rows yet"))
        count = f"{len(rows):,} rows" if len(rows) > 1 else "1 row"
        newest = f", the newest {_MOST_SHOWN}" if len(rows) > _MOST_SHOWN else ""
        return page(heading(count + newest), table(self._schema.names, rows[-_MOST_SHOWN:]))
