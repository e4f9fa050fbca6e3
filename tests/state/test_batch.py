"""Whether a batch of Spark is the next one, a replay, or does not belong to the state at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.errors import StateError
from tidegate.state.batch import SparkBatch, is_replay

from .manifests import manifest

STATE = manifest(5)
REPLAY = SparkBatch(batch_id=5, clock_us=0, query_id="q", offsets_hash="o5")
NEXT = SparkBatch(batch_id=6, clock_us=0, query_id="q", offsets_hash="o6")


def test_only_the_newest_batch_with_the_same_offsets_is_a_replay() -> None:
    assert is_replay(REPLAY, STATE, "c")
    assert not is_replay(NEXT, STATE, "c")


def test_the_first_batch_may_be_of_any_query() -> None:
    nothing = manifest(-1, batch_id=-1, query_id=None, offsets_hash=None)
    assert not is_replay(SparkBatch(batch_id=0, clock_us=0, query_id="new"), nothing, "c")


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (replace(NEXT, query_id="other"), "Spark's part is of query other, the folder tidegate of"),
        (replace(REPLAY, query_id="other"), "Spark's part is of query other"),
        (replace(REPLAY, offsets_hash="o"), "batch 5 of Spark reads other rows than batch 5"),
        (replace(REPLAY, batch_id=3), "Spark is at batch 3, the state at batch 5"),
        (replace(NEXT, batch_id=8), "Spark is at batch 8, the state at batch 5"),
    ],
    ids=["reset", "reset replay", "other offsets", "older copy of Spark's", "gap"],
)
def test_what_does_not_fit_is_refused_with_both_sides_and_the_ways_out(
    batch: SparkBatch, told: str
) -> None:
    with pytest.raises(StateError) as error:
        is_replay(batch, STATE, "/there")
    assert f"checkpoint /there: {told}" in str(error.value)
    assert "Restore the whole checkpoint from one copy" in str(error.value)
    assert "start with a new checkpoint" in str(error.value)
