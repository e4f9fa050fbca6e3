"""Lets a day pass for a checkpoint: each epoch as a step would take it, without rows.

The calls are those of ``engine/step.py`` in its order: claim, intent, results, manifest, cleaning
up. Segments and results are links to one file.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.state.files import LocalFiles
from tidegate.state.intents import Intent, StepKind
from tidegate.state.manifest import Manifest, Segment
from tidegate.state.plan_file import NAME, PlanFile
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW_SECONDS = 10
# A close every ten batches leaves as many segments as a merge of eight does.
MERGE_FACTOR = 8


def advance(spark: SparkSession, checkpoint: Path, results: Path, until: int) -> list[float]:
    """Bring a checkpoint to an epoch; return how many ms the calls of each epoch took.

    Args:
        spark: any session.
        checkpoint: the checkpoint of a query of one-second batches that has stopped.
        results: the folder of its results.
        until: the epoch to reach, that of the last batch which Spark has committed then.
    """
    local = LocalFiles(str(checkpoint / "tidegate"))
    plan = PlanFile.from_json(local.read(NAME), path=NAME)
    store = StateStore(spark, str(checkpoint), plan)
    state = store.newest()
    assert state is not None, "the query has run"
    store.claim(state.epoch)
    passing = _Passing(
        store=store, checkpoint=checkpoint, results=results, like=_kept(state, checkpoint)
    )
    started = state
    took = []
    while state.epoch < until:
        begun = time.perf_counter()
        state = passing.step(state)
        took.append((time.perf_counter() - begun) * 1000)
    _advance_spark(checkpoint, started.batch_id, state.batch_id)
    return took


def _kept(state: Manifest, checkpoint: Path) -> Segment:
    """Keep a link to a file of the state, and return its segment."""
    segment = state.tables.windows[-1]
    file = checkpoint / "tidegate" / "segments" / segment.name / segment.files[0].name
    os.link(file, checkpoint.parent / segment.files[0].name)
    return replace(segment, level=0, files=segment.files[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passing:
    """Takes the steps; every segment is ``like`` one of the state."""

    store: StateStore
    checkpoint: Path
    results: Path
    like: Segment

    def step(self, before: Manifest) -> Manifest:
        """Commit the next epoch."""
        epoch, store = before.epoch + 1, self.store
        assert before.clock_us is not None, "the query has run"
        # The clock of the machine, which the last batches go on with.
        clock_us = max(before.clock_us, time.time_ns() // 1_000)
        windows = (*before.tables.windows, self._segment(epoch, "batch"))
        if epoch % WINDOW_SECONDS == 0:
            store.check_claim()
            store.put_intent(
                Intent(
                    epoch=epoch,
                    kind=StepKind.BATCH,
                    batch_id=before.batch_id + 1,
                    query_id=before.query_id,
                    offsets_hash=before.offsets_hash,
                    clock_us=clock_us,
                    watermark_us=before.watermark.watermark_us,
                    bound_us=before.bound_us,
                )
            )
            store.check_turn(epoch)
            self._link(self.results / f"emit_epoch={epoch}")
            windows = windows[-1:]
        elif len(windows) >= MERGE_FACTOR:
            windows = (self._segment(epoch, "merged"),)
        after = replace(
            before,
            epoch=epoch,
            batch_id=before.batch_id + 1,
            clock_us=clock_us,
            machine_us=clock_us,
            writer=store.writer,
            tables=replace(before.tables, windows=windows),
        )
        store.check_claim()
        store.commit(after)
        store.clean_up(after)
        return after

    def _segment(self, epoch: int, what: str) -> Segment:
        name = f"{epoch}-{self.store.writer.id}-{what}"
        self._link(self.checkpoint / "tidegate" / "segments" / name)
        self.store.disown(name)
        return replace(self.like, name=name)

    def _link(self, folder: Path) -> None:
        """Make a folder with the file."""
        name = self.like.files[0].name
        folder.mkdir()
        os.link(self.checkpoint.parent / name, folder / name)


def _advance_spark(checkpoint: Path, before: int, batch_id: int) -> None:
    """Let Spark's part of a checkpoint end with a later batch: as many files, with later names."""
    for log in ("offsets", "commits"):
        for path in (checkpoint / log).iterdir():
            if not path.name.isdecimal():
                path.unlink()  # the checksum of one
                continue
            number = int(path.name) + batch_id - before
            text = path.read_text()
            path.unlink()
            if number > batch_id:
                continue  # planned, and not committed
            (checkpoint / log / str(number)).write_text(
                _later(text, batch_id - before) if log == "offsets" else text
            )
    # Where the query was stopped before Spark had noted that its last batch was committed.
    (checkpoint / "commits" / str(batch_id)).write_text(text)


def _later(text: str, batches: int) -> str:
    """Return the text of an offset file for a batch that comes so much later."""
    version, metadata, *offsets = text.split("\n")
    return "\n".join([version, metadata, *(_moved(each, batches) for each in offsets)])


def _moved(offset: str, batches: int) -> str:
    at: dict[str, int] = json.loads(offset)
    a_batch = at["offset"] * 1_000 // at["timestamp"]
    return json.dumps(
        {"offset": at["offset"] + batches * a_batch, "timestamp": at["timestamp"] + batches * 1_000}
    )
