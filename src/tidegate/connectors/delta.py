"""Delta tables: an epoch is one transaction, which Delta commits once.

A transaction names its application (the checkpoint) and its version (the epoch). Delta keeps the
newest version of each application in the table and leaves out a write that is not newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.errors import ConfigError, ExecutionError
from tidegate.paths import StrPath, path_text
from tidegate.spark.jars import check_package
from tidegate.spark.session import current_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.plan.pipeline import SinkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink:
    """Appends each epoch to a Delta table; a replayed epoch is left out, so each row arrives once.

    Queries may share a table.

    Args:
        path: the folder of the table, taken literally; it is made where there is none.
        options: options of Delta's writer, e.g. ``{"mergeSchema": "true"}``.

    Raises:
        ConfigError: the path is empty or not a path, or the options are not a dict.
    """

    reads_once: ClassVar = True

    path: StrPath
    options: Mapping[str, str] = field(default_factory=dict)
    _app: str | None = field(default=None, init=False, compare=False, repr=False)
    _committed: int = field(default=-1, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        folder = path_text(self.path, "DeltaSink: path", 'Give a folder, e.g. path="results".')
        object.__setattr__(self, "path", folder.rstrip("/") or folder)
        if not isinstance(self.options, Mapping):
            raise ConfigError(
                f"DeltaSink: options is {self.options!r:.80}, it must be a dict\n\n"
                'Give options of Delta\'s writer, e.g. options={"mergeSchema": "true"}.'
            )

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Take the id of the checkpoint, and look which of its epochs the table has.

        Raises:
            ConfigError: the session has no Delta, or the checkpoint was rolled back: the table has
                an epoch that it does not know.
        """
        spark = current_session()
        check_package(spark, "delta", str(self.path))
        committed = _newest_version(spark, str(self.path), owner)
        known = -1 if newest_epoch is None else newest_epoch
        if committed > known:
            end = "its start" if newest_epoch is None else f"epoch {newest_epoch}"
            raise ConfigError(
                f"{self.path} has epoch {committed} of this checkpoint, which ends at {end}: the "
                "checkpoint was rolled back, and rows of the epochs between would be left out\n\n"
                "Restore the table to the version before these epochs (RESTORE TABLE), or write to "
                "another table."
            )
        object.__setattr__(self, "_app", owner)
        object.__setattr__(self, "_committed", committed)

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Commit the rows of an epoch, unless the table has the epoch already."""
        if self._app is None:
            raise ExecutionError(
                "DeltaSink: write was called before open\n\nOpen it with the id of a checkpoint."
            )
        if epoch <= self._committed:
            # Its rows are still to be computed and counted.
            frame.write.format("noop").mode("overwrite").save()
            return
        transaction = {"txnAppId": self._app, "txnVersion": str(epoch)}
        writer = frame.write.format("delta").options(**self.options).options(**transaction)
        writer.mode("append").save(str(self.path))


def make_delta_sink(config: SinkConfig) -> DeltaSink:
    """Return the sink of a section of a pipeline file."""
    assert config.path is not None, "checked with the pipeline file: delta has a path"
    return DeltaSink(path=config.path, options=dict(config.options))


def _newest_version(spark: SparkSession, path: str, app: str) -> int:
    """Return the newest version of an application that a table has, -1 if it has none."""
    jvm: Any = spark._jvm
    log: Any = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    nothing = jvm.scala.Option.empty()
    versions = log.update(False, nothing, nothing).transactions()
    return int(versions.apply(app)) if versions.contains(app) else -1
