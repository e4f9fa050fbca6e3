"""The arithmetic of the benchmarks: ratios of pairs, the order of rounds, time of idle cores."""

from __future__ import annotations

import pytest
from bench.activity import Task, TaskWatch, activity_of, tasks_of
from bench.report import Figure, format_figure, format_targets, paired
from bench.rounds import in_turn
from bench.timeline import Interval, Statement, spans_of


def task(started_ms, ended_ms, **more):
    return Task(stage=0, started_ms=started_ms, ended_ms=ended_ms, **more)


def test_a_ratio_is_the_median_of_the_ratios_of_each_round():
    # The machine became slower by the round, for both; the ratio of the medians would be 4.
    figure = paired("ours_vs_theirs", [3, 8, 30], [1, 2, 15], target="<= 3")
    assert figure == Figure(name="ours_vs_theirs", value=3, target="<= 3", spread=[3.0, 4.0, 2.0])
    assert format_figure(figure) == "ratio ours_vs_theirs 3.000 least 2.000 most 4.000 of 3"
    assert format_targets([figure]) == (
        "target ours_vs_theirs <= 3, measured 3.000 (2.000 to 4.000)"
    )


def test_a_number_measured_once_has_no_spread():
    figures = [paired("once", [3], [2], target="<= 2"), Figure(name="only", value=2)]
    assert [format_figure(figure) for figure in figures] == ["ratio once 1.500", "ratio only 2.000"]
    assert format_targets(figures) == "target once <= 2, measured 1.500"


def test_measurements_without_a_partner_make_no_ratio():
    with pytest.raises(ValueError, match="zip"):
        paired("ours_vs_theirs", [1, 2], [1])


def test_every_other_round_runs_backwards():
    assert [in_turn("ABC", number) for number in (1, 2, 3)] == ["ABC", "CBA", "ABC"]


def test_idle_time_is_that_of_all_cores_or_of_some():
    tasks = [
        task(-50, 10),  # began before
        task(20, 40),
        task(30, 60),
        task(60, 70),  # begins when another ends
        task(90, 130),  # goes on after the end
        task(200, 300),  # not within
    ]
    found = activity_of(tasks, 0, 100, cores=2)
    assert found.seconds == 0.1
    assert found.no_task == pytest.approx(0.030)  # 10 to 20, 70 to 90
    assert found.some_idle == pytest.approx(0.060)  # all but 30 to 40


def test_work_of_a_task_counts_by_its_part_within():
    tasks = [
        task(-100, 100, cpu_ms=80.0, run_ms=120.0),
        task(10, 20, cpu_ms=5.0, run_ms=9.0),
        task(50, 50, cpu_ms=1.0, run_ms=1.0),
        task(100, 100, cpu_ms=1.0, run_ms=1.0),
    ]
    found = activity_of(tasks, 0, 100, cores=2)
    assert found.cpu == pytest.approx(0.046)
    assert found.run == pytest.approx(0.070)


def test_a_task_that_still_runs_ends_when_the_watch_does():
    begun = {"launchTime": "2026-01-01T00:00:00.250GMT"}
    ended = {
        **begun,
        "duration": 100,
        "taskMetrics": {"executorCpuTime": 60_000_000, "executorRunTime": 90},
    }
    at = 1_767_225_600_250
    assert list(tasks_of(7, [begun, ended], at + 500)) == [
        Task(stage=7, started_ms=at, ended_ms=at + 500),
        Task(stage=7, started_ms=at, ended_ms=at + 100, cpu_ms=60.0, run_ms=90),
    ]


def test_the_parts_of_a_batch_follow_each_other_from_its_start_to_its_end():
    at = 1_767_225_600_000
    durations = {
        "triggerExecution": 1000,
        "latestOffset": 10,
        "walCommit": 20,
        "getBatch": 5,
        "queryPlanning": 15,
        "addBatch": 900,
        "commitOffsets": 30,
    }
    jobs = [Interval(from_ms=at + 200, to_ms=at + 500), Interval(from_ms=at + 520, to_ms=at + 600)]
    statements = [
        Statement(
            from_ms=at + 650, to_ms=at + 960, jobs=[Interval(from_ms=at + 700, to_ms=at + 950)]
        ),
        Statement(from_ms=at + 150, to_ms=at + 610, jobs=jobs),
        Statement(from_ms=at + 1100, to_ms=at + 1200, jobs=jobs),  # of the next batch
    ]
    batch = {"timestamp": "2026-01-01T00:00:00.000Z", "durationMs": durations}
    spans = spans_of(batch, statements)
    assert [(span.label, span.to_ms - span.from_ms) for span in spans] == [
        ("Spark: latestOffset", 10),
        ("Spark: walCommit", 20),
        ("Spark: getBatch", 5),
        ("Spark: queryPlanning", 15),
        ("Spark: other", 20),
        ("driver: before statement 1", 80),
        ("driver: plan it, set up its job", 50),
        ("JOB", 300),
        ("driver: between its jobs", 20),
        ("JOB", 80),
        ("driver: commit its files", 10),
        ("driver: before statement 2", 40),
        ("driver: plan it, set up its job", 50),
        ("JOB", 250),
        ("driver: commit its files", 10),
        ("driver: after the statements", 10),
        ("Spark: commitOffsets", 30),
    ]
    assert (spans[0].from_ms, spans[-1].to_ms) == (at, at + 1000)


def test_a_watch_has_the_tasks_of_its_block_alone(spark):
    spark.range(0, 10, 1, 5).count()
    with TaskWatch(spark) as watch:
        spark.range(0, 1_000_000, 1, 3).selectExpr("sum(id)").collect()
    found = watch.activity()
    # Three that add up, one for the total.
    assert len(watch.tasks) == 4
    assert 0 < found.cpu <= found.run + 0.01 < found.seconds * watch.cores + 0.01
    assert found.no_task + found.some_idle <= found.seconds
