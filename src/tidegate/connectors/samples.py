"""Checks encoding and line breaks of text files on this machine before Spark reads them.

Spark silently replaces bytes that it cannot decode, and splits records at every line break. Only
the beginning of the first files is checked.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from glob import glob
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from tidegate.connectors.places import is_pattern
from tidegate.errors import ConfigError
from tidegate.paths import local_path

# Maps the name and value of a reader option to how the user writes it.
Advice: TypeAlias = "Callable[[str, str], str]"

_HIDDEN = ("_", ".")
_TEXT_SUFFIXES = ("", ".gz", ".csv", ".json", ".jsonl", ".ndjson", ".tsv", ".txt")

MOST_FILES = 20
MOST_BYTES = 1 << 20

# The byte order marks of encodings that Spark does not recognize by itself.
_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_WIDE = tuple(mark for mark, _ in _MARKS)
_UTF8_MARK = b"\xef\xbb\xbf"


def check_samples(file_format: str, path: str, options: Mapping[str, str], advise: Advice) -> None:
    """Refuse text files that Spark would read incorrectly; missing files are not reported here.

    Args:
        file_format: csv or json.
        path: a file, a folder or a pattern.
        options: options of Spark's reader, by lower-case names.
        advise: returns how the user writes an option.

    Raises:
        ConfigError: the encoding or the line breaks need an option.
    """
    encoded = bool(options.keys() & {"encoding", "charset"})
    one_line = options.get("multiline", "false").lower() != "true"
    for file in _files(path):
        sample = _start_of(file)
        if not encoded or (one_line and sample.startswith(_WIDE)):
            _check_encoding(file, sample, advise)
        if not one_line:
            continue
        text = sample.removeprefix(_UTF8_MARK).decode("utf-8", "replace")
        if file_format == "csv" and len(_separator(options)) == 1:
            _check_csv(file, text, options, advise)
        if file_format == "json" and len(sample) < MOST_BYTES:
            _check_json(file, text, advise)


def _files(path: str) -> Iterator[Path]:
    """Yield the first text files of a path that is on this machine."""
    local = local_path(path)
    if local is None:
        return
    roots = sorted(glob(str(local))) if is_pattern(path) else [str(local)]
    every = (file for root in roots for file in _below(Path(root)))
    yield from islice((file for file in every if file.suffix in _TEXT_SUFFIXES), MOST_FILES)


def _below(root: Path) -> Iterator[Path]:
    """Yield a file itself, or the files in a folder that Spark would read."""
    if root.is_file():
        yield root
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith(_HIDDEN))


def _start_of(file: Path) -> bytes:
    try:
        opened = gzip.open(file) if file.suffix == ".gz" else file.open("rb")
        with opened as stream:
            return stream.read(MOST_BYTES)
    except (OSError, EOFError):
        return b""  # Spark's error is clearer


def _check_encoding(file: Path, sample: bytes, advise: Advice) -> None:
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            # Spark splits lines at bytes, so it has to parse the file as a whole.
            raise ConfigError(
                f"{file} is in {encoding}, by its first bytes\n\nMake it UTF-8, or, for CSV, add "
                f"{advise('encoding', encoding)} and {advise('multiLine', 'true')}."
            )
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(sample) - 4 and len(sample) == MOST_BYTES:
            return  # the sample ends within a character
        line = sample.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{file}, line {line}: byte 0x{sample[error.start]:02x} is not UTF-8\n\n"
            f"Name the encoding of the file, e.g. {advise('encoding', 'ISO-8859-1')}."
        ) from None


def _separator(options: Mapping[str, str]) -> str:
    return options.get("sep", options.get("delimiter", ","))


def _check_csv(file: Path, text: str, options: Mapping[str, str], advise: Advice) -> None:
    """Refuse a quoted value that continues in the next line."""
    quote = options.get("quote", '"')
    if len(quote) != 1 or quote == "\0":
        return
    # A field longer than the limit proves nothing.
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=_separator(options), quotechar=quote
    )
    before = 0
    try:
        for record in reader:
            if any("\n" in value or "\r" in value for value in record):
                raise ConfigError(
                    f"{file}, line {before + 1}: a quoted value continues in the next line\n\n"
                    f"Add {advise('multiLine', 'true')}, or set another quote character if this "
                    "one is ordinary text."
                )
            before = reader.line_num
    except csv.Error:
        return


def _check_json(file: Path, text: str, advise: Advice) -> None:
    """Refuse a document of several lines, because Spark reads one record per line."""
    first = text.lstrip().partition("\n")[0].strip()
    if not first or _is_json(first) or not _is_json(text):
        return
    raise ConfigError(
        f"{file} is one JSON document of several lines, but one record per line is expected\n\n"
        f"Add {advise('multiLine', 'true')}."
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
