"""What a step has decided is kept to by whatever comes after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import StateError

from .steps import Case, Failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def case(interpreted: SparkSession, tmp_path: Path) -> Case:
    return Case(spark=interpreted, checkpoint=tmp_path / "checkpoint")


def killed(_: int) -> None:
    raise Failed


def test_a_batch_whose_results_are_out_closes_the_same_windows_under_other_settings(
    case: Case,
) -> None:
    stepper = case.start()
    case.run(stepper, 0)
    case.target.then = killed
    with pytest.raises(Failed):
        case.run(stepper, 1)
    written = dict(case.target.epochs)
    assert [row[1:3] for row in written[1]] == [(1, 5), (4, 10)] or len(written[1]) == 2
    case.target.then = lambda _: None
    # By these nothing would close in this batch.
    again = case.start(allowed_lateness="1h", watermark_lag="1h")
    case.run(again, 1)
    assert case.target.epochs == written
    assert again.state.bound_us == 21_000_000


def test_the_shards_of_a_batch_that_is_run_again_follow_from_its_rows(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few are too many for a manifest.
    monkeypatch.setattr("tidegate.state.shards.MOST_SHARDS", 1)
    case.settings["shard"] = "v % 2"
    case.run(case.start(), 0)
    case.target.then = killed
    with pytest.raises(Failed):
        case.run(case.start(), 1)
    written = dict(case.target.epochs)
    case.target.then = lambda _: None
    again = case.start(watermark_lag="1h")
    case.run(again, 1)
    assert case.target.epochs == written
    assert again.state.watermark.watermark_us == 12_000_000
    case.run(again, 2)
    for state in (again.state, case.start().state):
        assert state.watermark.watermark_us == 12_000_000
        seen = {each.name: each.event_time_us for each in state.watermark.shards.values()}
        assert seen == {"0": 33_000_000, "1": 25_000_000}


def test_a_drain_whose_results_are_out_is_finished_before_anything_else(case: Case) -> None:
    stepper = case.start()
    case.run(stepper, 0)
    case.target.then = killed
    with pytest.raises(Failed):
        stepper.drain()
    written = dict(case.target.epochs)
    assert list(written) == [1]
    case.target.then = lambda _: None
    again = case.start()
    case.run(again, 1)
    assert case.target.epochs[1] == written[1]
    # The drain closed the window of seconds 0 to 9: the row of second 4 came too late for it.
    assert again.state.epoch == 2
    assert again.state.totals.late == 1
    assert [row[1:3] for row in case.target.epochs[2]] == [(1, 5)]
    # Both steps of the one call are reported, in order.
    assert [(each.epoch, each.closed_windows) for each in case.reports[-2:]] == [(1, 1), (2, 1)]


def test_a_drain_that_is_asked_for_again_is_the_one_that_was_begun(case: Case) -> None:
    stepper = case.start()
    case.run(stepper, 0)
    case.target.then = killed
    with pytest.raises(Failed):
        stepper.drain()
    case.target.then = lambda _: None
    again = case.start()
    report = again.drain()
    assert (report.epoch, report.closed_windows) == (1, 1)
    assert again.state.epoch == 1


def test_a_drain_waits_for_a_batch_whose_results_may_be_out(case: Case) -> None:
    stepper = case.start()
    case.run(stepper, 0)
    case.target.then = killed
    with pytest.raises(Failed):
        case.run(stepper, 1)
    case.target.then = lambda _: None
    for each in (stepper, case.start()):
        with pytest.raises(StateError, match=r"batch 1 of .* has not been committed"):
            each.drain()
    case.run(stepper := case.start(), 1)
    assert stepper.drain().closed_windows == 1
