"""What is made of manifests: points, windows that were seen, and what becomes of a rollback."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from inspection.checkpoints import plan_of, put_segment, put_state
from monitor.jobs import PretendedJob
from state.manifests import SECOND
from tidegate.inspection.checkpoint import Checkpoint
from tidegate.inspection.next_windows import NextWindow, NextWindows, next_windows
from tidegate.monitor.follower import Follower, Status
from tidegate.monitor.history import MOST_POINTS, History
from tidegate.monitor.timeline import Timeline
from tidegate.state.manifest import Manifest, Tables
from tidegate.state.reader import StateReader


@pytest.fixture
def job(tmp_path: Path) -> PretendedJob:
    return PretendedJob(checkpoint=tmp_path / "per_page")


def follow(job: PretendedJob) -> Follower:
    follower = Follower("per_page", StateReader(job.checkpoint))
    follower.poll()
    return follower


def clicks(*seconds: float) -> list[tuple[int, str]]:
    return [(int(second * SECOND), "/home") for second in seconds]


def test_a_point_says_what_happened_between_two_manifests(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1, 2))
    job.step(102 * SECOND, clicks(3, 30, 31))
    job.step(103 * SECOND, clicks(2, 32))
    first, second, third = follow(job).points()
    assert (first.counts.rows_in, first.seconds) == (2, None)
    assert (second.counts.rows_in, second.seconds, second.rate(3)) == (3, 2.0, 1.5)
    assert (second.emitted.closed_windows, second.open_windows) == (1, 1)
    assert (third.counts.late, third.lag_us) == (1, (103 - 28) * SECOND)


def test_the_history_begins_with_the_oldest_kept_manifest(job: PretendedJob) -> None:
    job.kept = 3
    for second in range(6):
        job.step((100 + second) * SECOND, clicks(second))
    follower = follow(job)
    # The manifests of epochs 3 to 5 are kept; a point takes two of them.
    assert [point.epoch for point in follower.points()] == [4, 5]
    job.step(106 * SECOND, clicks(6))
    follower.poll()
    assert [point.epoch for point in follower.points(after=4)] == [5, 6]


def test_the_history_is_bounded() -> None:
    history = History()
    first = Manifest(epoch=0, batch_id=0, fingerprint={}, plan_id="p", checkpoint_id="c")
    for epoch in range(MOST_POINTS + 5):
        history.add(replace(first, epoch=epoch))
    assert [point.epoch for point in (history.points[0], history.points[-1])] == [5, 1804]


def test_a_rollback_takes_back_what_came_after_it(job: PretendedJob) -> None:
    for second in range(4):
        job.step((100 + second) * SECOND, clicks(second))
    follower = follow(job)
    for epoch in (2, 3):
        (job.checkpoint / "tidegate" / "manifests" / f"{epoch}.json").unlink()
    follower.poll()
    assert (follower.manifest and follower.manifest.epoch, follower.problem) == (1, None)
    assert [point.epoch for point in follower.points()] == [0, 1]


def test_a_manifest_of_an_earlier_release_has_no_summary_of_its_step(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1))
    path = job.checkpoint / "tidegate" / "manifests" / "0.json"
    facts = json.loads(path.read_text())
    del facts["step"], facts["emitted"]
    path.write_text(json.dumps(facts))
    (point,) = follow(job).points()
    assert (point.kind, point.duration_ms, point.open_windows, point.emitted.rows_out) == (
        None,
        None,
        None,
        0,
    )


def test_a_window_that_is_gone_and_lies_before_the_bound_has_closed(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1, 11))
    follower = follow(job)
    assert follower.read()
    assert [(w.window.start_us, w.closed_in) for w in follower.windows()] == [
        (0, None),
        (10 * SECOND, None),
    ]
    job.step(101 * SECOND, clicks(19))
    job.step(102 * SECOND, clicks(40))
    follower.poll()
    follower._next_read = 0  # reading is rare, so that it costs little
    assert follower.read()
    assert [
        (w.window.start_us // SECOND, w.closed_in, w.closed_us) for w in follower.windows()
    ] == [(0, 1, 101 * SECOND), (10, 2, 102 * SECOND), (40, None, None)]


def test_windows_that_closed_before_somebody_looked_are_known_from_kept_manifests(
    job: PretendedJob,
) -> None:
    job.step(100 * SECOND, clicks(1))
    job.step(101 * SECOND, clicks(40))
    follower = follow(job)
    follower.read()
    assert [(w.window.start_us, w.closed_in) for w in follower.windows()] == [
        (0, 1),
        (40 * SECOND, None),
    ]


def test_windows_that_nobody_saw_are_known_if_all_that_there_can_be_have_closed(
    job: PretendedJob,
) -> None:
    job.step(100 * SECOND, clicks(8))
    job.step(101 * SECOND, clicks(9, 15, 25, 38))  # up to 31: three of three have closed
    job.step(102 * SECOND, clicks(39, 68))  # up to 61: one of three, and nobody knows which
    follower = follow(job)
    seen = [(w.window.start_us // SECOND, w.window.rows, w.closed_in) for w in follower.windows()]
    assert seen == [(0, None, 1), (10, None, 1), (20, None, 1)]
    follower.read()
    seen = [(w.window.start_us // SECOND, w.window.rows, w.closed_in) for w in follower.windows()]
    assert seen[-2:] == [(30, 1, 2), (60, 1, None)]


def test_what_has_closed_since_the_state_was_read_is_not_shown_as_open(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1, 11))
    follower = follow(job)
    follower.read()
    job.step(101 * SECOND, clicks(18))
    follower.poll()
    assert [(w.window.rows, w.is_closed) for w in follower.windows()] == [(1, True), (1, False)]


#   seen        [1 ----- 6)       [20 ---- 25)
#   then        [1 -------- 9)                      closed up to 7: the first one has grown
#   then                          [20 ---- 25)      closed up to 12
def test_a_session_that_has_grown_has_not_closed() -> None:
    def seen(*windows: tuple[int, int]) -> NextWindows:
        found = [NextWindow(start_us=start, end_us=end, rows=1) for start, end in windows]
        return NextWindows(windows=found)

    timeline = Timeline()
    timeline.see(seen((1, 6), (20, 25)), 0, growing=True)
    timeline.see(seen((1, 9), (20, 25)), 7, growing=True)
    assert [w.is_closed for w in timeline.windows(7, [])] == [False, False]
    timeline.see(seen((20, 25)), 12, growing=True)
    assert [(w.window.end_us, w.is_closed) for w in timeline.windows(12, [])] == [
        (9, True),
        (25, False),
    ]


def test_the_same_state_is_read_once(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1))
    follower = follow(job)
    assert (follower.read(), follower.read()) == (True, False)


def test_a_process_that_has_ended_is_told_from_one_that_runs(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1))
    assert follow(job).status is Status.RUNNING
    # No process has that number: it is beyond Linux's greatest.
    job.writer = replace(job.writer, pid=2**22 + 1)
    job.step(101 * SECOND, clicks(1))
    assert follow(job).status is Status.ENDED
    job.writer = replace(job.writer, host="another")
    job.step(102 * SECOND, clicks(1))
    assert follow(job).status is Status.ELSEWHERE


def test_a_damaged_manifest_is_told_and_the_one_before_is_shown(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1))
    follower = follow(job)
    newest = job.checkpoint / "tidegate" / "manifests" / "1.json"
    newest.write_text("{")
    follower.poll()
    assert follower.manifest is not None
    assert follower.manifest.epoch == 0
    assert follower.problem is not None
    assert "1.json is not a valid manifest" in follower.problem
    newest.unlink()
    job.step(101 * SECOND, clicks(2))
    follower.poll()
    assert (follower.manifest.epoch, follower.problem) == (1, None)


def test_a_missing_file_of_the_state_is_told_once_it_is_not_merely_old(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1))
    follower = follow(job)
    (job.checkpoint / "tidegate" / "segments" / "0-aa-batch" / "part-0.parquet").unlink()
    follower.read()
    assert follower.state.problem is not None
    assert "part-0.parquet of segment 0-aa-batch is missing" in follower.state.problem


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    outside = put_segment(tmp_path / "secret", "rows", [{"_pane": 0}])
    plan = plan_of('tumbling size="10s" offset="0s"')
    name = "../../../secret/tidegate/segments/rows"
    state = put_state(tmp_path / "per_page", plan, Tables(windows=(replace(outside, name=name),)))
    follower = Follower("per_page", StateReader(tmp_path / "per_page"))
    follower.poll()
    follower.read()
    assert state.segments[0].name == name
    assert follower.state.problem is not None
    assert "which is not in it" in follower.state.problem


def test_a_checkpoint_that_goes_is_told(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1))
    follower = follow(job)
    (job.checkpoint / "tidegate" / "manifests" / "0.json").unlink()
    follower.poll()
    assert follower.problem == f"{job.checkpoint} has gone"


HOPPING = 'hopping size="7s" slide="5s" offset="1s"'
CUMULATING = 'cumulate size="20s" step="5s" offset="0s"'


@pytest.mark.parametrize("bound", [None, 33, 60])
@pytest.mark.parametrize("window", ['tumbling size="10s" offset="0s"', HOPPING, CUMULATING])
def test_the_windows_that_close_next_are_the_first_of_all_open_ones(
    window: str, bound: int | None, tmp_path: Path
) -> None:
    width = {HOPPING: 1, CUMULATING: 5}.get(window, 10)
    rows = [
        {"_pane": second // width * width * SECOND, "_k0": second % 3}
        for second in range(-20, 90, 4)
    ]
    plan = plan_of(window, keys={"_k0": "user"})
    tables = Tables(windows=(put_segment(tmp_path, "0-aa-batch", rows),))
    put_state(
        tmp_path,
        plan,
        tables,
        bound_us=None if bound is None else bound * SECOND,
        schema={"_pane": "bigint", "_k0": "bigint"},
    )
    reader = StateReader(tmp_path)
    checkpoint = Checkpoint(reader=reader, manifest=reader.manifest(), plan=reader.plan())
    all_windows = [
        NextWindow(start_us=w.start_us, end_us=w.end_us, rows=w.rows, groups=len(w.groups))
        for w in checkpoint.counted_windows()
    ]
    found = next_windows(checkpoint, 5)
    assert list(found.windows) == all_windows[:5]
    assert (found.total, found.note) == (
        len(all_windows),
        f"the first 5 of {len(all_windows)}" if len(all_windows) > 5 else None,
    )


def test_a_state_that_is_too_large_is_not_looked_through(tmp_path: Path) -> None:
    segment = replace(put_segment(tmp_path, "0-aa-batch", [{"_pane": 0}]), rows=5_000_001)
    plan = plan_of('tumbling size="10s" offset="0s"')
    put_state(tmp_path, plan, Tables(windows=(segment,)))
    reader = StateReader(tmp_path)
    checkpoint = Checkpoint(reader=reader, manifest=reader.manifest(), plan=reader.plan())
    assert next_windows(checkpoint, 5).note == (
        "not listed: the state has 5,000,001 rows; tidegate state --windows reads them"
    )


def test_two_threads_that_look_at_once_take_a_manifest_once(job: PretendedJob) -> None:
    job.step(100 * SECOND, clicks(1, 2))
    job.step(102 * SECOND, clicks(30))
    reader = StateReader(job.checkpoint)
    follower, both = Follower("per_page", reader), threading.Barrier(2, timeout=0.2)
    head = reader.head

    def slowly(epoch: int) -> Manifest:
        with suppress(threading.BrokenBarrierError):
            both.wait()  # gives the other thread the time to read the same one
        return head(epoch)

    with patch.object(StateReader, "head", side_effect=slowly):
        threads = [threading.Thread(target=follower.poll) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [row.epoch for row in follower.results()] == [1]
