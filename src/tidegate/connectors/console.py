"""The console: prints results for a person to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.connectors.protocol import persisted
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.pipeline import SinkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink:
    """Prints the first ``rows`` rows of each epoch."""

    reads_once: ClassVar = True

    rows: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.rows, int) or isinstance(self.rows, bool) or self.rows < 0:
            raise ConfigError(
                f"ConsoleSink: rows is {self.rows!r:.80}, it must be a whole number, 0 or more\n\n"
                "Give the maximum number of rows to print per epoch, e.g. rows=20."
            )

    def write(self, frame: DataFrame, epoch: int) -> None:
        with persisted(frame) as kept:
            print(f"epoch {epoch}")
            kept.show(self.rows, truncate=False)


def make_console_sink(config: SinkConfig) -> ConsoleSink:
    """Return the sink of a section of a pipeline file.

    Raises:
        ConfigError: the option ``rows`` is not a number.
    """
    rows = config.options.get("rows", str(ConsoleSink().rows))
    if not rows.isdecimal():
        raise ConfigError(
            f'sinks.{config.name}: options.rows = "{rows}": it is not a whole number\n\n'
            "rows is the maximum number of rows to print per epoch, e.g. options.rows = 20."
        )
    return ConsoleSink(rows=int(rows))
