"""Rolling a checkpoint back to a kept epoch; Spark's files are written here as Spark does."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import StateError
from tidegate.state import rollback as module
from tidegate.state.batch import offsets_hash
from tidegate.state.files import LocalFiles
from tidegate.state.intents import Intent, StepKind, put_intent
from tidegate.state.manifest import StateFile
from tidegate.state.rollback import check_no_rollback, roll_back, rollback_of
from tidegate.state.source_log import cut_source_log
from tidegate.state.writers import check_claim, claim

from .manifests import local_files, manifest, put_part, segment

TICKS = "17"


def offsets_of(batch: int) -> tuple[str, str]:
    return json.dumps({"logOffset": batch}), TICKS


def put(path: Path, text: str) -> None:
    """Write a file with the checksums that Hadoop puts beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_text("crc")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Epochs 0 to 5; the query was killed in batch 6, which has an intent."""
    folder = tmp_path / "ckpt"
    files = local_files(folder)
    files.put_if_absent("plan.json", "{}")
    put(folder / "metadata", '{"id": "q"}')
    put(folder / "sources/1/0", "v1\n0")
    for batch in range(7):
        put(folder / f"sources/0/{batch}", f'v1\n{{"batchId": {batch}}}')
        put(folder / f"offsets/{batch}", "\n".join(["v1", "{}", *offsets_of(batch)]))
    writer = claim(files, None).writer
    for epoch in range(6):
        put(folder / f"commits/{epoch}", "v1\n{}")
        names = [f"{epoch}-aa-batch"] + ([f"{epoch - 1}-aa-batch"] if epoch else [])
        put_part(files, names[0])
        facts = {"offsets_hash": offsets_hash(offsets_of(epoch)), "writer": writer}
        segments = [segment(n, StateFile(name="part-0.parquet", bytes=4)) for n in names]
        text = manifest(epoch, *segments, **facts).to_json()
        files.put_if_absent(f"manifests/{epoch}.json", text)
    put_intent(files, Intent(epoch=6, kind=StepKind.BATCH, batch_id=6), term=1)
    return folder


def tree(folder: Path) -> set[str]:
    """All files but the claims, with those that a rollback has moved below ``away``."""
    names = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    moved = {n for n in names if n.startswith("tidegate/rolled_back/")}
    away = {f"away/{n.split('/', 3)[3]}" for n in moved}
    return {n for n in names - moved if not n.startswith("tidegate/writers")} | away


def state_of(checkpoint: Path) -> LocalFiles:
    return LocalFiles(str(checkpoint / "tidegate"))


def test_what_came_after_the_epoch_is_moved_away_and_nothing_is_deleted(checkpoint: Path) -> None:
    before = tree(checkpoint)
    done = roll_back(checkpoint, 3)
    kept, away = set(), set()
    for name in tree(checkpoint):
        (away if name.startswith("away/") else kept).add(name)
    later = {
        *(f"{folder}/{n}" for folder in ("offsets", "sources/0") for n in (4, 5, 6)),
        *(f"{folder}/.{n}.crc" for folder in ("offsets", "sources/0") for n in (4, 5, 6)),
        *(f"commits/{n}" for n in ("4", "5", ".4.crc", ".5.crc")),
        *(f"tidegate/manifests/{n}.json" for n in (4, 5)),
        *(f"tidegate/segments/{n}-aa-batch/part-0.parquet" for n in (4, 5)),
        "tidegate/intents/6-1.json",
    }
    assert kept == before - later
    assert away == {f"away/{n.removeprefix('tidegate/')}" for n in later} | {"away/rollback.json"}
    assert done.moved["offsets"] == 3
    assert (done.rollback.from_epoch, done.manifest.batch_id, done.notes) == (5, 3, [])


def test_wherever_it_is_interrupted_no_query_starts_and_the_same_command_finishes_it(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.copytree(checkpoint, checkpoint.with_name("whole"))
    roll_back(whole, 3)
    calls, replace = 0, os.replace

    def failing(*paths: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:  # each run moves one more file
            raise OSError("killed")
        replace(*paths)

    monkeypatch.setattr(module.os, "replace", failing)
    for _ in range(100):
        try:
            roll_back(checkpoint, 3)
            break
        except OSError:
            with pytest.raises(StateError, match=r"rollback of checkpoint .* was interrupted"):
                check_no_rollback(state_of(checkpoint))
            with pytest.raises(StateError, match=f"tidegate state {checkpoint} --rollback 3"):
                roll_back(checkpoint, 2)
    assert calls > 20
    assert rollback_of(state_of(checkpoint)) is None
    assert tree(checkpoint) == tree(whole)


def test_a_query_that_runs_nevertheless_is_displaced(checkpoint: Path) -> None:
    files = state_of(checkpoint)
    mine = claim(files, None).writer
    roll_back(checkpoint, 5)
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        check_claim(files, mine)


def test_a_later_manifest_that_is_damaged_does_not_prevent_it(checkpoint: Path) -> None:
    (checkpoint / "tidegate/manifests/5.json").write_text("{")
    roll_back(checkpoint, 3)
    assert "away/manifests/5.json" in tree(checkpoint)
    # The segments of a manifest that cannot be read stay; later they count as leftovers.
    assert "tidegate/segments/5-aa-batch/part-0.parquet" in tree(checkpoint)


def damaged(checkpoint: Path) -> None:
    (checkpoint / "tidegate/segments/3-aa-batch/part-0.parquet").unlink()


def of_another_query(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text('{"id": "other"}')


def with_other_offsets(checkpoint: Path) -> None:
    (checkpoint / "offsets/3").write_text("v1\n{}\nother\n17")


def without_offsets(checkpoint: Path) -> None:
    (checkpoint / "offsets/3").unlink()


def running(checkpoint: Path) -> None:
    put_claim(checkpoint, pid=os.getppid(), host=socket.gethostname())


def elsewhere(checkpoint: Path) -> None:
    put_claim(checkpoint, pid=1, host="elsewhere")


def put_claim(checkpoint: Path, **facts: object) -> None:
    name = checkpoint / "tidegate/writers/1.json"
    data = json.loads(name.read_text())
    name.write_text(json.dumps(data | {"writer": data["writer"] | facts}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (damaged, "part-0.parquet of segment 3-aa-batch is missing"),
        (of_another_query, "batch 3 of Spark's part is not the one"),
        (with_other_offsets, "batch 3 of Spark's part is not the one"),
        (without_offsets, "Spark keeps its last 100 batches"),
        (running, "a query runs on checkpoint"),
        (elsewhere, "ran on another machine"),
    ],
)
def test_a_refused_rollback_changes_nothing(
    change: Callable[[Path], None], told: str, checkpoint: Path
) -> None:
    change(checkpoint)
    before = tree(checkpoint)
    with pytest.raises(StateError, match=told):
        roll_back(checkpoint, 3)
    assert tree(checkpoint) == before
    assert rollback_of(state_of(checkpoint)) is None


@pytest.mark.parametrize("change", [running, elsewhere])
def test_the_user_may_say_that_the_query_has_ended(
    change: Callable[[Path], None], checkpoint: Path
) -> None:
    change(checkpoint)
    assert roll_back(checkpoint, 3, stopped=True).manifest.epoch == 3


def test_an_epoch_that_is_not_kept_is_refused(checkpoint: Path) -> None:
    with pytest.raises(StateError, match="has no epoch 9: kept are 0 to 5"):
        roll_back(checkpoint, 9)


# --- The log of Spark's file source.


def spark_log(folder: Path, last: int, interval: int = 10) -> dict[str, str]:
    """Write a log as Spark does; return its files, none of them expired."""
    folder.mkdir(exist_ok=True)
    for number in range(last + 1):
        compacts = (number + 1) % interval == 0
        batches = range(number + 1) if compacts else [number]
        lines = [f'{{"path": "f{batch}", "batchId": {batch}}}' for batch in batches]
        name = f"{number}.compact" if compacts else str(number)
        (folder / name).write_text("\n".join(["v1", *lines]))
    return {each.name: each.read_text() for each in folder.iterdir()}


@pytest.mark.parametrize("last", [-1, 3, 8, 9, 12, 18, 19, 24])
@pytest.mark.parametrize("expired", [False, True])
def test_a_log_of_a_file_source_ends_as_it_did_after_that_batch(
    last: int, expired: bool, tmp_path: Path
) -> None:
    spark_log(tmp_path, 24)
    then = spark_log(tmp_path / "then", last) if last >= 0 else {}
    shutil.rmtree(tmp_path / "then", ignore_errors=True)
    if expired:
        for number in range(19):
            (tmp_path / f"{number}").unlink(missing_ok=True)
        (tmp_path / "9.compact").unlink()
    later = cut_source_log(tmp_path, last)
    assert later == sorted(later, key=lambda name: -int(name.split(".")[0]))
    for name in later:
        (tmp_path / name).unlink()
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}
    # Spark needs the last compaction and what follows it.
    needed = {name for name in then if int(name.split(".")[0]) >= (last + 1) // 10 * 10 - 1}
    assert needed <= found.keys()
    assert found.items() <= then.items()
    if not expired:
        assert found == then


def test_a_log_that_cannot_end_there_stays_as_it_is(tmp_path: Path) -> None:
    spark_log(tmp_path, 12)
    for name in ("10", "11"):
        (tmp_path / name).unlink()
    before = sorted(each.name for each in tmp_path.iterdir())
    assert cut_source_log(tmp_path, 11) is None
    assert sorted(each.name for each in tmp_path.iterdir()) == before
