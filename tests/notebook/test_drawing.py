"""The drawing of a run: its bars and lines are the numbers of the reports, whatever these are."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.metrics.report import BatchReport
from tidegate.notebook.drawing import WIDTH
from tidegate.notebook.progress import COLORS, MOST_PLACES, draw_run
from tidegate.notebook.scales import count_scale, time_scale
from tidegate.time import LONGEST_US

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.notebook.drawing import Drawing

SVG = "{http://www.w3.org/2000/svg}"
HOUR_US = 3_600_000_000


def report(batch_id: int, **others: object) -> BatchReport:
    facts: dict[str, object] = {
        "batch_id": batch_id,
        "epoch": batch_id,
        "clock_us": 0,
        "rows_in": 100 + batch_id,
        "event_time_us": batch_id * HOUR_US,
        "watermark_us": (batch_id - 1) * HOUR_US,
    }
    return BatchReport(**{**facts, **others})  # type: ignore[arg-type]


def read(drawn: Drawing) -> ElementTree.Element:
    """The SVG of a drawing, which must be well-formed, and the same on its own and in HTML."""
    alone = drawn._repr_svg_()
    inline = alone.replace(re.findall("<style>.*</style>", alone)[0], "")
    assert inline in drawn._repr_html_()
    return ElementTree.fromstring(alone)


def numbers(root: ElementTree.Element, series: str) -> list[int]:
    """The numbers of a series' bars, as their tooltips show them."""
    titles = [each.findtext(f"{SVG}title") or "" for each in root.iter(f"{SVG}rect")]
    found = [title.partition(": ") for title in titles]
    return [int(number.replace(",", "")) for name, _, number in found if name == series]


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def heights(root: ElementTree.Element, color: str) -> list[float]:
    bars = root.iter(f"{SVG}rect")
    return [float(bar.get("height", "0")) for bar in bars if bar.get("fill") == color]


def test_every_batch_has_its_bars() -> None:
    reports = [report(i, late=late, closed_windows=2 * i) for i, late in enumerate([0, 3, 1])]
    root = read(draw_run("clicks", reports))
    assert numbers(root, "rows read") == [100, 101, 102]
    assert numbers(root, "late") == [3, 1]
    assert numbers(root, "closed") == [2, 4]
    first, second = heights(root, COLORS[1])
    assert first == pytest.approx(3 * second, abs=0.2)


def test_other_rows_of_side_output_are_stacked_on_late_ones() -> None:
    root = read(draw_run("clicks", [report(0, late=2, error=4), report(1, duplicate=1)]))
    assert [numbers(root, fate) for fate in ("late", "error", "duplicate", "evicted")] == [
        [2],
        [4],
        [1],
        [],
    ]
    bars = {each.findtext(f"{SVG}title"): each for each in root.iter(f"{SVG}rect")}
    late, error = bars["late: 2"], bars["error: 4"]
    top_of_late = float(late.get("y", "0"))
    foot_of_error = float(error.get("y", "0")) + float(error.get("height", "0"))
    assert foot_of_error == pytest.approx(top_of_late, abs=0.2)
    assert {"late", "error", "duplicate"} <= set(texts(root)), "the legend names them"
    assert "evicted" not in texts(root)


def test_lines_show_the_watermark_below_the_newest_event_time() -> None:
    # The newest event time is the greatest so far: shards may have been forgotten.
    reports = [report(i, event_time_us=t * HOUR_US) for i, t in enumerate([0, 5, 1, 6])]
    root = read(draw_run("clicks", reports))
    lines = {each.findtext(f"{SVG}title"): each for each in root.iter(f"{SVG}polyline")}
    assert set(lines) == {"newest event time", "watermark"}
    drawn = {
        name: [float(point.split(",")[1]) for point in line.get("points", "").split()]
        for name, line in lines.items()
    }
    # In SVG a later time has a smaller y.
    assert all(a >= b for a, b in pairwise(drawn["newest event time"]))
    assert all(
        newest < watermark
        for newest, watermark in zip(drawn["newest event time"], drawn["watermark"], strict=True)
    )


def test_a_drain_is_the_end_on_the_axis_of_batches() -> None:
    root = read(draw_run("clicks", [report(7), report(8), report(8, epoch=9)]))
    shown = texts(root)
    start = shown.index("7")
    assert shown[start : start + 4] == ["7", "8", "end", "batch"]


def test_many_batches_are_drawn_in_groups_that_add_up() -> None:
    reports = [report(i, late=i % 3) for i in range(10 * MOST_PLACES + 1)]
    root = read(draw_run("clicks", reports))
    assert len(numbers(root, "rows read")) <= MOST_PLACES
    assert sum(numbers(root, "rows read")) == sum(each.rows_in for each in reports)
    assert sum(numbers(root, "late")) == sum(each.late for each in reports)
    assert "batches, 11 in one place, named by the first" in texts(root)


def test_before_the_first_batch_it_says_so() -> None:
    drawn = draw_run("clicks", [])
    assert texts(read(drawn)) == ["What clicks did, batch by batch", "No batch has run yet."]


def test_in_processing_time_there_is_no_event_time() -> None:
    root = read(draw_run("clicks", [report(0, event_time_us=None)]))
    assert "Watermark (UTC)" in texts(root)
    assert [each.findtext(f"{SVG}title") for each in root.iter(f"{SVG}polyline")] == ["watermark"]


def test_a_batch_without_anything_has_axes() -> None:
    nothing = report(0, rows_in=0, event_time_us=None, watermark_us=None)
    root = read(draw_run("clicks", [nothing]))
    assert "none yet" in texts(root)
    assert list(root.iter(f"{SVG}rect")) == []


def test_the_text_alternative_says_what_is_drawn() -> None:
    drawn = draw_run("clicks", [report(0, late=2, closed_windows=3), report(1)])
    label = read(drawn).get("aria-label", "")
    assert label == (
        "What clicks did, batch by batch. 2 batches read 201 rows (2 late) and closed 3 windows. "
        "The watermark is 1970-01-01T00:00:00Z, the newest event time 1970-01-01T01:00:00Z."
    )
    assert repr(drawn) in label.replace(". 2 batches", ": 2 batches")


def test_it_is_saved_as_a_file_that_has_colors_of_its_own(tmp_path: Path) -> None:
    draw_run("clicks", [report(0)]).save(tmp_path / "clicks.svg")
    assert "prefers-color-scheme:dark" in (tmp_path / "clicks.svg").read_text()


@pytest.mark.parametrize("color", COLORS)
def test_colors_show_on_white_and_on_black(color: str) -> None:
    def light(channel: int) -> float:
        part = channel / 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (light(int(color[i : i + 2], 16)) for i in (1, 3, 5))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert 1.05 / (luminance + 0.05) >= 3
    assert (luminance + 0.05) / 0.05 >= 3


times = st.none() | st.integers(-LONGEST_US, LONGEST_US)


@given(st.lists(st.builds(report, st.integers(0, 50), event_time_us=times, watermark_us=times)))
def test_any_reports_can_be_drawn(reports: list[BatchReport]) -> None:
    root = read(draw_run("clicks", reports))
    places = [
        float(each.get(name, "0"))
        for each in root.iter()
        for name in ("x", "x1", "x2", "cx")
        if each.get(name)
    ]
    assert all(0 <= place <= WIDTH for place in places)


@given(st.integers(0, 10**15))
def test_an_axis_of_counts_has_few_marks_and_room_for_all(greatest: int) -> None:
    scale = count_scale(greatest)
    assert scale.low == 0
    assert scale.high >= greatest
    assert 2 <= len(scale.marks) <= 6
    assert greatest == 0 or scale.place(greatest) > 0.5


@given(st.integers(-LONGEST_US, LONGEST_US), st.integers(0, 2**64))
def test_an_axis_of_times_has_few_marks_and_room_for_all(first_us: int, span_us: int) -> None:
    scale = time_scale(first_us, first_us + span_us)
    assert scale.low <= first_us <= first_us + span_us <= scale.high
    assert 2 <= len(scale.marks) <= 6
    labels = [label for _, label in scale.marks]
    assert len(set(labels)) == len(labels)
