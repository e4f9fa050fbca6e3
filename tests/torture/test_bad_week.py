"""Whatever goes wrong in a week, results and side output are those of a calm one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .compare import compare
from .stream import STATEMENTS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Partials that are carried on; the others run with ``make test-all``.
QUICK = ("session",)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.whole) for kind in STATEMENTS],
)
def test_a_bad_week_gives_the_answers_of_a_calm_one(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    told = compare(spark, tmp_path, kind, seed=1, legs=1)
    assert sum(told.values()) > told["starts"], "something went wrong on the way"


@pytest.mark.whole
def test_processes_killed_at_any_moment_give_the_answers_of_a_calm_week(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert compare(spark, tmp_path, "hopping", seed=1, legs=1, processes=True)["kills"]
