"""Passing frames to sinks: to those of users in a session with their settings, and to several.

Either way the rows are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.connectors.protocol import persisted
from tidegate.engine.job import Outlet, OwnedOutlet
from tidegate.errors import ExecutionError
from tidegate.plan.columns import RECORD_KEYS, RESULT_ID, RESULT_KEYS
from tidegate.spark.isolation import Mirror, in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.protocol import Sink


def wrap_user_sinks(sinks: Mapping[str, Sink], spark: SparkSession) -> dict[str, Sink]:
    """Return sinks by name; those that may read their frame more than once are wrapped.

    A sink with several names stays one object.

    Args:
        sinks: where rows go.
        spark: the user's session.
    """
    distinct = {id(sink): sink for sink in sinks.values()}
    if all(_reads_once(sink) for sink in distinct.values()):
        return dict(sinks)
    # Not the user's own session: sinks of two queries may create views of the same name.
    mirror = Mirror(spark, pinned=False)
    wrapped = {key: _wrapped(sink, mirror) for key, sink in distinct.items()}
    return {name: wrapped[id(sink)] for name, sink in sinks.items()}


def as_one(sinks: Sequence[Outlet]) -> Outlet:
    """Return one outlet for the sinks of the results; a single one is itself."""
    return sinks[0] if len(sinks) == 1 else SeveralSinks(tuple(sinks))


@dataclass(frozen=True, slots=True, eq=False)
class SeveralSinks:
    """Sinks that all get the same results, one after another in their order.

    Each replaces an epoch by itself, so a replay after a crash between two of them is harmless.
    """

    sinks: tuple[Outlet, ...]

    @property
    def needs_identity(self) -> bool:
        """See ``Sink``."""
        return any(_needs_identity(sink) for sink in self.sinks)

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """See ``OwnedOutlet``."""
        for sink in self.sinks:
            if isinstance(sink, OwnedOutlet):
                sink.open(owner, newest_epoch)

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Compute a frame once and pass it to each sink."""
        # The first sink computes it while it writes, if it reads all of it.
        kept = frame.persist()
        try:
            if not _reads_once(self.sinks[0]):
                kept.count()
            plain = kept.drop(RESULT_ID, RESULT_KEYS, RECORD_KEYS) if self.needs_identity else kept
            for sink in self.sinks:
                sink.write(kept if _needs_identity(sink) else plain, epoch)
        finally:
            kept.unpersist()


def _needs_identity(sink: Outlet) -> bool:
    return getattr(sink, "needs_identity", False) is True


def _reads_once(sink: Outlet) -> bool:
    return getattr(sink, "reads_once", False) is True


def _wrapped(sink: Sink, mirror: Mirror) -> Sink:
    if _reads_once(sink):
        return sink
    if isinstance(sink, OwnedOutlet):
        return _OwnedUserSink(sink, mirror)
    return _UserSink(sink, mirror)


@dataclass(frozen=True, slots=True, eq=False)
class _UserSink:
    """A user's sink.

    The whole frame is first computed once, in the session of the step. So its rows are counted, and
    the sink may use the frame in any way.
    """

    sink: Sink
    mirror: Mirror

    @property
    def needs_identity(self) -> bool:
        """See ``Sink``."""
        return _needs_identity(self.sink)

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Compute a frame and pass it to the sink.

        Raises:
            ExecutionError: the sink called ``sys.exit``; that is a failure like any other.
        """
        with persisted(frame) as kept:
            try:
                self.sink.write(in_session(kept, self.mirror.current()), epoch)
            except SystemExit as error:
                raise ExecutionError(
                    f"a sink called sys.exit({error.code!r})\n\nA sink cannot end the process. "
                    "Raise an error if it cannot write; to end the query after the batch, call "
                    "run.stop()."
                ) from error


@dataclass(frozen=True, slots=True, eq=False)
class _OwnedUserSink(_UserSink):
    """A user's sink whose target belongs to one checkpoint."""

    sink: OwnedOutlet

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """See ``OwnedOutlet``."""
        self.sink.open(owner, newest_epoch)
