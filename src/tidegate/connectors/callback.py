"""A user's function as a sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class CallbackSink:
    """Calls ``function(frame, epoch)`` for each epoch that closed a window.

    The frame is already computed.
    """

    function: Callable[[DataFrame, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(
                f"CallbackSink: {self.function!r:.80} is not a function\n\n"
                "Give a function of (frame, epoch)."
            )

    def write(self, frame: DataFrame, epoch: int) -> None:
        self.function(frame, epoch)
