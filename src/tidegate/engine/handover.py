"""Passing frames to sinks: to those of users in a session with their settings, and to several.

Either way the rows are computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.connectors.protocol import persisted
from tidegate.engine.job import Outlet, OwnedOutlet
from tidegate.errors import ExecutionError
from tidegate.plan.columns import RECORD_KEYS, RESULT_ID, RESULT_KEYS, WINDOW_TIME
from tidegate.spark.isolation import Mirror, in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.protocol import Sink
    from tidegate.engine.job import Outlets
    from tidegate.state.intents import Intent


# The columns that only a sink with ``needs_identity`` gets.
_IDENTITY = (RESULT_ID, RESULT_KEYS, RECORD_KEYS)


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


def hand_out(results: DataFrame | None, outlets: Outlets, step: Intent, owner: str) -> None:
    """Write the results of a step to the sinks, then run the steps of queries that read them.

    Args:
        results: the results, with ``WINDOW_TIME`` if there are such queries; None: there are none.
        outlets: where they go.
        step: the decisions of the step.
        owner: the id of the checkpoint.
    """
    if results is None or not outlets.takers:
        if results is not None:
            outlets.results.write(results, step.epoch)
        for taker in outlets.takers:
            taker.take(None, step, owner)
        return
    with _computed_for(outlets.results, results) as kept:
        _pass_on(outlets.results, kept.drop(WINDOW_TIME), step.epoch)
        for taker in outlets.takers:
            taker.take(kept.drop(*_IDENTITY), step, owner)


@contextmanager
def _computed_for(first: Outlet, frame: DataFrame) -> Iterator[DataFrame]:
    """Keep the rows of a frame, which the first one to read them computes if it reads them all."""
    kept = frame.persist()
    try:
        if not _reads_once(first):
            kept.count()
        yield kept
    finally:
        kept.unpersist()


def _pass_on(sink: Outlet, computed: DataFrame, epoch: int) -> None:
    """Write a frame whose rows are computed only once, whatever the sink does."""
    if isinstance(sink, (SeveralSinks, _UserSink)):
        sink.pass_on(computed, epoch)
    else:
        sink.write(computed, epoch)


@dataclass(frozen=True, slots=True, eq=False)
class SeveralSinks:
    """Sinks that all get the same results, one after another in their order.

    Each replaces an epoch by itself, so a replay after a crash between two of them is harmless.
    """

    sinks: tuple[Outlet, ...]

    @property
    def reads_once(self) -> bool:
        """Whether the first sink reads all of a frame in one action."""
        return bool(self.sinks) and _reads_once(self.sinks[0])

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
        with _computed_for(self, frame) as kept:
            self.pass_on(kept, epoch)

    def pass_on(self, computed: DataFrame, epoch: int) -> None:
        """Pass a frame that is computed only once to each sink."""
        plain = computed.drop(*_IDENTITY) if self.needs_identity else computed
        for sink in self.sinks:
            _pass_on(sink, computed if _needs_identity(sink) else plain, epoch)


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
            self.pass_on(kept, epoch)

    def pass_on(self, computed: DataFrame, epoch: int) -> None:
        """Pass a frame that is computed already to the sink."""
        try:
            self.sink.write(in_session(computed, self.mirror.current()), epoch)
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
