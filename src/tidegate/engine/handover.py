"""Handing frames to functions of users: computed once, in a session with the user's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.connectors.callback import CallbackSink
from tidegate.connectors.protocol import persisted
from tidegate.spark.isolation import Mirror, in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.protocol import Sink


def handed_over(sinks: Mapping[str, Sink], spark: SparkSession) -> dict[str, Sink]:
    """Return sinks by name; functions of the user's are handed frames of the user's settings.

    A sink of several names stays one. Sinks with a ``write`` of their own take the frame of the
    step, whose rows are counted while they write it.

    Args:
        sinks: where rows go.
        spark: the user's session.
    """
    if not any(isinstance(sink, CallbackSink) for sink in sinks.values()):
        return dict(sinks)
    # Not the user's session itself: functions of two queries may make views of one name at a time.
    mirror = Mirror(spark, pinned=False)
    handed = {
        id(sink): HandedOver(sink, mirror) if isinstance(sink, CallbackSink) else sink
        for sink in sinks.values()
    }
    return {name: handed[id(sink)] for name, sink in sinks.items()}


@dataclass(frozen=True, slots=True, eq=False)
class HandedOver:
    """A function of the user's as a sink.

    A frame is computed first, once and all of it, in the session of the step: so its rows are
    counted, and the function may do with it what it likes.
    """

    sink: CallbackSink
    mirror: Mirror

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Compute a frame and hand it over."""
        with persisted(frame) as kept:
            self.sink.function(in_session(kept, self.mirror.current()), epoch)
