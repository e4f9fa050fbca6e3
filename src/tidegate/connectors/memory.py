"""Memory: keeps results in this process, for notebooks and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tidegate.errors import ConfigError
from tidegate.spark.session import current_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType


class MemorySink:
    """Keeps all results in this process; ``rows()`` and ``frame()`` return them."""

    reads_once: ClassVar = True

    def __init__(self) -> None:
        self._epochs: dict[int, list[Row]] = {}
        self._schema: StructType | None = None

    def write(self, frame: DataFrame, epoch: int) -> None:
        self._schema = frame.schema
        self._epochs[epoch] = frame.collect()

    def rows(self) -> list[Row]:
        """Return all rows, oldest epoch first."""
        return [row for epoch in sorted(self._epochs) for row in self._epochs[epoch]]

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
