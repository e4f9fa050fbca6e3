"""What a sink does, for those that are here and for those of users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """Takes the rows of each epoch.

    ``write`` runs exactly one Spark action that reads all of the frame: the action counts the rows.
    A sink that wants more actions persists the frame first, as ``persisted`` does.
    """

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Write the rows of an epoch, in place of what an earlier attempt at it wrote."""


class OwnedSink(Sink, Protocol):
    """A sink that is told about its owner before the first results of each start."""

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Take the target for a checkpoint, and remove rows of epochs that it does not know.

        Args:
            owner: the id of the checkpoint.
            newest_epoch: the newest epoch in the checkpoint; rows of later ones belong to a future
                that was interrupted or rolled back. None: the checkpoint has no epoch.

        Raises:
            ConfigError: the target belongs to another checkpoint.
        """


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute a frame once, all of it, whatever is done with it then."""
    kept = frame.persist()
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()
