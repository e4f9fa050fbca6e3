"""Keys of ``dedup_key``: a crash between any two writes changes nothing, and damage is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import StateError
from tidegate.state.reader import StateReader

from .steps import POINTS, Case, Failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.state.manifest import Manifest

# Of the keys 1, 2 and 0 at seconds 1, 2 and 9 two come again within the horizon, and 0 does not:
# it is new at second 21. By then the others are forgotten.
SETTINGS = {"event_time_field": "ts", "dedup_key": "v % 3", "dedup_horizon": "11s"}


@pytest.fixture
def case(interpreted: SparkSession, tmp_path: Path) -> Case:
    return Case(spark=interpreted, checkpoint=tmp_path / "checkpoint", settings=SETTINGS)


def keys(state: Manifest, checkpoint: Path) -> set[tuple[int, int]]:
    """The keys of the state, each with the second at which it was first seen."""
    rows = StateReader(checkpoint).rows(state.tables.duplicates)
    return {(row["_dedup"], row["_t"] // 1_000_000) for row in rows if row["_t"] is not None}


def test_keys_are_kept_until_they_are_forgotten(case: Case) -> None:
    found = []
    stepper = case.start()
    for number in range(3):
        case.run(stepper, number)
        found.append(keys(stepper.state, case.checkpoint))
    assert found == [{(1, 1), (2, 2), (0, 9)}, {(0, 21)}, {(1, 25), (2, 33)}]
    assert stepper.state.totals.duplicate == 2
    assert case.target.totals() == [6, 13]


# Elsewhere a crash is no other than without keys, whose tests crash there.
QUICK = ("after_results",)


@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.whole) for each in POINTS],
)
def test_a_crash_between_two_writes_changes_nothing(
    point: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash_at(point: str | None) -> None:
        def reached(name: str, epoch: int) -> None:
            if name == point and epoch == 1:
                raise Failed(name)

        monkeypatch.setattr("tidegate.engine.step.fault_point", reached)
        monkeypatch.setattr("tidegate.engine.rows.ingest.fault_point", reached)

    crash_at(point)
    stepper = case.start()
    case.run(stepper, 0)
    with pytest.raises(Failed, match=point):
        case.run(stepper, 1)
    crash_at(None)
    again = case.start()
    for number in (1, 2):
        case.run(again, number)
    assert case.target.totals() == [6, 13]
    assert again.state.totals.duplicate == 2
    assert keys(again.state, case.checkpoint) == {(1, 25), (2, 33)}


def test_a_missing_file_of_keys_is_told(case: Case) -> None:
    stepper = case.start()
    case.run(stepper, 0)
    (segment,) = stepper.state.tables.duplicates
    folder = case.checkpoint / "tidegate" / "segments" / segment.name
    for file in folder.glob("*.parquet"):
        file.unlink()
    with pytest.raises(StateError, match=f"segment {segment.name} is missing"):
        case.run(stepper, 1)


def test_another_key_is_another_query_and_another_horizon_is_not(case: Case) -> None:
    case.run(case.start(), 0)
    with pytest.raises(StateError, match="this differs: dedup_key"):
        case.start(dedup_key="v % 2")
    case.run(case.start(dedup_horizon="1s"), 1)
