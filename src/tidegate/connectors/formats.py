"""Any other batch format of Spark: rows are appended, and a replay appends them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.pipeline import SinkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSink:
    """Appends the rows of each epoch with a batch writer of Spark: at least once.

    Args:
        format: a format of Spark, or of a package that Spark was started with.
        path: where it writes to, for formats that have a path.
        options: options of the writer.

    Raises:
        ConfigError: the format is not text.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.format, str) or not self.format:
            raise ConfigError(
                f"FormatSink: format is {self.format!r:.80}, it must be the name of a format\n\n"
                'Give a batch format of Spark, e.g. format="avro".'
            )

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Append the rows of an epoch."""
        frame.write.format(self.format).options(**self.options).mode("append").save(self.path)


def make_format_sink(config: SinkConfig) -> FormatSink:
    """Return the sink of a section of a pipeline file."""
    return FormatSink(format=config.format, path=config.path, options=dict(config.options))
