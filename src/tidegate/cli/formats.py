"""Finds the format of a file from its name."""

from __future__ import annotations

from pathlib import Path

# Formats by file extension; compressed files have another extension after it.
ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


def format_of(path: str) -> str | None:
    """Return the format of a file by its name, or that of the first known file in a folder."""
    place = Path(path)
    if place.is_dir() and place.suffix not in ENDINGS:
        place = next((file for file in sorted(place.rglob("*")) if _ending(file) in ENDINGS), place)
    return ENDINGS.get(_ending(place))


def _ending(path: Path) -> str:
    name = path.with_suffix("") if path.suffix in COMPRESSED else path
    return name.suffix.lower()
