"""A user's function as a sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class CallbackSink:
    """Calls ``function(frame, epoch)`` for each epoch that closed a window.

    The frame is already computed. ``replaces_results`` promises that the function replaces results
    by their window and keys, so that it may get the provisional ones of EMIT EARLY.
    """

    function: Callable[[DataFrame, int], object]
    replaces_results: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(
                f"CallbackSink: {self.function!r:.80} is not a function\n\n"
                "Give a function of (frame, epoch)."
            )

    def replace_by(self, columns: Sequence[str]) -> None:
        """Do nothing: the function knows the statement."""

    def write(self, frame: DataFrame, epoch: int) -> None:
        self.function(frame, epoch)
