"""Our files in a checkpoint, on any file system that Spark reaches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidegate.spark.files import (
    create_conditionally,
    creates_conditionally,
    file_manager,
    qualified,
)
from tidegate.state.files import Entry, Files, LocalFiles, is_unfinished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def files_of(spark: SparkSession, root: str) -> Files:
    """Return the files below a folder; those on a local disk are read by Python, at once."""
    scheme, path = qualified(spark, root)
    return LocalFiles(path) if scheme == "file" else HadoopFiles(spark, root)


class HadoopFiles:
    """``Files`` over the ``CheckpointFileManager`` with which Spark writes its own checkpoints."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        jvm: Any = spark._jvm
        # Kept, because looking up a class by name takes 3 ms.
        self._new_path: Any = jvm.org.apache.hadoop.fs.Path
        self._manager = file_manager(spark, root)
        path = self._new_path(root)
        self._files: Any = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self._is_conditional = creates_conditionally(self._files, path)

    def where(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str) -> str:
        with _as_os_error(self.where(name)):
            stream = self._manager.open(self._path(name))
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def entries(self, folder: str) -> list[Entry]:
        return [entry for entry in self._all(folder) if not entry.name.startswith((".", "_"))]

    def unfinished(self, folder: str) -> list[Entry]:
        return [entry for entry in self._all(folder) if is_unfinished(entry.name)]

    def _all(self, folder: str) -> list[Entry]:
        try:
            with _as_os_error(self.where(folder)):
                found = self._manager.list(self._path(folder))
        except FileNotFoundError:
            return []
        return [
            Entry(
                name=str(status.getPath().getName()),
                bytes=int(status.getLen()),
                modified_s=int(status.getModificationTime()) / 1000,
            )
            for status in found
        ]

    def make_folder(self, name: str) -> None:
        with _as_os_error(self.where(name)):
            self._manager.mkdirs(self._path(name))

    def put_if_absent(self, name: str, text: str) -> None:
        with _as_os_error(self.where(name)):
            if self._is_conditional:
                create_conditionally(self._files, self._path(name), text)
                return
            stream = self._manager.createAtomic(self._path(name), False)
            try:
                stream.write(bytearray(text.encode()))
            except BaseException:
                stream.cancel()
                raise
            stream.close()

    def delete(self, name: str) -> None:
        with _as_os_error(self.where(name)):
            # It is recursive, and the path need not exist.
            self._manager.delete(self._path(name))

    def _path(self, name: str) -> Any:  # noqa: ANN401 - a Hadoop Path behind py4j
        return self._new_path(self.where(name))


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    """Turn exceptions of Java into the corresponding ``OSError``."""
    try:
        yield
    except Py4JJavaError as error:
        java = error.java_exception
        kind = str(java.getClass().getName())
        told = f"{path}: {java}"
        if kind.endswith(("FileNotFoundException", "NoSuchFileException")):
            raise FileNotFoundError(told) from error
        if kind.endswith(("FileAlreadyExistsException", "RemoteFileChangedException")):
            raise FileExistsError(told) from error
        raise OSError(told) from error
