"""Reinjecting: rows of side output go back to the folder that their stream reads, in a new file.

The name of the file begins with ``REINJECTED_FILES``: by it the query knows the rows when they come
again, and whatever reads the folder finds the columns that it finds in other files. Checkpoint and
epoch are in the name too, so a batch that runs again writes no second copy.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import functions

from tidegate.connectors.protocol import Staged
from tidegate.names import in_backticks
from tidegate.plan.side_output import REINJECTED_FILES
from tidegate.spark.files import write_folder
from tidegate.spark.folders import open_folder
from tidegate.spark.observe import observed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

# Where a file is written before it appears; sources skip names that begin with ``_``.
STAGING = "_tidegate_reinject"

# Options of Spark's readers that its writers know too, and that both must have alike.
_SHARED = (
    *("sep", "delimiter", "quote", "escape", "header", "encoding", "charset", "lineSep"),
    *("charToEscapeQuoteEscaping", "nullValue", "emptyValue", "compression", "locale"),
    *("dateFormat", "timestampFormat", "timestampNTZFormat", "timeFormat", "ignoreNullFields"),
)

# The writers' defaults would change values: times would lose microseconds, text its blanks.
_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinjectSink:
    """Puts rows back into the folder of a file source.

    Args:
        format: csv, json, parquet or orc.
        path: the folder.
        columns: the columns of its files, in their order.
        options: options with which the source is read.
    """

    format: str
    path: str
    columns: StructType
    options: Mapping[str, str] = field(default_factory=dict)
    _owner: list[str] = field(default_factory=list, init=False, compare=False, repr=False)

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Note the checkpoint. Files of later epochs stay, and are not written again."""
        del newest_epoch
        self._owner[:] = [owner]

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Put the rows of an epoch back, unless an earlier attempt at it has done so."""
        self.stage(frame, epoch).publish()

    def stage(self, frame: DataFrame, epoch: int) -> Staged:
        """Write the rows of an epoch to one file that no reader sees.

        Args:
            frame: rows with the columns of the source.
            epoch: the epoch.
        """
        assert self._owner, "a query opens its sinks before it writes"
        folder = open_folder(frame.sparkSession, self.path)
        name = f"{STAGING}/{epoch}-{uuid4().hex[:12]}"
        watched, numbers = observed(frame.select(*self._columns(frame)), {"rows": "count(1)"})
        # One file, so that it appears at once. Not coalesced: many tasks may look for the rows.
        write_folder(
            watched.repartition(1),
            f"{self.path}/{name}",
            format=self.format,
            options=writer_options(self.options),
        )
        rows = numbers()["rows"]

        def publish() -> None:
            if rows:
                (part,) = (each for each in folder.names(name) if each.startswith("part-"))
                suffix = part.partition(".")[2]
                target = f"{REINJECTED_FILES}{self._owner[0][:12]}-{epoch}.{suffix}"
                folder.put_file_if_absent(posixpath.join(name, part), target)
            discard()

        def discard() -> None:
            folder.delete(name)
            folder.delete_if_empty(STAGING)

        return Staged(publish=publish, discard=discard)

    def _columns(self, frame: DataFrame) -> list[Column]:
        """The columns of the files; those that the query does not read are NULL."""
        return [
            frame[in_backticks(column.name)]
            if column.name in frame.columns
            else functions.lit(None).cast(column.dataType).alias(column.name)
            for column in self.columns
        ]


def writer_options(reader: Mapping[str, str]) -> dict[str, str]:
    """Return the options by which Spark writes what it reads with the given ones."""
    shared = {name.lower() for name in _SHARED}
    kept = {name: value for name, value in reader.items() if name.lower() in shared}
    given = {name.lower() for name in kept}
    return {name: text for name, text in _EXACT.items() if name.lower() not in given} | kept
