"""Paths as users give them: text or ``pathlib``, on this machine or where only Spark reaches."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias

from tidegate.errors import ConfigError
from tidegate.names import nearest

StrPath: TypeAlias = "str | os.PathLike[str]"

# File systems that Hadoop and the usual packages bring; others may come from a package too.
SCHEMES = (
    "abfs abfss dbfs file ftp gs har hdfs oss s3 s3a s3n swebhdfs viewfs wasb wasbs webhdfs"
).split()

# A scheme of one letter would be a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def path_text(value: object, name: str, mend: str) -> str:
    """Return a path as text.

    Args:
        value: what the user gave.
        name: the argument, for messages.
        mend: what to give instead, a full sentence.

    Raises:
        ConfigError: it is no path, or an empty one.
    """
    if value is None:
        raise ConfigError(f"{name} is missing\n\n{mend}")
    if not isinstance(value, (str, os.PathLike)):
        raise ConfigError(f"{name} is {value!r:.80}, it must be a path\n\n{mend}")
    text = os.fspath(value)
    if not isinstance(text, str):
        raise ConfigError(f"{name} is {value!r:.80}, it must be text\n\n{mend}")
    if not text.strip():
        raise ConfigError(f"{name} is empty\n\n{mend}")
    if "\0" in text:
        raise ConfigError(f"{name} is {text!r:.80}: a path has no NUL characters\n\n{mend}")
    found = _SCHEME.match(text)
    if found and found[1] != "file" and not isinstance(value, str):
        raise ConfigError(
            f"{name} is {value!r:.80}: pathlib leaves out a slash of a URL\n\n"
            f'Give the URL as text, e.g. {name}="{found[1]}://{text[found.end() :].lstrip("/")}".'
        )
    return text


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL; None for a plain path."""
    found = _SCHEME.match(path)
    return found[1] if found else None


def local_path(path: str) -> Path | None:
    """Return the place of a path on this machine's disk; None when it is somewhere else."""
    scheme = scheme_of(path)
    if scheme is None:
        return Path(path)
    if scheme != "file":
        return None
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def misspelt_scheme(path: str) -> tuple[str, str] | None:
    """Return what is wrong with the scheme of a path, and the mend, where it is a slip.

    A scheme that is unlike all known ones may be one of a package.
    """
    scheme = scheme_of(path)
    if scheme is None or scheme in SCHEMES:
        return None
    near = nearest(scheme, SCHEMES, cutoff=0.7)
    if near is None:
        return None
    return f"{scheme}: is not a file system", f"Did you mean {near}:?"


def obstacle(folder: Path) -> tuple[str, str] | None:
    """Return why a folder on this machine cannot be made or written, and the mend; None if it can.

    Nothing is made in order to find out.
    """
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        what = "a file" if place.is_file() else "not a folder"
        if place == folder:
            return f"{folder} is {what}", "Name a folder; one that is not there is made."
        return f"{place} is {what}, so it can hold no folder", "Name a folder under another one."
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written", "Allow writing to it, or name another folder."
    return None


def why_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file of text cannot be read, in a few words."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return (error.strerror or str(error)).lower()


def link_or_rename(source: Path, target: Path) -> None:
    """Give a finished file its name, unless there is a file of that name.

    Raises:
        FileExistsError: there is one; it stays as it is.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links (FAT, some network and container mounts). There a rename
        # has to do, and two writers could pass the check before it at the same moment.
        if target.exists():
            raise FileExistsError(str(target)) from None
        source.rename(target)
