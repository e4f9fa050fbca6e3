"""Writing files on a local disk without starting a process for each.

Without its native library Hadoop starts ``chmod`` or ``readlink`` for each file and folder that it
creates on a local disk, 5 ms each; a small batch would spend much of its time there.

* Spark has two checkpoint file managers. The default one starts ten processes for each file; the
  other one, which renames through the file system, starts two. On a local disk both rename a
  finished file, so we use the cheaper one there, for Spark's own logs and for ours.
* The folders that each of Spark's writes would create are created beforehand, with the same
  permissions.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.spark.failures import is_of_spark, reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_BY_FILE_SYSTEM = f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"

# The folder that Spark's committer creates before a task writes its files.
_PENDING = "_temporary/0/_temporary"


def write_folder(frame: DataFrame, folder: str, *, format: str, options: Mapping[str, str]) -> None:
    """Write a frame to a folder, replacing its content.

    Args:
        frame: any frame.
        folder: a Hadoop path.
        format: a format of Spark's writers.
        options: options of the writer.
    """
    writer = frame.write.format(format).options(**options)
    local = _local_path(frame.sparkSession, folder)
    # If the folder exists, left by an earlier attempt, Spark replaces it.
    if local is None or os.path.lexists(local) or not _make_folders(frame.sparkSession, local):
        writer.mode("overwrite").save(folder)
    else:
        writer.mode("append").save(folder)


def write_new_folder(
    frame: DataFrame, folder: str, *, local: str | None, format: str, options: Mapping[str, str]
) -> None:
    """Write a frame to a new folder.

    Args:
        frame: any frame.
        folder: a Hadoop path that nobody else uses.
        local: the same folder on the driver's disk, None if it is elsewhere.
        format: a format of Spark's writers.
        options: options of the writer.
    """
    if local is not None:
        _make_folders(frame.sparkSession, local)
    frame.write.format(format).options(**options).mode("append").save(folder)


def qualified(spark: SparkSession, folder: str) -> tuple[str, str]:
    """Return the scheme of a folder's file system and the absolute path on it.

    ``file`` means that Python reaches the same path.
    """
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    uri = path.getFileSystem(conf).makeQualified(path).toUri()
    scheme = str(uri.getScheme())
    if scheme == "file" and os.name != "posix":
        scheme = "hadoop"  # Python cannot open this path.
    return scheme, str(uri.getPath())


def _local_path(spark: SparkSession, folder: str) -> str | None:
    """The path of a folder on the driver's disk, None if it is elsewhere or relative."""
    found = re.fullmatch(r"(file:(?://)?)?(/(?!/).*)", folder)
    if found is None or os.name != "posix":
        return None
    # A path without a scheme is on the default file system.
    if not found[1] and not is_local_by_default(spark):
        return None
    # Hadoop too resolves ``..`` textually; both paths must mean the same folder.
    return os.path.normpath(found[2])


def is_local_by_default(spark: SparkSession) -> bool:
    """Whether a path without a scheme is on the driver's disk."""
    return _hadoop(spark, "fs.defaultFS").startswith("file:")


def unreachable(spark: SparkSession, folder: str) -> str | None:
    """Return why Spark has no file system for a folder, None if it does."""
    jvm: Any = spark._jvm
    try:
        path = jvm.org.apache.hadoop.fs.Path(folder)
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    except Exception as error:
        if is_of_spark(error):
            return reason_of(error)
        raise
    return None


def _make_folders(spark: SparkSession, folder: str) -> bool:
    """Create a folder, and in it what Spark's committer would create.

    Returns:
        False if Spark should create them: they cannot be created here (Spark's error is clearer),
        or the umask is symbolic.
    """
    umask = _hadoop(spark, "fs.permissions.umask-mode")
    if not re.fullmatch("[0-7]{3,4}", umask):
        return False
    rights = 0o777 & ~int(umask, 8)
    missing = [os.path.join(folder, _PENDING)]
    while not os.path.isdir(parent := os.path.dirname(missing[-1])):
        missing.append(parent)
    try:
        for path in reversed(missing):
            os.mkdir(path)
            # As Hadoop does: its umask takes precedence over the process's. An inherited group
            # (setgid) is kept.
            os.chmod(path, rights | os.stat(path).st_mode & stat.S_ISGID)
    except OSError:
        return False
    return True


def _hadoop(spark: SparkSession, setting: str) -> str:
    value: str | None = spark.sparkContext._jsc.hadoopConfiguration().get(setting)
    return value or ""


def file_manager(spark: SparkSession, folder: str) -> Any:  # noqa: ANN401 - a JVM object
    """Return Spark's ``CheckpointFileManager`` of a folder."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    if _has_cheaper(spark, folder):
        conf.set(_SETTING, _BY_FILE_SYSTEM)
    path = jvm.org.apache.hadoop.fs.Path(folder)
    streaming = jvm.org.apache.spark.sql.execution.streaming
    return streaming.checkpointing.CheckpointFileManager.create(path, conf)


# Whether a file system can refuse a complete file because there is one of its name by then.
_CONDITIONAL = "fs.option.create.conditional.overwrite"


def creates_conditionally(files: Any, path: Any) -> bool:  # noqa: ANN401 - JVM objects
    """Return whether a file system can create a file only if there is none of its name.

    S3 can, by a condition of the request (``If-None-Match``); it has no rename that could do it.

    Args:
        files: Hadoop's ``FileSystem``.
        path: a path on it.
    """
    return bool(files.hasPathCapability(path, _CONDITIONAL))


def create_conditionally(files: Any, path: Any, text: str) -> None:  # noqa: ANN401 - JVM objects
    """Create a file whole, or not at all if there is one of its name.

    Args:
        files: a ``FileSystem`` that ``creates_conditionally``.
        path: the path of the file.
        text: its content.

    Raises:
        Py4JJavaError: there is one (``FileAlreadyExistsException`` or
            ``RemoteFileChangedException``), or it cannot be written.
    """
    stream = files.createFile(path).must(_CONDITIONAL, True).build()
    try:
        stream.write(bytearray(text.encode()))
    except BaseException:
        stream.abort()
        raise
    stream.close()


def cheaper_files(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """Return the settings with which a new query writes its checkpoint at less cost.

    Spark reads them from the query's session while it creates the sources.
    """
    return {_SETTING: _BY_FILE_SYSTEM} if _has_cheaper(spark, checkpoint) else {}


def _has_cheaper(spark: SparkSession, folder: str) -> bool:
    """Whether the folder is on a local disk and the session does not set a file manager."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    chosen = conf.get(_SETTING)
    scheme = jvm.org.apache.hadoop.fs.Path(folder).getFileSystem(conf).getScheme()
    return scheme == "file" and chosen is None
