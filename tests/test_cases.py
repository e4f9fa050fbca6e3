"""Every case of tests/spec: on the oracle, and on Spark.

On Spark a case runs in one of four ways: straight or stopped and resumed after every batch, with
generated code or interpreted. ``make test`` runs it in one way, ``make test-all`` in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpreted import interpreting
from oracle.adapter import OracleEngine
from side_by_side import Results, side_by_side
from tidegate.cases import CUTS, Case, CaseResult, read_cases, run_case
from tidegate.cases.spark import SparkRuns, plan_only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = Path(__file__).parent / "spec"
FILES = {path.stem: read_cases(path) for path in sorted(SPEC.glob("*.case"))}
CASES = [case for cases in FILES.values() for case in cases]
REFUSED = [case for case in CASES if case.error is not None]
# The oracle reads one dialect and knows no forms of other engines.
ORACLE_CASES = [case for case in CASES if case not in FILES["foreign"]]

# The oracle runs every cut of rows into batches; on Spark one more cut is enough.
SPARK_CUTS = {name: CUTS[name] for name in ("all rows in one batch",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a case runs on Spark."""

    resumed: bool
    interpreted: bool

    def __str__(self) -> str:
        return (
            f"{'resumed' if self.resumed else 'straight'}, "
            f"{'interpreted' if self.interpreted else 'compiled'}"
        )


WAYS = [
    Way(resumed=resumed, interpreted=interpreted)
    for resumed, interpreted in product((False, True), repeat=2)
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkRun:
    """A case and the way it runs; those that are not ``dealt`` run in the whole suite only."""

    case: Case
    way: Way
    dealt: bool

    def result(self, session: SparkSession) -> CaseResult:
        runs = SparkRuns(spark=session, resume_always=self.way.resumed)
        if not self.way.interpreted:
            return run_case(self.case, runs.factory(), SPARK_CUTS)
        with interpreting(session):
            return run_case(self.case, runs.factory(), SPARK_CUTS)


def spark_runs(cases: list[Case]) -> list[SparkRun]:
    """Every case of a file in every way; the ways are dealt out in turn, in an order by chance."""
    accepted = [case for case in cases if case.error is None]
    by_chance = sorted(accepted, key=lambda case: sha256(case.name.encode()).digest())
    return [
        SparkRun(case=case, way=way, dealt=way == WAYS[by_chance.index(case) % len(WAYS)])
        for case in accepted
        for way in WAYS
    ]


RUNS = [run for cases in FILES.values() for run in spark_runs(list(cases))]


def title(case: Case) -> str:
    return f"{Path(case.path).stem}: {case.name}"


def check(result: CaseResult) -> None:
    assert result.passed, f"{result.case.name}\n{result.text()}"


@pytest.mark.parametrize("case", ORACLE_CASES, ids=title)
def test_the_oracle_gives_the_answers(case: Case) -> None:
    check(run_case(case, OracleEngine))


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, spark: SparkSession
) -> Iterator[Results[SparkRun, CaseResult]]:
    with side_by_side(request, spark, "run", SparkRun.result) as results:
        yield results


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            run, id=f"{title(run.case)} ({run.way})", marks=[] if run.dealt else pytest.mark.whole
        )
        for run in RUNS
    ],
)
def test_spark_gives_the_answers(run: SparkRun, results: Results[SparkRun, CaseResult]) -> None:
    check(results[run])


@pytest.mark.parametrize("case", REFUSED, ids=title)
def test_a_statement_is_refused_without_spark(case: Case) -> None:
    check(run_case(case, plan_only))


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("file", FILES)
def test_a_case_is_dealt_one_way_and_a_file_all_of_them(file: str) -> None:
    dealt = [run for run in RUNS if run.dealt and Path(run.case.path).stem == file]
    cases = {run.case.name for run in RUNS if Path(run.case.path).stem == file}
    assert sorted(run.case.name for run in dealt) == sorted(cases)
    assert len({run.way for run in dealt}) == min(len(WAYS), len(cases))
