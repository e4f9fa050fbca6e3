"""Every case of tests/spec: on the oracle, on Spark, and on Spark resumed after every batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from oracle.adapter import OracleEngine
from tidegate.cases import CUTS, Case, CaseResult, read_cases, run_case
from tidegate.cases.spark import SparkRuns
from waiting import WAITING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = Path(__file__).parent / "spec"
CASES = [case for path in sorted(SPEC.glob("*.case")) for case in read_cases(path)]
RUN_TODAY = [case for case in CASES if case.name not in WAITING]
WAIT = [case for case in CASES if case.name in WAITING]

# The oracle runs every cut of rows into batches; on Spark one more cut of one run is enough.
SPARK_CUTS = {name: CUTS[name] for name in ("all rows in one batch",)}


def title(case: Case) -> str:
    return f"{Path(case.path).stem}: {case.name}"


def check(result: CaseResult) -> None:
    assert result.passed, f"{result.case.name}\n{result.text()}"


@pytest.mark.parametrize("case", CASES, ids=title)
def test_the_oracle_gives_the_answers(case: Case) -> None:
    check(run_case(case, OracleEngine))


@pytest.mark.parametrize("case", RUN_TODAY, ids=title)
def test_spark_gives_the_answers(case: Case, spark: SparkSession) -> None:
    check(run_case(case, SparkRuns(spark=spark).factory(), {}))


@pytest.mark.parametrize("case", [case for case in RUN_TODAY if case.error is None], ids=title)
def test_spark_stopped_and_resumed_after_every_batch_gives_the_same(
    case: Case, interpreted: SparkSession
) -> None:
    """It does not matter either whether Spark generates code or interprets expressions."""
    check(run_case(case, SparkRuns(spark=interpreted, resume_always=True).factory(), SPARK_CUTS))


@pytest.mark.parametrize("case", WAIT, ids=title)
def test_a_waiting_case_fails_for_the_reason_that_the_list_gives(
    case: Case, spark: SparkSession
) -> None:
    failure = failure_of(case, spark)
    assert failure, f"{case.name} passes: take it off the list in tests/waiting.py"
    assert WAITING[case.name] in failure


def failure_of(case: Case, spark: SparkSession) -> str:
    """Return how a case fails on Spark, even if Spark itself stops it."""
    try:
        return run_case(case, SparkRuns(spark=spark).factory(), {}).text()
    except PySparkException as error:
        return str(error)


def test_no_waiting_case_is_unknown() -> None:
    assert set(WAITING) <= {case.name for case in CASES}


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)
