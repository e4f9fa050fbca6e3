"""Every file of every kept manifest is checked."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.inspection import verify as verify_module
from tidegate.inspection.verify import verify
from tidegate.state.manifest import Tables
from tidegate.state.reader import StateReader

from .checkpoints import TUMBLING, put_clicks, put_state

PART = "tidegate/segments/0-aa-batch/part-0.parquet"


def put_checksums(part: Path, chunk: int = 512) -> None:
    """Write the checksums of a file as Hadoop's local file system does."""
    data = part.read_bytes()
    sums = (zlib.crc32(data[place : place + chunk]) for place in range(0, len(data), chunk))
    text = b"crc\0" + chunk.to_bytes(4, "big") + b"".join(sum_.to_bytes(4, "big") for sum_ in sums)
    part.with_name(f".{part.name}.crc").write_bytes(text)


def flip(part: Path, place: int) -> None:
    data = bytearray(part.read_bytes())
    data[place] ^= 1
    part.write_bytes(data)


def test_a_sound_checkpoint_has_no_faults(tmp_path: Path) -> None:
    put_clicks(tmp_path)
    put_checksums(tmp_path / PART)
    found = verify(StateReader(tmp_path))
    assert found.faults == []
    assert (found.manifests, found.files, found.checksums) == (2, 2, 1)


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (lambda part: part.unlink(), "is missing"),
        (lambda part: part.write_bytes(part.read_bytes()[:-10]), "bytes instead of"),
        (lambda part: flip(part, 600), "differs from its checksum at byte 512"),
    ],
)
def test_a_fault_is_one_line_for_all_epochs_that_name_the_file(
    harm: Callable[[Path], None], fault: str, tmp_path: Path
) -> None:
    put_clicks(tmp_path)
    put_checksums(tmp_path / PART)
    harm(tmp_path / PART)
    (line,) = verify(StateReader(tmp_path)).faults
    assert line.startswith("epochs 0 to 1: 0-aa-batch/part-0.parquet ")
    assert fault in line


def test_a_file_without_checksums_is_read(tmp_path: Path) -> None:
    put_clicks(tmp_path)
    part = tmp_path / PART
    part.write_bytes(bytes(part.stat().st_size))
    (line,) = verify(StateReader(tmp_path)).faults
    assert "part-0.parquet cannot be read: " in line


def test_a_segment_with_fewer_rows_than_windows_need_is_a_fault(tmp_path: Path) -> None:
    newest = put_clicks(tmp_path)
    first, second = newest.tables.windows
    more = Tables(windows=(first, replace(second, rows=9)))
    put_state(tmp_path, TUMBLING, more, epoch=2)
    assert verify(StateReader(tmp_path)).faults == ["epoch 2: 1-aa-batch has 2 rows instead of 9"]


def test_manifests_and_the_plan_are_checked_too(tmp_path: Path) -> None:
    put_clicks(tmp_path)
    (tmp_path / "tidegate/manifests/0.json").write_text("{")
    (tmp_path / "tidegate/plan.json").unlink()
    manifest, plan = verify(StateReader(tmp_path)).faults
    assert "plan.json cannot be read" in plan
    assert manifest.startswith("epoch 0: ")
    assert "is not a valid manifest" in manifest


def test_what_a_running_query_has_deleted_meanwhile_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_clicks(tmp_path)
    checks = verify_module._fault

    def checked(path: Path, *others: Any) -> str | None:
        """The query cleans up while the first file is checked."""
        (tmp_path / "tidegate/manifests/0.json").unlink(missing_ok=True)
        (tmp_path / "tidegate/manifests/1.json").unlink(missing_ok=True)
        path.unlink()
        return checks(path, *others)

    monkeypatch.setattr(verify_module, "_fault", checked)
    put_state(tmp_path, TUMBLING, Tables(), epoch=2)
    assert verify(StateReader(tmp_path)).faults == []
