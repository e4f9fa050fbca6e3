"""The live table: on a narrow terminal columns go, the names of the queries stay."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidegate.cli.live import COLUMNS, LiveProgress
from tidegate.metrics.report import BatchReport

NAMES = ("delays_by_airport_and_hour", "ok")


def drawn(width: int) -> list[str]:
    """The lines of the table on a terminal of so many columns."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    live = LiveProgress(console)
    for name in NAMES:
        report = BatchReport(
            batch_id=12, epoch=12, clock_us=0, watermark_us=0, rows_in=1_234_567, late=31
        )
        live.batch(name, report)
    console.print(live._table())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [200, 120, 80, 60, 45, 30])
def test_names_are_whole_and_no_line_is_longer_than_the_terminal(width: int) -> None:
    lines = drawn(width)
    assert all(any(name in line for line in lines) for name in NAMES)
    assert max(map(len, lines)) <= width


def test_the_narrower_the_terminal_the_fewer_columns_and_rows_are_the_last_to_go() -> None:
    headings = [column.heading for column in COLUMNS]

    def shown(width: int) -> list[str]:
        return [each for each in headings if each in " ".join(drawn(width)).split()]

    assert shown(120) == headings
    assert shown(80) == ["batch", "rows", "watermark", "late", "errors"]
    assert shown(45) == ["rows"]
    assert shown(30) == []


def test_of_a_name_that_is_longer_than_the_terminal_the_beginning_stays() -> None:
    assert any("delays_by_ai" in line and "…" in line for line in drawn(20))
