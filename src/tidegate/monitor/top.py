"""What ``tidegate top`` draws: the transforms, and one of them in detail."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from rich.box import ASCII, SIMPLE
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from tidegate.metrics.table import FATES
from tidegate.monitor.facts import open_windows_of, rate_of
from tidegate.monitor.follower import Follower, Status
from tidegate.monitor.history import Point
from tidegate.monitor.timeline import SeenWindow
from tidegate.monitor.words import clock_time, micros, plain, seconds, short, sparkline
from tidegate.state.manifest import Manifest

_WORDS = {
    Status.WAITING: "not begun",
    Status.RUNNING: "running",
    Status.ENDED: "ended",
    Status.ELSEWHERE: "elsewhere",
}
_STYLES = {Status.RUNNING: "green", Status.ENDED: "dim", Status.WAITING: "dim"}

# The columns of the list of transforms, and how wide a screen must be to have each.
_COLUMNS = {
    "rows/s": 0,
    "watermark": 44,
    "lag": 0,
    "late": 52,
    "open": 60,
    "out": 68,
    "step": 76,
}

# Windows that are drawn: lines of the timeline.
_MOST_BARS = 10

_RECENT = 10

# Lines of each sample.
_SAMPLED = 3


@dataclass(frozen=True, slots=True)
class Top:
    """The screen, as something that rich can draw at any width.

    Attributes:
        followers: the transforms by their ids.
        chosen: the id of the one that is shown in detail; None: the first.
    """

    followers: Mapping[str, Follower]
    chosen: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the screen."""
        if not self.followers:
            yield Text("No transform has begun yet.")
            return
        utf8 = options.encoding.startswith("utf")
        chosen = self.chosen
        if chosen is None or chosen not in self.followers:
            chosen = next(iter(self.followers))
        yield _overview(self.followers, chosen, options.max_width, utf8=utf8)
        follower = self.followers[chosen]
        problems = [follower.problem, follower.state.problem]
        detail: RenderableType = Text()
        if follower.manifest is not None:
            try:
                detail = _detail(follower, follower.manifest, options.max_width, utf8=utf8)
            except Exception as error:  # a damaged manifest may hold anything
                problems.append(f"The newest manifest makes no sense: {error}")
        for problem in problems:
            if problem is not None:
                yield Text(plain_lines(problem), style="red")
        yield detail


def plain_lines(text: str) -> str:
    """Return lines without characters that control a terminal."""
    return "\n".join(map(plain, text.splitlines()))


def _overview(followers: Mapping[str, Follower], chosen: str, width: int, *, utf8: bool) -> Table:
    table = Table(box=SIMPLE if utf8 else ASCII, padding=(0, 1), pad_edge=False, expand=False)
    table.add_column("transform", overflow="fold", min_width=8)
    table.add_column("status", no_wrap=True)
    columns = [name for name, least in _COLUMNS.items() if width >= least]
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for id, follower in followers.items():
        status, cells = follower.status, {}
        broken = follower.problem is not None
        if follower.manifest is not None:
            try:
                cells = _cells(follower, follower.manifest)
            except Exception:  # a damaged manifest may hold anything
                broken = True
        words = Text("problem" if broken else _WORDS[status])
        words.stylize("red" if broken else _STYLES.get(status, ""))
        name = Text(plain(id), style="bold" if id == chosen and len(followers) > 1 else "")
        table.add_row(name, words, *(cells.get(each, "") for each in columns))
    return table


def _cells(follower: Follower, manifest: Manifest) -> dict[str, str]:
    points = follower.points()
    duration_ms = points[-1].duration_ms if points else None
    return {
        "rows/s": short(rate_of(points[-_RECENT:])),
        "watermark": clock_time(manifest.watermark.watermark_us),
        "lag": micros(points[-1].lag_us if points else None),
        "late": short(manifest.totals.late),
        "open": short(open_windows_of(follower)),
        "out": short(manifest.emitted.rows_out),
        "step": seconds(None if duration_ms is None else duration_ms / 1000),
    }


def _detail(follower: Follower, manifest: Manifest, width: int, *, utf8: bool) -> RenderableType:
    points = follower.points()
    parts: list[RenderableType] = [_about(follower, manifest)]
    charts = Table.grid(padding=(0, 1))
    charts.add_column(no_wrap=True)
    charts.add_column(no_wrap=True)
    charts.add_column(no_wrap=True, justify="right")
    room = max(10, width - 32)
    for name, values, now in _series(points):
        charts.add_row(Text(name, style="dim"), Text(sparkline(values, room, utf8=utf8)), now)
    parts += [charts, Text()]
    parts += _timeline(follower.windows(), manifest, width, utf8=utf8)
    note = follower.state.windows.note
    if note is not None:
        parts.append(Text(plain(note), style="dim"))
    parts += [Text(), _rows(manifest), *_shards(follower, manifest), *_samples(follower)]
    if points and points[0].clock_us is not None:
        parts.append(Text(f"charts since {clock_time(points[0].clock_us)} UTC", style="dim"))
    return Group(*parts)


def _about(follower: Follower, manifest: Manifest) -> Text:
    window = plain(manifest.fingerprint.get("window", ""))
    keys = [] if follower.plan is None else list(follower.plan.keys.values())
    told = [follower.name, window, f"epoch {manifest.epoch}"]
    if keys:
        told.insert(2, f"by {', '.join(keys)}")
    if follower.committed_s is not None:
        ago = max(0, round(time.time() - follower.committed_s))
        told.append(f"last step {seconds(ago)} ago")
    return Text(" · ".join(map(plain, told)), style="bold")


def _series(points: Sequence[Point]) -> list[tuple[str, list[float | None], str]]:
    """The lines of the charts: a name, the values, and the newest one with its unit."""
    rows = [point.rate(point.counts.rows_in) for point in points]
    lags = [None if point.lag_us is None else point.lag_us / 1_000_000 for point in points]
    late = [point.rate(point.counts.late) for point in points]
    steps = [None if point.duration_ms is None else point.duration_ms / 1000 for point in points]
    return [
        ("rows/s", rows, short(rows[-1] if rows else None)),
        ("lag", lags, seconds(lags[-1] if lags else None)),
        ("late/s", late, short(late[-1] if late else None)),
        ("step", steps, seconds(steps[-1] if steps else None)),
    ]


def _timeline(
    windows: Sequence[SeenWindow], manifest: Manifest, width: int, *, utf8: bool
) -> list[Text]:
    """Windows as bars over event time, each with its end and size; the watermark is a line."""
    watermark_us = manifest.watermark.watermark_us
    closed = [each for each in windows if each.is_closed]
    still_open = [each for each in windows if not each.is_closed]
    shown = [*closed[-3:], *still_open[: _MOST_BARS - 3]]
    if not shown:
        return [Text("no open windows", style="dim")]
    first = min(each.window.start_us for each in shown)
    last = max(each.window.end_us for each in shown)
    if watermark_us is not None:
        length = max(each.window.end_us - each.window.start_us for each in shown)
        first, last = (
            min(first, max(watermark_us, first - 2 * length)),
            max(last, min(watermark_us, last + 2 * length)),
        )
    room = max(10, width - 36)

    def column(time_us: int) -> int:
        return max(0, min(room, round((time_us - first) / max(1, last - first) * room)))

    at = None if watermark_us is None else min(room - 1, column(watermark_us))
    block, line = ("█", "│") if utf8 else ("#", "|")
    lines = []
    for each in shown:
        window = each.window
        left, right = column(window.start_us), column(window.end_us)
        bar = " " * left + block * max(1, right - left)
        text = Text(bar[:room].ljust(room))
        ended = watermark_us is not None and window.end_us <= watermark_us
        style = "dim" if each.is_closed else "yellow" if ended else "cyan"
        text.stylize(style)
        if at is not None:
            text = Text.assemble(text[:at], (line, "bold blue"), text[at + 1 :])
        state = "closed" if each.is_closed else "ended" if ended else "open"
        size = "" if window.groups is None else f"{short(window.groups)} groups"
        ends = clock_time(window.end_us, watermark_us)
        lines.append(Text.assemble(text, f" {ends[-19:]:>9} {state:<6} {size}"))
    if at is not None:
        label = f"W {clock_time(watermark_us)}"
        left = at if at + len(label) <= width else at - len(label)
        lines.insert(0, Text(" " * max(0, left) + label, style="bold blue"))
    return lines


def _shards(follower: Follower, manifest: Manifest) -> list[Text]:
    """The shards that are furthest behind, each with its rows on a line."""
    shards = follower.state.shards
    if manifest.watermark.by is None or not shards:
        return []
    behind = nsmallest(_SAMPLED, shards.values(), key=lambda shard: shard.event_time_us)
    lines = [Text(), Text(f"shards {len(shards):,}, furthest behind", style="dim")]
    for shard in behind:
        name = "NULL" if shard.name is None else shard.name
        told = [name, clock_time(shard.event_time_us), f"rows {shard.rows:,}"]
        told += [f"{counted} {number:,}" for counted, number in shard.counts.items()]
        lines.append(Text(plain(" · ".join(told)), no_wrap=True, overflow="ellipsis"))
    return lines


def _samples(follower: Follower) -> list[Text]:
    """The newest results, and records of side output, each on a line."""
    lines = []
    for title, rows in (
        ("latest results", follower.results()),
        ("side output", follower.side_output()),
    ):
        if rows:
            lines += [Text(), Text(title, style="dim")]
            lines += [
                Text(plain(row.text), no_wrap=True, overflow="ellipsis") for row in rows[:_SAMPLED]
            ]
    return lines


def _rows(manifest: Manifest) -> Text:
    """Rows by what became of them, and what of side output was not written."""
    totals = manifest.totals
    told = [f"rows {totals.rows_in:,}"]
    told += [
        f"{fate.replace('_', ' ')} {number:,}"
        for fate in FATES
        if (number := getattr(totals, fate))
    ]
    told += [f"results {manifest.emitted.rows_out:,}"]
    if manifest.emitted.result_errors:
        told.append(f"failed results {manifest.emitted.result_errors:,}")
    if manifest.dropped.total:
        told.append(f"side output not written {manifest.dropped.total:,}")
    return Text(" · ".join(told))
