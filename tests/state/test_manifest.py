"""Manifests: what is written is read, and what cannot be read is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.errors import StateError
from tidegate.metrics.report import Counts
from tidegate.state.manifest import Manifest, StateFile, Tables
from tidegate.state.reader import StateReader
from tidegate.state.shard_map import Shard
from tidegate.state.watermark import WatermarkState

from .manifests import manifest, segment

# A manifest as version 0.1.0 wrote it.
VERSION_2 = {
    "version": 2,
    "epoch": 3,
    "batch_id": 3,
    "fingerprint": {"format": "1", "window": 'tumbling size="10s" offset="0s"'},
    "plan_id": "48335b456136025dc0292f159e394929",
    "clock_us": 1_767_225_600_000_000,
    "watermark": {"shards": {"": {"event_time_us": 5, "clock_us": 6}}, "watermark_us": 5},
    "bound_us": 5,
    "segments": [{"name": "3", "level": 0, "first_us": 0, "last_us": 0, "rows": 1, "windows": 0}],
    "totals": {"rows_in": 1, "accumulated": 1},
}


def test_what_is_written_is_read() -> None:
    file = StateFile(name="part-0.parquet", bytes=12)
    written = manifest(
        7,
        tables=Tables(windows=(segment("7-aa-batch", file),), log=(segment("6-aa-log", file),)),
        watermark=WatermarkState(shards={"": Shard(event_time_us=1, clock_us=2)}, watermark_us=1),
        bound_us=-5,
        schema={"_pane": "bigint", "_k0": "decimal(10,2)"},
        totals=Counts(rows_in=3, late=1),
    )
    assert Manifest.from_json(written.to_json(), path="7.json") == written


def test_a_checkpoint_of_the_version_before_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = tmp_path / "tidegate" / "manifests"
    folder.mkdir(parents=True)
    (folder / "3.json").write_text(json.dumps(VERSION_2))
    with pytest.raises(StateError) as error:
        StateReader(tmp_path).manifest()
    assert str(error.value) == (
        f"{folder}/3.json has state version 2, but this release reads version 3\n\n"
        "Continue with the release that wrote it, or use that release to end the query with a "
        "drain, which emits every open window, and then start this release with a new checkpoint."
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 3}', '{"version": 3, "tables": 5, "totals": {}}']
)
def test_a_file_that_is_no_manifest_is_named(text: str) -> None:
    with pytest.raises(StateError, match=r"^/there/7\.json is not a valid manifest"):
        Manifest.from_json(text, path="/there/7.json")
