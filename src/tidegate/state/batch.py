"""The identity of a batch, which links the state to Spark's own part of the checkpoint.

For a query that reads the results of another one, a batch is a step of that one instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from tidegate.errors import StateError

if TYPE_CHECKING:
    from tidegate.state.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkBatch:
    """A batch of Spark; every field is the same when the batch is replayed.

    Attributes:
        batch_id: its number.
        clock_us: its clock, from Spark's offset log.
        query_id: the id of the streaming query, from the ``metadata`` file of the checkpoint; None
            where no streaming query runs (cases, tests).
        offsets_hash: a hash of the offsets that the batch reads up to; None likewise.
        joined: whether it is a batch of another query, whose stream this one reads too; then its
            first batch may have any number.
        upstream: the transform of which the batch is a step; ``batch_id`` is then its epoch,
            ``query_id`` the id of its checkpoint, and ``offsets_hash`` says what it has read.
        watermark_us: the watermark that comes with the step; None: it follows from the rows.
        after: with ``upstream``, the epoch before the step; those between the two had no results.
    """

    batch_id: int
    clock_us: int
    query_id: str | None = None
    offsets_hash: str | None = None
    joined: bool = False
    upstream: str | None = None
    watermark_us: int | None = None
    after: int | None = None


def offsets_hash(offsets: Iterable[str]) -> str:
    """Return the hash of the offsets of a batch, as Spark writes them, in the order of sources."""
    return sha256("\n".join(offsets).encode()).hexdigest()[:32]


def is_replay(batch: SparkBatch, state: Manifest, checkpoint: str) -> bool:
    """Return whether the state already contains the batch; otherwise it must be the next one.

    Raises:
        StateError: it is neither; Spark's part of the checkpoint and ours are from different
            moments.
    """
    if batch.upstream is not None:
        return _is_replay_of_step(batch, state, checkpoint)
    if state.batch_id >= 0 and batch.query_id != state.query_id:
        raise _apart(
            checkpoint,
            f"Spark's part is of query {batch.query_id}, the folder tidegate of query "
            f"{state.query_id}",
            "Spark's part was deleted or replaced, and would read rows again that are in the state "
            "already",
        )
    if batch.batch_id == state.batch_id + 1 or (batch.joined and state.batch_id < 0):
        return False
    told = f"Spark is at batch {batch.batch_id}, the state at batch {state.batch_id}"
    if batch.batch_id > state.batch_id:
        raise _apart(
            checkpoint,
            told,
            "manifests are missing, and with them the rows of the batches between",
        )
    if batch.batch_id < state.batch_id:
        raise _apart(
            checkpoint,
            told,
            "Spark's part is older than the state, and would read rows again that are in it",
        )
    if batch.offsets_hash != state.offsets_hash:
        raise _apart(
            checkpoint,
            f"batch {batch.batch_id} of Spark reads other rows than batch {state.batch_id} of the "
            "state did",
            "its offsets differ, so it is not the same batch, and its rows would be skipped",
        )
    return True


def _is_replay_of_step(batch: SparkBatch, state: Manifest, checkpoint: str) -> bool:
    """``is_replay`` for a step of another query; the first one may have any number."""
    name = batch.upstream
    after = batch.batch_id - 1 if batch.after is None else batch.after
    follows = after <= state.batch_id < batch.batch_id
    if state.batch_id < 0 or (follows and batch.query_id == state.query_id):
        return False
    if batch.query_id != state.query_id:
        told = f"it goes on from checkpoint {state.query_id} of {name}, which is {batch.query_id}"
        why = f"the checkpoint of {name} was deleted or replaced, and would bring results again"
    elif batch.batch_id > state.batch_id:
        told = f"{name} is at epoch {batch.batch_id}, the state has its epoch {state.batch_id}"
        why = "the results of the epochs between are missing"
    elif batch.batch_id < state.batch_id:
        told = f"{name} is at epoch {batch.batch_id}, the state has its epoch {state.batch_id}"
        why = f"{name} is older than the state, and would bring results again that are in it"
    elif batch.offsets_hash != state.offsets_hash:
        told = f"epoch {batch.batch_id} of {name} reads other rows than it did before"
        why = "its results are in the state already, and the new ones would be skipped"
    else:
        return True
    raise StateError(
        f"checkpoint {checkpoint}: {told}\n\nThe two do not belong together: {why}. Restore the "
        "checkpoints of both from one copy, or start both with new checkpoints."
    )


def _apart(checkpoint: str, differs: str, why: str) -> StateError:
    return StateError(
        f"checkpoint {checkpoint}: {differs}\n\nThe two do not belong together: {why}. Restore the "
        "whole checkpoint from one copy (offsets, commits and tidegate are of one moment), or "
        "start with a new checkpoint."
    )
