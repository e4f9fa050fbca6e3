"""Manifests and segments for tests, as the engine would write them."""

from __future__ import annotations

from pathlib import Path

from tidegate.state.files import LocalFiles
from tidegate.state.manifest import Manifest, Segment, StateFile, Tables, Writer

SECOND = 1_000_000
WRITER = Writer(id="aa", term=1, host="left", pid=1, started="2026-01-01T00:00:00+00:00")


def local_files(folder: Path) -> LocalFiles:
    """The files of a checkpoint, its folders made as a claim makes them."""
    files = LocalFiles(str(folder / "tidegate"))
    for name in ("manifests", "intents", "writers", "segments"):
        files.make_folder(name)
    return files


def put_part(files: LocalFiles, name: str) -> None:
    """Write a file of a segment, as Spark does."""
    files.make_folder(f"segments/{name}")
    files.put_if_absent(f"segments/{name}/part-0.parquet", "rows")


def segment(name: str, *files: StateFile) -> Segment:
    return Segment(name=name, first_us=0, last_us=10 * SECOND, rows=7, files=files)


def manifest(epoch: int, *segments: Segment, **others: object) -> Manifest:
    facts: dict[str, object] = {
        "epoch": epoch,
        "checkpoint_id": "c0ffee",
        "batch_id": epoch,
        "query_id": "q",
        "offsets_hash": f"o{epoch}",
        "fingerprint": {"window": "tumbling"},
        "plan_id": "p",
        "writer": WRITER,
        "tables": Tables(windows=segments),
    }
    return Manifest(**{**facts, **others})
