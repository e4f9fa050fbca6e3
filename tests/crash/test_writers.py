"""Two processes on one checkpoint, refused starts, and what a start may change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import StateError

from .steps import BATCHES, Case, Failed, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.state.manifest import Manifest


@pytest.fixture
def case(interpreted: SparkSession, tmp_path: Path) -> Case:
    return Case(spark=interpreted, checkpoint=tmp_path / "checkpoint")


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    case = Case(spark=spark, checkpoint=tmp_path_factory.mktemp("undisturbed"))
    stepper = case.start()
    for number in range(len(BATCHES)):
        case.run(stepper, number)
    stepper.drain()
    return case.target


def test_of_two_processes_the_later_goes_on_and_a_third_start_has_every_result_once(
    case: Case, undisturbed: Target
) -> None:
    older = case.start()
    case.run(older, 0)
    newer = case.start()
    # A look at the checkpoint claims nothing.
    case.run(older, 1)
    case.run(newer, 1)
    before = case.tree()
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        case.run(older, 2)
    assert before.items() <= case.tree().items(), "what the loser found stays"
    case.run(newer, 2)
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        older.drain()
    case.start().drain()
    assert case.target.epochs == undisturbed.epochs


def test_a_process_that_is_displaced_after_its_results_does_not_commit(
    case: Case, undisturbed: Target
) -> None:
    older = case.start()
    case.run(older, 0)

    def taken_over(epoch: int) -> None:
        case.target.then = lambda _: None
        case.run(case.start(), epoch)

    case.target.then = taken_over
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        case.run(older, 1)
    last = case.start()
    assert last.state.epoch == 1
    case.run(last, 2)
    last.drain()
    assert case.target.epochs == undisturbed.epochs


def test_results_that_a_displaced_process_still_commits_are_not_deleted(
    case: Case, undisturbed: Target
) -> None:
    older = case.start()
    case.run(older, 0)
    commit = older._checkpoint.store.commit

    def after_a_claim(manifest: Manifest) -> None:
        # In the moment between the last check of the older process and its manifest.
        newer = case.start()
        newer._checkpoint.store.write_segment = killed
        with pytest.raises(Failed):
            case.run(newer, 1)
        commit(manifest)

    older._checkpoint.store.commit = after_a_claim
    case.run(older, 1)
    assert case.target.opened[-1][1] == 1
    last = case.start()
    assert last.state.epoch == 1
    case.run(last, 2)
    last.drain()
    assert case.target.epochs == undisturbed.epochs


def test_an_attempt_at_a_batch_that_reads_other_rows_now_leaves_no_results(case: Case) -> None:
    stepper = case.start()
    case.run(stepper, 0)
    case.target.then = killed
    with pytest.raises(Failed):
        case.run(stepper, 1)
    case.target.then = lambda _: None
    assert list(case.target.epochs) == [1]
    case.run(case.start(watermark_lag="1h"), 1, offsets_hash="of other rows")
    assert case.target.epochs == {}


def test_a_stepper_that_has_not_begun_knows_of_a_later_claim(case: Case) -> None:
    idle = case.start()
    idle.check_not_displaced()
    older = case.start()
    case.run(older, 0)
    older.check_not_displaced()
    with pytest.raises(StateError, match=r"another query has written to checkpoint .* since"):
        idle.check_not_displaced()
    case.run(case.start(), 1)
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        older.check_not_displaced()


def killed(*_: object) -> None:
    raise Failed


def test_a_start_and_a_batch_that_is_refused_change_nothing(case: Case) -> None:
    stepper = case.start()
    for number in (0, 1):
        case.run(stepper, number)
    # A partial copy: the newest manifest is not in it.
    newest = case.checkpoint / "tidegate" / "manifests" / "1.json"
    newest.rename(case.checkpoint / "kept aside")
    before = case.tree()
    with pytest.raises(StateError, match="Spark is at batch 2, the state at batch 0"):
        case.run(case.start(), 2)
    with pytest.raises(StateError, match="Spark's part is of query other"):
        case.run(case.start(), 1, query_id="other")
    assert case.tree() == before
    (case.checkpoint / "kept aside").rename(newest)
    case.run(case.start(), 2)
    assert case.target.totals() == [5, 10, 13]


def test_a_replay_reads_its_rows_and_another_batch_of_the_same_number_is_refused(
    case: Case, interpreted: SparkSession
) -> None:
    from pyspark.sql import Observation, functions

    case.run(case.start(), 0)
    read = Observation()
    rows = case.prepared(case.rows(0)).observe(read, functions.count("*").alias("rows"))
    again = case.start()
    case_batch = {"batch_id": 0, "clock_us": 0, "query_id": "q"}
    from tidegate.state.batch import SparkBatch

    assert again.run(SparkBatch(**case_batch, offsets_hash="o0"), rows) is None
    assert read.get == {"rows": len(BATCHES[0])}
    with pytest.raises(StateError, match="batch 0 of Spark reads other rows than batch 0"):
        again.run(SparkBatch(**case_batch, offsets_hash="other"), rows)


def test_sinks_are_told_of_the_checkpoint_once_and_by_the_same_id_from_the_first_batch_on(
    case: Case,
) -> None:
    case.target.then = killed
    first = case.start(idle_timeout="1h")
    assert case.target.opened == []
    # With the stream at its first batch nothing goes out; the drain does not get to its manifest,
    # and the next start finishes it: so its epoch counts as one that the target may keep.
    stepper = case.start()
    case.run(stepper, 0)
    with pytest.raises(Failed):
        stepper.drain()
    case.target.then = lambda _: None
    case.run(case.start(), 1)
    owners, epochs = zip(*case.target.opened, strict=True)
    assert len(set(owners)) == 1
    assert epochs == (None, 1)
    assert first.state.checkpoint_id == ""
    assert case.start().state.checkpoint_id == owners[0]


def test_the_id_is_the_same_after_a_first_batch_that_was_never_committed(case: Case) -> None:
    shutil.rmtree(case.checkpoint, ignore_errors=True)

    case.target.then = killed
    with pytest.raises(Failed):
        case.start().run(*first_batch_that_closes(case))
    assert not list((case.checkpoint / "tidegate" / "manifests").iterdir())
    case.target.then = lambda _: None
    case.start().run(*first_batch_that_closes(case))
    owners, epochs = zip(*case.target.opened, strict=True)
    assert len(set(owners)) == 1
    assert epochs == (None, 0)


def first_batch_that_closes(case: Case):
    from tidegate.state.batch import SparkBatch

    batch = SparkBatch(batch_id=0, clock_us=0, query_id="q", offsets_hash="o")
    return batch, case.prepared(case.rows(1))
