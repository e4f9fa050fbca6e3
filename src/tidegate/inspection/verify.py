"""Checks every file that the kept manifests name: size, checksum, and the rows of its footer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.manifest import Segment, StateFile
from tidegate.state.reader import StateReader

# The files with which Hadoop's local file system guards each of its files: a header, then the CRC32
# of each chunk.
_CRC_MAGIC = b"crc\0"
_CRC_HEADER = 8


@dataclass(slots=True)
class Verified:
    """What a check has found.

    Attributes:
        faults: a line for each.
        manifests: how many were checked.
        files, bytes: how many were checked; a file that several manifests name counts once.
        checksums: how many files have a checksum.
        counted: whether row counts could be checked, for which pyarrow is needed.
    """

    faults: list[str] = field(default_factory=list)
    manifests: int = 0
    files: int = 0
    bytes: int = 0
    checksums: int = 0
    counted: bool = field(default_factory=lambda: find_spec("pyarrow") is not None)


def verify(reader: StateReader) -> Verified:
    """Check the plan, the kept manifests, and every file that they name.

    What a running query has deleted meanwhile, with its epoch, is no fault. Elsewhere than on a
    local disk only the sizes of files are checked.

    Raises:
        StateError: the manifests cannot be listed.
    """
    result = Verified()
    result.counted = result.counted and reader.is_local
    faults: list[tuple[list[int], str]] = []
    epochs_of: dict[Segment, list[int]] = {}
    for epoch in reader.epochs():
        result.manifests += 1
        try:
            manifest = reader.manifest(epoch)
        except StateError as error:
            faults.append(([epoch], _line(error)))
            continue
        for segment in manifest.segments:
            epochs_of.setdefault(segment, []).append(epoch)
    checked: dict[Path, str | None] = {}
    for segment, epochs in epochs_of.items():
        if reader.is_local:
            found = list(_faults(Path(reader.checkpoint), segment, checked, result))
        else:
            found = list(_listed(reader, segment, result))
        faults += [(epochs, fault) for fault in found]
    kept = set(reader.epochs())
    for epochs, fault in faults:
        left = [epoch for epoch in epochs if epoch in kept]
        if left:
            result.faults.append(f"{_epochs(left)}: {fault}")
    try:
        reader.plan()
    except StateError as error:
        result.faults.append(_line(error))
    return result


def _faults(
    checkpoint: Path, segment: Segment, checked: dict[Path, str | None], result: Verified
) -> Iterator[str]:
    """Yield what is wrong with a segment; ``checked`` has the files of the others."""
    folder = checkpoint / "tidegate" / SEGMENTS / segment.name
    sound = True
    for file in segment.files:
        path = folder / file.name
        if path not in checked:
            checked[path] = _fault(path, file, result)
        if checked[path] is not None:
            sound = False
            yield f"{segment.name}/{file.name} {checked[path]}"
    if sound and result.counted and all(f.name.endswith(".parquet") for f in segment.files):
        parquet = import_module("pyarrow.parquet")
        rows = sum(parquet.read_metadata(folder / file.name).num_rows for file in segment.files)
        if rows < segment.rows:
            yield f"{segment.name} has {rows:,} rows instead of {segment.rows:,}"


def _listed(reader: StateReader, segment: Segment, result: Verified) -> Iterator[str]:
    """Yield the first fault of a segment by the listing of its folder."""
    result.files += len(segment.files)
    result.bytes += segment.bytes
    damage = reader.damage((segment,))
    if damage is not None:
        yield f"{segment.name}/{damage.file} {damage.what}"


def _fault(path: Path, file: StateFile, result: Verified) -> str | None:
    """Return what is wrong with a file, None if nothing is."""
    result.files += 1
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return f"has {size:,} bytes instead of {file.bytes:,}"
        result.bytes += size
        sums = path.with_name(f".{path.name}.crc")
        if sums.exists():
            result.checksums += 1
            return _differs(path, sums.read_bytes())
        if result.counted and path.suffix == ".parquet":
            import_module("pyarrow.parquet").ParquetFile(path).read()
    except FileNotFoundError:
        return "is missing"
    except Exception as error:  # whatever pyarrow says of bytes that are not Parquet
        return f"cannot be read: {_line(error)}"
    return None


def _differs(path: Path, sums: bytes) -> str | None:
    """Return where a file differs from its checksums, None if nowhere."""
    chunk = int.from_bytes(sums[len(_CRC_MAGIC) : _CRC_HEADER], "big")
    if not sums.startswith(_CRC_MAGIC) or not chunk:
        return f"has checksums that cannot be read (.{path.name}.crc)"
    with path.open("rb") as stream:
        for place in range(_CRC_HEADER, len(sums), 4):
            data = stream.read(chunk)
            if zlib.crc32(data) != int.from_bytes(sums[place : place + 4], "big"):
                return f"differs from its checksum at byte {stream.tell() - len(data):,}"
        if stream.read(1):
            return "is longer than its checksums"
    return None


def _epochs(epochs: list[int]) -> str:
    first, last = min(epochs), max(epochs)
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"


def _line(error: Exception) -> str:
    """The first line of a message."""
    return str(error).split("\n", 1)[0]
