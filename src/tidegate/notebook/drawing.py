"""Drawings: panels below one another that share the axis of the batches, as SVG.

Text and lines take the color of the page around them, so the drawing suits light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.notebook.markup import Markup, element, page, together
from tidegate.notebook.scales import NOTHING, Scale, count_scale, time_scale
from tidegate.paths import StrPath

WIDTH = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 16, 52, 40
_PANEL, _SPACE = 84, 40
_MOST_LABELS = 12
_MOST_DOTS = 40

# A drawing that is a file of its own has no page that gives it a color.
_ALONE = "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of one thing, batch by batch; None where there is no value.

    Attributes:
        name: what it is.
        color: its color, which shows on white and on black.
        values: counts, or times in microseconds.
        dash: the pattern of its line, so that it is not told by its color alone.
    """

    name: str
    color: str
    values: Sequence[int | None]
    dash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One or more series over the batches.

    Attributes:
        title: what they are, with the unit.
        series: stacked bars of counts, or lines of times.
        is_time: whether the values are times.
    """

    title: str
    series: tuple[Series, ...]
    is_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawing that a notebook shows; ``save`` writes it to a file.

    Attributes:
        title: the line above it.
        text: the same in words, for those who do not see it.
        axis: the title of the axis that the panels share.
        labels: the label of each place on it.
        panels: from top to bottom; none: nothing has happened yet.
        numbers: the numbers as a table, for HTML.
    """

    title: str
    text: str
    axis: str
    labels: tuple[str, ...]
    panels: tuple[Panel, ...]
    numbers: Markup

    def save(self, path: StrPath) -> None:
        """Write the drawing to an SVG file."""
        Path(path).write_text(self._repr_svg_(), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self._svg(element("style", Markup(_ALONE)))

    def _repr_html_(self) -> str:
        return page(self._svg(), self.numbers)

    def __repr__(self) -> str:
        return f"{self.title}: {self.text}"

    def _svg(self, *style: Markup) -> Markup:
        height = _TOP + len(self.panels) * (_PANEL + _SPACE) - _SPACE + _BOTTOM
        parts = [
            element("title", self.title),
            element("desc", self.text),
            *style,
            _text(_LEFT, 20, self.title, size=15, weight="bold"),
            *(
                _panel(panel, _TOP + number * (_PANEL + _SPACE))
                for number, panel in enumerate(self.panels)
            ),
        ]
        if self.panels:
            parts.append(_batch_axis(self.axis, self.labels, height - _BOTTOM))
        else:
            height = 64
            parts.append(_text(_LEFT, 46, self.text))
        return element(
            "svg",
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {height}",
            width=WIDTH,
            height=height,
            role="img",
            aria_label=f"{self.title}. {self.text}",
            style="max-width: 100%; height: auto; background: transparent",
            font_family="sans-serif",
            font_size=12,
            fill="currentColor",
        )


def _panel(panel: Panel, top: float) -> Markup:
    scale = _scale(panel)
    lines = (_grid_line(scale, value, label, top) for value, label in scale.marks)
    draw = _lines if panel.is_time else _bars
    return element(
        "g",
        _text(_LEFT, top - 9, panel.title, weight="bold"),
        *_legend(panel, top - 9),
        *lines,
        *draw(panel.series, scale, top),
    )


def _scale(panel: Panel) -> Scale:
    if panel.is_time:
        times = [value for each in panel.series for value in each.values if value is not None]
        return time_scale(min(times), max(times)) if times else NOTHING
    stacked = (
        sum(value or 0 for value in values)
        for values in zip(*(each.values for each in panel.series), strict=True)
    )
    return count_scale(max(stacked, default=0))


def _grid_line(scale: Scale, value: int, label: str, top: float) -> Markup:
    y = _y(scale, value, top)
    return together(
        [
            element(
                "line",
                x1=_LEFT,
                x2=WIDTH - _RIGHT,
                y1=y,
                y2=y,
                stroke="currentColor",
                stroke_opacity=0.5 if value == scale.low else 0.15,
            ),
            _text(_LEFT - 8, y + 4, label, anchor="end", size=11),
        ]
    )


def _legend(panel: Panel, y: float) -> Iterator[Markup]:
    """The names of the series with their colors, from the right; none for a single one."""
    if len(panel.series) == 1:
        return
    x: float = WIDTH - _RIGHT
    for each in reversed(panel.series):
        yield _text(x, y, each.name, anchor="end", size=11)
        x -= 6.2 * len(each.name) + 8
        if panel.is_time:
            yield element(
                "line",
                x1=x - 18,
                x2=x,
                y1=y - 4,
                y2=y - 4,
                stroke=each.color,
                stroke_width=2,
                stroke_dasharray=each.dash,
            )
        else:
            yield element("rect", x=x - 12, y=y - 9, width=10, height=10, fill=each.color)
        x -= 30


def _bars(series: tuple[Series, ...], scale: Scale, top: float) -> Iterator[Markup]:
    """Bars of counts, one on top of the other, each with its number as a tooltip."""
    step = _step(len(series[0].values))
    for place in range(len(series[0].values)):
        below = 0
        for each in series:
            value = each.values[place] or 0
            if value == 0:
                continue
            y, foot = _y(scale, below + value, top), _y(scale, below, top)
            yield element(
                "rect",
                element("title", f"{each.name}: {value:,}"),
                x=_number(_LEFT + (place + 0.12) * step),
                width=_number(step * 0.76),
                y=y,
                height=max(1, _number(foot - y)),
                fill=each.color,
            )
            below += value


def _lines(series: tuple[Series, ...], scale: Scale, top: float) -> Iterator[Markup]:
    """A line for each series; where there are few values, a dot shows each of them."""
    for each in series:
        step = _step(len(each.values))
        points = [
            (_number(_LEFT + (place + 0.5) * step), _y(scale, value, top))
            for place, value in enumerate(each.values)
            if value is not None
        ]
        yield element(
            "polyline",
            element("title", each.name),
            points=" ".join(f"{x},{y}" for x, y in points),
            fill="none",
            stroke=each.color,
            stroke_width=2,
            stroke_dasharray=each.dash,
        )
        if len(points) <= _MOST_DOTS:
            yield from (element("circle", cx=x, cy=y, r=2.5, fill=each.color) for x, y in points)


def _batch_axis(title: str, labels: Sequence[str], y: float) -> Markup:
    """Labels below the last panel, as many as there is room for."""
    every = -(-len(labels) // _MOST_LABELS)
    step = _step(len(labels))
    return together(
        [
            *(
                _text(_LEFT + (place + 0.5) * step, y + 15, label, anchor="middle", size=11)
                for place, label in enumerate(labels)
                if place % every == 0
            ),
            _text((_LEFT + WIDTH - _RIGHT) / 2, y + 33, title, anchor="middle"),
        ]
    )


def _step(places: int) -> float:
    """The width of a place on the axis of the batches; few of them stay narrow."""
    return (WIDTH - _LEFT - _RIGHT) / max(places, 8)


def _y(scale: Scale, value: int, top: float) -> float:
    return _number(top + _PANEL * (1 - scale.place(value)))


def _number(value: float) -> float:
    return round(value, 1)


def _text(  # noqa: PLR0913 - all but the text and its place are options by keyword
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str | None = None,
) -> Markup:
    attributes: Mapping[str, str | float | None] = {"font_size": size, "font_weight": weight}
    return element("text", text, x=_number(x), y=_number(y), text_anchor=anchor, **attributes)
