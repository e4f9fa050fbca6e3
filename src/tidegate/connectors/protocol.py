"""What a sink does, for those that are here and for those of users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """Takes the rows of each epoch.

    ``write`` is given a frame that is already computed, in a session with the user's settings, and
    may run any number of actions on it.

    A sink with an attribute ``reads_once`` that is True does without this copy. Its frame has not
    been computed and belongs to the session of the step; ``write`` runs exactly one Spark action
    that reads all of it, which computes and counts the results.
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
