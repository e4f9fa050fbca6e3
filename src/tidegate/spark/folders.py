"""A folder on any file system that Spark reaches: the few operations that sinks need.

On a local disk they use Python, because Hadoop starts a process for many of them.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from tidegate.paths import link_or_rename
from tidegate.spark.files import create_conditionally, creates_conditionally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# File systems that rename a folder atomically, whatever is in it.
RENAMING_SCHEMES = ("file", "hdfs", "viewfs")


class Folder(Protocol):
    """A folder; names are relative to it, with ``/`` between their parts."""

    @property
    def renames(self) -> bool:
        """Whether a folder in it can be renamed atomically."""

    def names(self, below: str = "") -> list[str]:
        """Return the names of what is in it, or in a folder in it; nothing if it does not exist."""

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""

    def put_if_absent(self, name: str, text: str) -> bool:
        """Write a file unless one of this name exists; return whether it was written."""

    def put_file_if_absent(self, name: str, target: str) -> bool:
        """Rename a file to ``target`` unless that exists; return whether it was renamed."""

    def replace(self, name: str, target: str) -> None:
        """Rename a folder to ``target``, replacing what is there."""

    def delete(self, name: str) -> None:
        """Delete a file or folder with everything in it; it need not exist."""

    def sweep(self, name: str, *, older_than_s: float) -> None:
        """Delete what is old in a folder, as far as possible, and the folder itself if empty."""

    def delete_if_empty(self, name: str) -> None:
        """Delete a folder if it is empty."""


def open_folder(spark: SparkSession, path: str) -> Folder:
    """Return a folder by its path, which is taken literally; it need not exist."""
    jvm: Any = spark._jvm
    there = jvm.org.apache.hadoop.fs.Path(path)
    files = there.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    scheme = files.getUri().getScheme()
    if scheme == "file":
        return LocalFolder(Path(files.makeQualified(there).toUri().getPath()))
    return HadoopFolder(files, there, renames=scheme in RENAMING_SCHEMES)


class LocalFolder:
    """A folder on the driver's disk."""

    renames = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, below: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._path / below))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> str | None:
        try:
            return (self._path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def put_if_absent(self, name: str, text: str) -> bool:
        self._path.mkdir(parents=True, exist_ok=True)
        draft = self._path / f"_{uuid4().hex}"
        draft.write_text(text, encoding="utf-8")
        try:
            link_or_rename(draft, self._path / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def put_file_if_absent(self, name: str, target: str) -> bool:
        try:
            link_or_rename(self._path / name, self._path / target)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, target: str) -> None:
        source, place = self._path / name, self._path / target
        try:
            os.rename(source, place)
        except OSError:
            # First move away what an earlier attempt wrote.
            if not place.is_dir():
                raise
            before = source.with_name(f"{source.name}-before")
            os.rename(place, before)
            os.rename(source, place)
            shutil.rmtree(before)

    def delete(self, name: str) -> None:
        path = self._path / name
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            return
        # Move it away atomically, because another process may be writing there.
        aside = path.with_name(f"_{path.name}-{uuid4().hex}")
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return
        shutil.rmtree(aside, ignore_errors=True)

    def sweep(self, name: str, *, older_than_s: float) -> None:
        with suppress(OSError), os.scandir(self._path / name) as found:
            for each in found:
                with suppress(OSError):
                    if time.time() - each.stat().st_mtime > older_than_s:
                        shutil.rmtree(each.path, ignore_errors=True)
        self.delete_if_empty(name)

    def delete_if_empty(self, name: str) -> None:
        try:
            os.rmdir(self._path / name)
        except OSError:
            return


class HadoopFolder:
    """A folder on any other file system, through Hadoop."""

    def __init__(self, files: Any, path: Any, *, renames: bool) -> None:  # noqa: ANN401 - JVM objects
        self._files, self._path, self.renames = files, path, renames

    def names(self, below: str = "") -> list[str]:
        path = self._at(below) if below else self._path
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def read(self, name: str) -> str | None:
        path = self._at(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def put_if_absent(self, name: str, text: str) -> bool:
        path = self._at(name)
        if self._files.exists(path):
            return False
        if creates_conditionally(self._files, path):
            try:
                create_conditionally(self._files, path, text)
            except Py4JJavaError:
                if self._files.exists(path):
                    return False
                raise
            return True
        # Where renames are atomic, write aside and rename; objects appear atomically anyway.
        draft = self._at(f"_{uuid4().hex}") if self.renames else path
        try:
            stream = self._files.create(draft, False)
        except Py4JJavaError:
            if self._files.exists(path):
                return False
            raise
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if draft is path or self._files.rename(draft, path):
            return True
        self._files.delete(draft, True)
        if not self._files.exists(path):
            raise OSError(f"{path} cannot be written")
        return False

    def put_file_if_absent(self, name: str, target: str) -> bool:
        path = self._at(target)
        if self._files.exists(path):
            return False
        if not self._files.rename(self._at(name), path):
            raise OSError(f"{self._at(name)} cannot be renamed to {target}")
        return True

    def replace(self, name: str, target: str) -> None:
        self.delete(target)
        if not self._files.rename(self._at(name), self._at(target)):
            raise OSError(f"{self._at(name)} cannot be renamed to {target}")

    def delete(self, name: str) -> None:
        self._files.delete(self._at(name), True)

    def sweep(self, name: str, *, older_than_s: float) -> None:
        with suppress(Py4JJavaError):
            if self._files.exists(self._at(name)):
                for status in self._files.listStatus(self._at(name)):
                    if time.time() - status.getModificationTime() / 1_000 > older_than_s:
                        self._files.delete(status.getPath(), True)
            self.delete_if_empty(name)

    def delete_if_empty(self, name: str) -> None:
        path = self._at(name)
        if self._files.exists(path) and not self._files.listStatus(path):
            self._files.delete(path, True)

    def _at(self, name: str) -> Any:  # noqa: ANN401 - a JVM object
        path = self._path
        for part in name.split("/"):
            path = path.suffix(f"/{part}")
        return path
