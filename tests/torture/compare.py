"""A calm week beside a bad one: the same answers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from .processes import KilledProcesses
from .stream import ID_HAS_EPOCH, Place, answers
from .week import BadWeek, run_calm, schedule

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from pyspark.sql import SparkSession


def compare(
    spark: SparkSession, folder: Path, kind: str, *, seed: int, legs: int, processes: bool = False
) -> Counter[str]:
    """Go through a week twice and return what was done to the second run.

    Raises:
        AssertionError: results or side output differ; the message has the seed.
    """
    spark = spark.newSession()  # The bad week changes settings.
    calm = Place(folder=folder / "calm").make()
    bad = Place(folder=folder / "bad").make()
    planned = schedule(seed, legs)
    run_calm(spark, calm, kind, seed, planned)
    chance = random.Random(f"{kind} {seed}")
    week = (
        KilledProcesses(place=bad, kind=kind, seed=seed, chance=chance)
        if processes
        else BadWeek(spark=spark, place=bad, kind=kind, seed=seed, chance=chance)
    )
    week.go(planned)
    without = ("id",) if legs > 1 and kind in ID_HAS_EPOCH else ()
    expected, found = answers(calm, without=without), answers(bad, without=without)
    assert expected["out"], "a week without results shows nothing"
    for name, rows in expected.items():
        assert found[name] == rows, (
            f"{kind}, seed {seed}, {name}: missing {rows - found[name]}, not expected "
            f"{found[name] - rows}, after {dict(week.told)}"
        )
    return week.told
