"""Which of Spark's two file managers writes a checkpoint.

Without Hadoop's native library Spark's default starts ten processes (``readlink``, ``chmod``) for
each file that it puts in place on a local disk: 40 ms, and a batch puts four files in place. The
other one, which renames by the file system itself, starts two. On a local disk both are the same
rename of a finished file, so there the cheaper one is taken, for Spark's own logs and for ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_BY_FILE_SYSTEM = f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"


def file_manager(spark: SparkSession, folder: str) -> Any:  # noqa: ANN401 - a JVM object
    """Return Spark's ``CheckpointFileManager`` of a folder."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    if _has_cheaper(spark, folder):
        conf.set(_SETTING, _BY_FILE_SYSTEM)
    path = jvm.org.apache.hadoop.fs.Path(folder)
    streaming = jvm.org.apache.spark.sql.execution.streaming
    return streaming.checkpointing.CheckpointFileManager.create(path, conf)


class CheaperFiles:
    """Lets a query that is about to start write its checkpoint the cheaper way.

    A query takes the settings of its session with it when it starts, but its sources take them only
    when its first batch is planned. ``restore`` gives the session its own setting back.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark = spark
        self._set = _has_cheaper(spark, checkpoint)
        if self._set:
            spark.conf.set(_SETTING, _BY_FILE_SYSTEM)

    def restore(self) -> None:
        """Unset what was set; a second call does nothing."""
        if self._set:
            self._spark.conf.unset(_SETTING)
            self._set = False


def _has_cheaper(spark: SparkSession, folder: str) -> bool:
    """Whether the folder is on a local disk, and no file manager was chosen for the session."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    chosen = conf.get(_SETTING)
    scheme = jvm.org.apache.hadoop.fs.Path(folder).getFileSystem(conf).getScheme()
    return scheme == "file" and chosen is None
