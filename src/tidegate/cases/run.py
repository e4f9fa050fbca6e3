"""Runs a case on an engine; it fails at the first difference."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from typing import TypeAlias, assert_never

from tidegate.cases.compare import Difference, compare_rows, compare_side, render
from tidegate.cases.model import (
    SIDE_BLOCKS,
    Batch,
    Case,
    CaseEngine,
    CaseError,
    Cell,
    Clock,
    Drain,
    EngineFactory,
    Expected,
    Flush,
    Observed,
    Rows,
    Stop,
)
from tidegate.cases.parse import read_cases
from tidegate.cases.values import show_value
from tidegate.errors import TidegateError
from tidegate.spark.failures import reason_of
from tidegate.time import to_datetime

Row: TypeAlias = tuple[object, ...]
# Splits the rows of a case into batches, in order.
Cut: TypeAlias = Callable[[Sequence[Row]], list[tuple[Row, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of a case; ``lines`` describe the failure and are empty if it passed."""

    case: Case
    lines: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.lines

    def text(self, *, colors: bool = False) -> str:
        """Return the description of the failure, ready to print."""
        return "\n".join(render(self.lines, colors=colors))


def all_at_once(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Cut rows into one batch."""
    return [tuple(rows)]


def one_by_one(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Cut rows into batches of one row."""
    return [(row,) for row in rows]


def at_random(seed: int) -> Cut:
    """Return a function that cuts rows into batches of one to four, the same on every run."""

    def cut(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
        sizes = random.Random(seed)
        batches, start = [], 0
        while start < len(rows):
            end = start + sizes.randint(1, 4)
            batches.append(tuple(rows[start:end]))
            start = end
        return batches

    return cut


CUTS: dict[str, Cut] = {
    "all rows in one batch": all_at_once,
    "one row a batch": one_by_one,
    "a random cut (1)": at_random(1),
    "a random cut (2)": at_random(2),
}


def run_case(
    case: Case, factory: EngineFactory, cuts: Mapping[str, Cut] | None = None
) -> CaseResult:
    """Run a case and return its result.

    Args:
        case: the case.
        factory: makes an engine; called once for each cut.
        cuts: the cuts to try if the case has ``cuts = "any"``; ``CUTS`` by default.
    """
    try:
        if case.error is not None:
            return CaseResult(case=case, lines=_check_refused(case, factory))
        lines = _run_steps(case, factory)
        if not lines and case.any_cuts:
            lines = _run_cuts(case, factory, CUTS if cuts is None else cuts)
    except TidegateError as error:
        lines = (
            f"{case.path}, line {case.line}: the case stopped with an error",
            *str(error).splitlines(),
        )
    return CaseResult(case=case, lines=lines)


def run_files(
    paths: Iterable[str | PathLike[str]],
    factory: EngineFactory | None = None,
    echo: Callable[[str], None] = print,
) -> int:
    """Run the cases of files, print a line for each and a summary; return the number of failures.

    A file that cannot be read counts as one failure, and so does a case that stops with any error;
    the other cases still run. Without a factory, cases run on local Spark, started with the first
    case.
    """
    colors = sys.stdout.isatty()
    passed = failed = 0
    for path in paths:
        try:
            cases = read_cases(path)
        except CaseError as error:
            failed += 1
            echo(f"FAIL {path}\n{_indent(str(error))}")
            continue
        for case in cases:
            factory = factory or _local_spark()
            result = _result(case, factory)
            if result.passed:
                passed += 1
                echo(f"ok   {case.name}")
            else:
                failed += 1
                echo(f"FAIL {case.name}\n{_indent(result.text(colors=colors))}")
    echo(f"{passed} passed, {failed} failed")
    return failed


def _result(case: Case, factory: EngineFactory) -> CaseResult:
    """Return what came of a case; whatever it stopped with is its failure, not that of the run."""
    try:
        return run_case(case, factory)
    except Exception as error:
        lines = f"{case.path}, line {case.line}: the case stopped with an error", reason_of(error)
        return CaseResult(case=case, lines=lines)


def _local_spark() -> EngineFactory:
    from tidegate.cases.spark import SparkRuns
    from tidegate.spark.session import local_session

    return SparkRuns(spark=local_session()).factory()


def _indent(text: str) -> str:
    return "\n".join(f"     {line}" if line else "" for line in text.splitlines())


def _check_refused(case: Case, factory: EngineFactory) -> tuple[str, ...]:
    place = f"{case.path}, line {case.line}"
    expected = f"expected an error that contains: {case.error}"
    try:
        factory(case).close()
    except TidegateError as error:
        if case.error is not None and case.error in str(error):
            return ()
        return (f"{place}: the error is another one", expected, "found", *str(error).splitlines())
    return (f"{place}: the statement was not refused", expected)


def _run_steps(case: Case, factory: EngineFactory) -> tuple[str, ...]:
    everything: list[Mapping[str, object]] = []
    columns: tuple[str, ...] = ()
    with closing(factory(case)) as engine:
        for step in case.steps:
            match step:
                case Stop():
                    engine.stop()
                    continue
                case Batch():
                    observed = engine.batch(step.rows, step.clock_us)
                case Clock():
                    observed = engine.clock(step.clock_us)
                case Drain():
                    observed = engine.drain()
                case Flush():
                    observed = engine.flush()
                case _:
                    assert_never(step)
            columns = observed.columns
            everything.extend(observed.emitted)
            place = f"{case.path}, line {step.line}, {type(step).__name__.lower()}"
            lines = _check_step(case, step.expected, observed) or _check_sum(engine.counts())
            if lines:
                return (f"{place}: {lines[0]}", *lines[1:])
        return _check_end(case, engine, everything, columns)


def _check_step(case: Case, expected: Expected, observed: Observed) -> tuple[str, ...]:
    if expected.checks_watermark and expected.watermark_us != observed.watermark_us:
        wanted, found = _show_time(expected.watermark_us), _show_time(observed.watermark_us)
        return (f"the watermark is {found}, expected {wanted}",)
    emitted = expected.emitted if expected.emitted is not None or case.final is not None else Rows()
    if emitted is not None:
        difference = compare_rows(emitted, observed.emitted, observed.columns, ordered=case.ordered)
        if difference is not None:
            return _failure("emitted", difference)
    source = tuple(column.name for column in case.stream.columns)
    for block, kind in SIDE_BLOCKS.items():
        difference = compare_side(
            expected.side.get(kind, Rows()), observed.side.get(kind, ()), source
        )
        if difference is not None:
            return _failure(block, difference)
    return ()


def _check_sum(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Every row read is counted exactly once."""
    fates = [name for name in counts if name not in ("rows_in", "partial")]
    if counts["rows_in"] == sum(counts[name] for name in fates):
        return ()
    listed = " + ".join(f"{name} {counts[name]}" for name in fates)
    return (f"rows_in {counts['rows_in']} is not {listed}",)


def _check_end(
    case: Case,
    engine: CaseEngine,
    everything: Sequence[Mapping[str, object]],
    columns: tuple[str, ...],
) -> tuple[str, ...]:
    place = f"{case.path}, line {case.line}"
    if case.final is not None:
        difference = compare_rows(case.final, everything, columns, ordered=False)
        if difference is not None:
            first, *rest = _failure("final", difference)
            return (f"{place}: {first}", *rest)
    counts = engine.counts()
    for name, value in case.counts.items():
        if counts[name] != value:
            return (f"{place}: counts: {name} is {counts[name]}, expected {value}",)
    return ()


def _run_cuts(case: Case, factory: EngineFactory, cuts: Mapping[str, Cut]) -> tuple[str, ...]:
    rows = [row for step in case.steps if isinstance(step, Batch) for row in step.rows]
    expected = case.final or _all_emitted(case)
    columns = tuple(column.name for column in case.stream.columns)
    for name, cut in cuts.items():
        emitted: list[Mapping[str, object]] = []
        with closing(factory(case)) as engine:
            observed = [engine.batch(batch, None) for batch in cut(rows)]
            for step in case.steps:
                if isinstance(step, Drain):
                    observed.append(engine.drain())
                elif isinstance(step, Flush):
                    observed.append(engine.flush())
        for each in observed:
            emitted.extend(each.emitted)
        difference = compare_rows(expected, emitted, observed[-1].columns, ordered=False)
        if difference is not None:
            first, *rest = _failure("the results", difference)
            return (f"{case.path}, line {case.line}, with {name}: {first}", *rest)
        for block, kind in SIDE_BLOCKS.items():
            side = [row for each in observed for row in each.side.get(kind, ())]
            difference = compare_side(_all_of_side(case, kind), side, columns)
            if difference is not None:
                first, *rest = _failure(block, difference)
                return (f"{case.path}, line {case.line}, with {name}: {first}", *rest)
    return ()


def _all_emitted(case: Case) -> Rows:
    return _together(step.expected.emitted for step in case.steps if not isinstance(step, Stop))


def _all_of_side(case: Case, kind: str) -> Rows:
    return _together(
        step.expected.side.get(kind) for step in case.steps if not isinstance(step, Stop)
    )


def _together(tables: Iterable[Rows | None]) -> Rows:
    filled = [table for table in tables if table is not None and table.rows]
    if not filled:
        return Rows()
    columns = filled[0].columns
    rows: list[tuple[Cell, ...]] = []
    for table in filled:
        order = [table.columns.index(name) for name in columns]
        rows.extend(tuple(row[i] for i in order) for row in table.rows)
    return Rows(columns=columns, rows=tuple(rows))


def _failure(what: str, difference: Difference) -> tuple[str, ...]:
    return (f"{what}: {difference.why}", *difference.lines)


def _show_time(time_us: int | None) -> str:
    return "none" if time_us is None else show_value(to_datetime(time_us))
