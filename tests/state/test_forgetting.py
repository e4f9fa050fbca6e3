"""Forgetting shards: a step between two batches, which changes nothing else."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.errors import StateError
from tidegate.state.batch import SparkBatch, is_replay
from tidegate.state.files import LocalFiles
from tidegate.state.forgetting import forget_shards
from tidegate.state.intents import Intent, StepKind, put_intent
from tidegate.state.manifest import Manifest
from tidegate.state.manifest_log import ManifestLog
from tidegate.state.reader import StateReader
from tidegate.state.shard_map import Shard
from tidegate.state.shards import ShardTable
from tidegate.state.watermark import WatermarkState
from tidegate.state.writers import check_claim, claim

from .manifests import SECOND, local_files, manifest

SHARDS = {
    "1a": Shard(event_time_us=5 * SECOND, clock_us=9, name="berlin"),
    "2b": Shard(event_time_us=50 * SECOND, clock_us=9, name="hamburg"),
    "3c": Shard(event_time_us=70 * SECOND, clock_us=9),
    "4d": Shard(event_time_us=80 * SECOND, clock_us=9, name="twice"),
    "5e": Shard(event_time_us=90 * SECOND, clock_us=9, name="twice"),
}


def checkpoint(folder: Path, shards: dict[str, Shard]) -> LocalFiles:
    """A checkpoint whose newest epoch, 4, is of batch 3: there was a drain."""
    files = local_files(folder)
    writer = claim(files, None).writer
    watermark = WatermarkState(shards=shards, watermark_us=5 * SECOND, by="city STRING")
    state = manifest(4, batch_id=3, watermark=watermark, writer=writer)
    first = replace(state, epoch=3, watermark=WatermarkState())
    table = ShardTable(files, lambda: "4-aa-shards").after(first, shards)
    state = replace(state, tables=replace(state.tables, shards=table))
    files.put_if_absent("manifests/4.json", state.to_json())
    return files


def forget(folder: Path, *values: str, stopped: bool = False) -> Manifest:
    files = LocalFiles(str(folder / "tidegate"))
    return forget_shards(files, str(folder), values, stopped=stopped).manifest


def tree(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_the_state_is_the_same_without_the_shards_and_the_batch_is_still_the_one_before(
    tmp_path: Path,
) -> None:
    checkpoint(tmp_path, SHARDS)
    before = StateReader(tmp_path).manifest()
    forget(tmp_path, "berlin", "NULL", "4d")
    after = StateReader(tmp_path).manifest()
    assert after.writer is not None
    assert before.writer is not None
    left = {id: SHARDS[id] for id in ("2b", "5e")}
    watermark = replace(before.watermark, shards=left)
    assert after == replace(before, epoch=5, watermark=watermark, writer=after.writer)
    assert (after.writer.term, after.watermark.watermark_us) == (2, 5 * SECOND)
    # Spark had not noted that batch 3 was done: it is a replay still, and 4 is the next.
    facts = {"clock_us": 0, "query_id": "q"}
    assert is_replay(SparkBatch(batch_id=3, offsets_hash="o4", **facts), after, "c")
    assert not is_replay(SparkBatch(batch_id=4, offsets_hash="o5", **facts), after, "c")


@pytest.mark.parametrize("many", [60, 300])
def test_a_table_of_shards_gets_what_has_changed(tmp_path: Path, many: int) -> None:
    shards = {f"{n:04x}": Shard(event_time_us=n, clock_us=0, name=str(n)) for n in range(many)}
    checkpoint(tmp_path, shards)
    done = forget(tmp_path, *(str(n) for n in range(20)))
    rows = [segment.rows for segment in done.tables.shards]
    # Up to 50 shards are in the manifest itself.
    assert rows == ([] if many == 60 else [300, 20])
    expected = {id: shard for id, shard in shards.items() if int(id, 16) >= 20}
    assert StateReader(tmp_path).manifest().watermark.shards == expected


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("berlinn", "has no shard berlinn\n\nDid you mean berlin? --shards lists them."),
        ("rome", "has no shard rome\n\nIt has NULL, berlin, hamburg, twice and twice."),
        ("twice", "has 2 shards twice, which differ only in how they are written\n\nGive the id"),
    ],
)
def test_a_shard_that_is_not_there_is_refused_and_nothing_changes(
    tmp_path: Path, value: str, told: str
) -> None:
    checkpoint(tmp_path, SHARDS)
    before = tree(tmp_path)
    with pytest.raises(StateError) as error:
        forget(tmp_path, "hamburg", value)
    assert told in str(error.value)
    assert tree(tmp_path) == before


def test_without_shards_there_is_none_to_forget(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"": Shard(event_time_us=1, clock_us=1)})
    with pytest.raises(StateError, match="has no shards: the whole stream has one watermark"):
        forget(tmp_path, "")
    with pytest.raises(StateError, match="holds no state"):
        forget(tmp_path / "none", "berlin")


@pytest.mark.parametrize(
    ("kind", "told"), [(StepKind.BATCH, "batch 4 of"), (StepKind.DRAIN, "a drain of")]
)
def test_a_step_whose_results_may_be_out_comes_first(
    tmp_path: Path, kind: StepKind, told: str
) -> None:
    files = checkpoint(tmp_path, SHARDS)
    put_intent(files, Intent(epoch=5, kind=kind, batch_id=4), term=1)
    before = tree(tmp_path)
    with pytest.raises(StateError, match=f"{told} .* has not been committed, but its results"):
        forget(tmp_path, "berlin")
    assert tree(tmp_path) == before


def test_while_a_query_runs_it_is_refused(tmp_path: Path) -> None:
    files = checkpoint(tmp_path, SHARDS)
    name = tmp_path / "tidegate/writers/1.json"
    # The parent of this process runs, and has started before the claim.
    name.write_text(name.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {os.getppid()}'))
    with pytest.raises(StateError, match="a query runs on checkpoint"):
        forget(tmp_path, "berlin")
    name.write_text(name.read_text().replace(socket.gethostname(), "elsewhere"))
    with pytest.raises(StateError, match="ran on another machine"):
        forget(tmp_path, "berlin")
    assert ManifestLog(files).epochs() == [4]
    assert forget(tmp_path, "berlin", stopped=True).epoch == 5


def test_a_query_that_runs_nevertheless_is_displaced(tmp_path: Path) -> None:
    files = checkpoint(tmp_path, SHARDS)
    mine = claim(files, None).writer
    forget(tmp_path, "berlin")
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        check_claim(files, mine)


def test_a_query_that_commits_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = checkpoint(tmp_path, SHARDS)
    other = manifest(5, batch_id=4).to_json()

    def commits_meanwhile(*_: object) -> None:
        files.put_if_absent("manifests/5.json", other)

    monkeypatch.setattr("tidegate.state.forgetting.check_claim", commits_meanwhile)
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        forget(tmp_path, "berlin")
    assert files.read("manifests/5.json") == other
