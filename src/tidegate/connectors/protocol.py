"""What every sink has to do, ours and those of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


class Sink(Protocol):
    """Takes the rows of each epoch.

    ``write`` gets a frame that is already computed, in a session with the user's settings, and may
    run any number of actions on it.

    A sink whose attribute ``reads_once`` is True avoids this copy. Its frame has not been computed
    yet and belongs to the session of the step; ``write`` must run exactly one Spark action that
    reads all of it, which computes and counts the results. While a query catches up, it is called
    by another thread than the one that brings the batches, one epoch after the other.

    A sink whose attribute ``needs_identity`` is True gets results with two more columns, which tell
    them apart: ``RESULT_ID`` and, if the statement has keys, ``RESULT_KEYS`` (``plan/columns.py``).
    If it also has an attribute ``record_key``, an expression over the columns of the results, then
    ``RECORD_KEYS`` has its value, as text, by its own text. If it fails, it is a failed result.
    """

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Write the rows of an epoch, replacing what an earlier attempt at it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a query, as a sink is told of them.

    Attributes:
        columns: the columns of the select list.
        keys: the text of each group key, and the column that shows it, None if none does.
        key_types: the types of the keys.
        grouped: whether a window has one result for each value of the keys; otherwise its results
            are rows, which nothing identifies.
        window_id: the column of ``window_id()``, None if it is not selected.
        final: the column of ``is_final()``, None if it is not selected.
    """

    columns: StructType
    keys: tuple[tuple[str, str | None], ...]
    key_types: tuple[DataType, ...]
    grouped: bool
    window_id: str | None
    final: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a sink is told when a query is about to start.

    Attributes:
        place: the sink's argument of ``Query.start``.
        spark: the session of the query.
        owner: the id of the checkpoint; None if it has none yet.
        is_new: whether the checkpoint has no state, so that no target can be its own.
        results: returns what is known of the results, which takes a while; None for a sink of side
            output.
    """

    place: str
    spark: SparkSession
    owner: str | None
    is_new: bool
    results: Callable[[], Results] | None


class CheckingSink(Sink, Protocol):
    """A sink that may refuse a start, before anything is written."""

    def check_start(self, start: Start) -> None:
        """Check that the sink can take the results of a query, and note what it needs of them.

        Raises:
            ConfigError: it cannot, or its target belongs to another checkpoint.
        """


class ReplacingSink(Sink, Protocol):
    """A sink in which a result replaces an earlier one of the same window and keys.

    Only such a sink can take the provisional results of EMIT EARLY. The attribute
    ``replaces_results`` says at run time whether a sink is one.
    """

    replaces_results: bool

    def replace_by(self, columns: Sequence[str]) -> None:
        """Take the columns that identify a result; called at each start, with none if none do."""


class OwnedSink(Sink, Protocol):
    """A sink whose target belongs to one checkpoint; ``open`` is called at each start."""

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Make a checkpoint the owner of the target, and delete epochs that it did not commit.

        Args:
            owner: the id of the checkpoint.
            newest_epoch: the newest epoch of the checkpoint, None if it has none. If the epoch
                after it was begun and is written again next, that one. Rows of later epochs were
                interrupted or rolled back.

        Raises:
            ConfigError: the target belongs to another checkpoint.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The rows of an epoch, written where no reader sees them.

    Attributes:
        publish: puts them in place at once.
        discard: removes them instead.
    """

    publish: Callable[[], None]
    discard: Callable[[], None]


@runtime_checkable
class StagedSink(Sink, Protocol):
    """A sink that writes aside first, so that a write which takes too long leaves nothing.

    ``write`` stages the rows and publishes them.
    """

    def stage(self, frame: DataFrame, epoch: int) -> Staged:
        """Write the rows of an epoch aside."""


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute all of a frame once, however often it is used then."""
    if frame._jdf.storageLevel().useMemory():
        # Whoever has persisted it has computed it too, and drops it.
        yield frame
        return
    kept = frame.persist()
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()
