"""What a run did, batch by batch: a drawing of its reports, and its status as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle

from tidegate.metrics.report import BatchReport, Counts
from tidegate.notebook.drawing import Drawing, Panel, Series
from tidegate.notebook.markup import Markup, facts, folded, heading, page, table
from tidegate.plan.side_output import KINDS
from tidegate.time import format_time

# More batches than this are drawn in groups, so that a bar stays wide enough to be seen.
MOST_PLACES = 120

# They show on white and on black.
COLORS = ("#2f83c7", "#d55e00", "#009e73", "#b8669a", "#808080")
_BLUE, _ORANGE, _GREEN, _PURPLE, _GREY = COLORS

# The fates of rows that go to side output, with their colors.
_UNUSED = dict(zip((kind.name for kind in KINDS), cycle((_ORANGE, _GREY, _PURPLE, _GREEN))))

_COLUMNS = (
    *("batch", "rows_in", *_UNUSED),
    *("newest event time", "watermark", "closed_windows", "rows_out"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A batch, or several consecutive ones, as drawn in one place."""

    label: str
    counts: Counts
    closed_windows: int
    rows_out: int
    event_time_us: int | None
    watermark_us: int | None


def draw_run(name: str, reports: Sequence[BatchReport]) -> Drawing:
    """Return a drawing of what a run did: its rows, late rows, watermark and closed windows.

    Args:
        name: the name of the query.
        reports: its reports, in order.
    """
    title = f"What {name} did, batch by batch"
    if not reports:
        nothing = "No batch has run yet."
        return Drawing(title=title, text=nothing, axis="", labels=(), panels=(), numbers=Markup())
    places = _places(reports)
    size = -(-len(reports) // MOST_PLACES)
    return Drawing(
        title=title,
        text=_in_words(reports),
        axis="batch" if size == 1 else f"batches, {size} in one place, named by the first",
        labels=tuple(place.label for place in places),
        panels=(
            Panel(
                title="Rows read (number)",
                series=(_counts("rows read", _BLUE, (each.counts.rows_in for each in places)),),
            ),
            _unused_rows(places),
            _times(places),
            Panel(
                title="Windows closed (number)",
                series=(_counts("closed", _GREEN, (each.closed_windows for each in places)),),
            ),
        ),
        numbers=folded("The numbers", table(_COLUMNS, map(_numbers, places))),
    )


def status_html(name: str, status: Mapping[str, object]) -> Markup:
    """Return the status of a run as a table.

    Args:
        name: the name of the query.
        status: what ``Run.status`` returns.
    """
    counts = {count: status[count] for count in Counts.__slots__}
    shown = {
        "failure": status["failure"],
        "last batch": status["batch_id"] if status["batch_id"] != -1 else "none yet",
        "watermark": status["watermark"] or "none yet",
        "open windows": status["open_windows"],
        "state rows": status["state_rows"],
        "segments": status["segments"],
        "rows read": counts.pop("rows_in"),
        **{count: value for count, value in counts.items() if value},
    }
    return page(
        heading(in_short(name, status)),
        facts((key, _shown(value)) for key, value in shown.items() if value is not None),
    )


def in_short(name: str, status: Mapping[str, object]) -> str:
    """Return the name of a run and its state: running, ended or failed."""
    state = "running" if status["active"] else "ended" if status["failure"] is None else "failed"
    return f"{name}: {state}"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _places(reports: Sequence[BatchReport]) -> list[_Place]:
    size = -(-len(reports) // MOST_PLACES)
    labels = _labels(reports)
    newest = _greatest_so_far(reports)
    return [
        _Place(
            label=labels[first],
            counts=sum((each.counts for each in group), Counts()),
            closed_windows=sum(each.closed_windows for each in group),
            rows_out=sum(each.rows_out for each in group),
            event_time_us=newest[first + len(group) - 1],
            watermark_us=group[-1].watermark_us,
        )
        for first in range(0, len(reports), size)
        for group in [reports[first : first + size]]
    ]


def _labels(reports: Sequence[BatchReport]) -> list[str]:
    """The id of each batch; a drain or flush has the id of the batch before it, and gets none."""
    before = [None, *(each.batch_id for each in reports)]
    return [
        "end" if each.batch_id == previous else str(each.batch_id)
        for each, previous in zip(reports, before, strict=False)
    ]


def _greatest_so_far(reports: Sequence[BatchReport]) -> list[int | None]:
    def later(before: int | None, now: int | None) -> int | None:
        return max((each for each in (before, now) if each is not None), default=None)

    return list(accumulate((each.event_time_us for each in reports), later))


def _counts(name: str, color: str, values: Iterable[int]) -> Series:
    return Series(name=name, color=color, values=tuple(values))


def _unused_rows(places: Sequence[_Place]) -> Panel:
    """Late rows; and those with an error, duplicates and evicted ones where there are any."""
    series = [
        _counts(fate, color, (getattr(each.counts, fate) for each in places))
        for fate, color in _UNUSED.items()
    ]
    shown = [each for each in series if each.name == "late" or any(each.values)]
    title = "Late rows" if len(shown) == 1 else "Rows that count in no window"
    return Panel(title=f"{title} (number)", series=tuple(shown))


def _times(places: Sequence[_Place]) -> Panel:
    watermark = Series(
        name="watermark", color=_ORANGE, values=[each.watermark_us for each in places]
    )
    newest = [each.event_time_us for each in places]
    if not any(time is not None for time in newest):
        return Panel(title="Watermark (UTC)", series=(watermark,), is_time=True)
    event_time = Series(name="newest event time", color=_BLUE, values=newest, dash="5 3")
    return Panel(
        title="Watermark and newest event time (UTC)", series=(event_time, watermark), is_time=True
    )


def _numbers(place: _Place) -> list[object]:
    counts = place.counts
    return [
        place.label,
        *(counts.rows_in, *(getattr(counts, fate) for fate in _UNUSED)),
        *(None if us is None else _time(us) for us in (place.event_time_us, place.watermark_us)),
        *(place.closed_windows, place.rows_out),
    ]


def _in_words(reports: Sequence[BatchReport]) -> str:
    total = sum((each.counts for each in reports), Counts())
    unused = [f"{getattr(total, fate):,} {fate}" for fate in _UNUSED if getattr(total, fate)]
    closed = sum(each.closed_windows for each in reports)
    words = f"{len(reports):,} batches read {total.rows_in:,} rows"
    words += f" ({', '.join(unused)})" if unused else ", none of them late"
    words += f" and closed {closed:,} windows."
    newest, watermark = _greatest_so_far(reports)[-1], reports[-1].watermark_us
    if watermark is not None:
        words += f" The watermark is {_time(watermark)}"
        words += f", the newest event time {_time(newest)}." if newest is not None else "."
    return words


def _time(time_us: int) -> str:
    try:
        return format_time(time_us)
    except OverflowError:
        return f"{time_us:,} µs"  # no year that has four digits
