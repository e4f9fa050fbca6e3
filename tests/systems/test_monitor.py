"""The monitor's page in a real browser.

With ``TIDEGATE_SCREENSHOTS=folder`` the tests leave pictures of the page in a folder.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from inspection.checkpoints import put_state
from monitor.jobs import PLAN, PretendedJob
from state.manifests import SECOND
from systems.browser import Page, open_browser
from tidegate.monitor.server import MonitorServer
from tidegate.state.manifest import Segment, StateFile, Tables
from tidegate.state.shard_map import Shard
from tidegate.state.watermark import WatermarkState

SCRIPT = "<img src=x onerror=document.title='broken'>"
PAGES = ("/home", "/search", "/cart", "/<b>pay</b>")
CARD = "document.querySelector('.numbers-row dd')"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as page:
        page.resize(1280, 900)
        yield page


class Watched:
    """A pretended job with its page."""

    def __init__(self, folder: Path, name: str = "per_page") -> None:
        self.job = PretendedJob(checkpoint=folder / name)
        self.clock_us = 1_767_225_600 * SECOND
        self._random = random.Random(1)

    def steps(self, number: int) -> None:
        """Run steps of a second; some clicks come late."""
        for _ in range(number):
            self.clock_us += SECOND
            ages = [0.0, *(self._random.random() ** 4 * 17 for _ in range(39))]
            clicks = [
                (self.clock_us - int(age * SECOND), self._random.choice(PAGES)) for age in ages
            ]
            self.job.step(self.clock_us, clicks)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    watched = Watched(tmp_path / "checkpoint")
    watched.steps(40)
    return watched


@pytest.fixture
def server(watched: Watched) -> Iterator[MonitorServer]:
    with MonitorServer([str(watched.job.checkpoint.parent)], port=0) as server:
        yield server


def look(page: Page, server: MonitorServer, id: str = "") -> None:
    page.console.clear()
    page.requests.clear()
    page.open("about:blank")
    page.open(f"{server.url}#{id}")
    page.until(CARD)


def keep(page: Page, name: str) -> None:
    """Leave a picture, if somebody wants it."""
    folder = os.environ.get("TIDEGATE_SCREENSHOTS")
    if folder:
        page.screenshot(Path(folder) / f"{name}.png")


def number(page: Page, name: str) -> str:
    """The number that is shown under a name."""
    cells = "[...document.querySelectorAll('.numbers-row > div')]"
    found = f"{cells}.find((e) => e.firstChild.textContent === {json.dumps(name)})"
    return str(page.evaluate(f"{found}.children[1].textContent"))


def test_the_page_shows_new_steps_without_being_loaded_again(
    page: Page, watched: Watched, server: MonitorServer
) -> None:
    look(page, server)
    assert number(page, "watermark") == "00:00:36"
    watched.steps(20)
    page.until("document.querySelector('.numbers-row').innerText.includes('00:00:56')")
    late = watched.job.totals.late
    page.until(f"document.querySelector('.numbers-row').innerText.includes('{late:,}')")
    assert page.evaluate("document.querySelectorAll('svg.chart polyline').length") >= 6
    # One more than the key has.
    page.until("document.querySelectorAll('.timeline .window.closed').length >= 2")
    keep(page, "monitor")


def test_nothing_comes_from_another_host_and_nothing_is_refused_or_fails(
    page: Page, server: MonitorServer
) -> None:
    look(page, server)
    page.until("document.querySelectorAll('.timeline .bar').length > 0")
    assert {url[: len(server.url)] for url in page.requests if url != "about:blank"} == {server.url}
    assert page.console == []


def test_text_of_data_is_never_read_as_html(page: Page, tmp_path: Path) -> None:
    watched = Watched(tmp_path / "checkpoint", SCRIPT.replace("/", ""))
    explained = json.loads(json.dumps(watched.job.explained).replace("clicks", SCRIPT))
    watched.job.explained = explained
    shards = {"a": Shard(event_time_us=0, clock_us=0, name=SCRIPT)}
    watched.steps(3)
    by = WatermarkState(shards=shards, watermark_us=0, by=SCRIPT)
    watched.job.step(watched.clock_us + SECOND, [], watermark=by)
    (watched.job.checkpoint / "tidegate" / "manifests" / "9.json").write_text(SCRIPT)
    with MonitorServer([str(watched.job.checkpoint.parent)], port=0) as server:
        look(page, server)
        page.until(f"document.body.innerText.includes({json.dumps(SCRIPT)})")
        assert page.evaluate("document.querySelectorAll('main img').length") == 0
        assert "Tidegate" in str(page.evaluate("document.title"))
        assert page.console == []


def test_the_keyboard_reads_a_chart(page: Page, server: MonitorServer) -> None:
    look(page, server)
    page.until("document.querySelectorAll('svg.chart polyline').length > 0")
    page.evaluate("document.querySelector('svg.chart').focus()")
    page.press("ArrowLeft")
    readout = "document.querySelector('.under .readout').textContent"
    page.until(f"{readout}.includes('epoch 39')")
    page.press("ArrowLeft")
    page.until(f"{readout}.includes('epoch 38')")
    page.press("Home")
    page.until(f"{readout}.includes('epoch 30')")
    assert "rows read 40" in page.evaluate(readout)


def test_every_control_can_be_reached_by_the_keyboard_and_has_a_name(
    page: Page, server: MonitorServer
) -> None:
    look(page, server)
    page.until("document.querySelectorAll('.timeline .bar').length > 0")
    page.evaluate("document.body.focus()")
    reached = []
    for _ in range(60):
        page.press("Tab")
        name = page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? "
            "document.activeElement.innerText ?? ''"
        )
        if name in reached[:1]:
            break
        reached.append(name)
    text = "\n".join(reached)
    assert reached[0] == "Skip to the transform"
    for name in ("Pause", "Theme", "Rate, rows per second", "Watermark lag", "Numbers", "Plan"):
        assert name in text or name == "Plan"
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "combobox", "image", "table", "navigation", "link", "figure")
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] in roles[:-1]
        and not node.get("name", {}).get("value")
        and node["role"]["value"] != "image"
    ]
    assert nameless == []
    charts = [
        node["name"]["value"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] == "image"
        and node.get("name", {}).get("value", "")
    ]
    assert any(chart.startswith("Rate, rows per second: now rows read 40") for chart in charts)
    assert any(chart.startswith("Windows against the watermark.") for chart in charts)
    headings = [n["name"]["value"] for n in nodes if n["role"]["value"] == "heading"]
    assert headings[:2] == ["Tidegate", "per_page"]
    assert {"Rate", "Windows against the watermark", "Open windows"} <= set(headings)


# The contrast of a text with what is behind it, as WCAG defines it.
CONTRASTS = """
(() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const light = (rgb) => { const [r, g, b] = rgb.map((c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { const layers = []; for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor)); return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]); };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length) continue;
    if (e.closest('.visually-hidden, .skip, g.window, option')) continue;
    const style = getComputedStyle(e), svg = e instanceof SVGElement;
    const [a, b] = [light(parse(svg ? style.fill : style.color)), light(ground(svg ? e.closest('svg').parentElement : e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${e.tagName} ${e.className.baseVal ?? e.className} "${e.textContent.slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return found;
})()
"""  # noqa: E501


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(page: Page, server: MonitorServer, scheme: str) -> None:
    page.prefer(scheme)
    look(page, server)
    page.until("document.querySelectorAll('.timeline .bar').length > 0")
    assert page.evaluate(CONTRASTS) == []
    keep(page, f"monitor-{scheme}")
    page.prefer("light")


def test_a_phone_shows_all_without_scrolling_sideways(page: Page, server: MonitorServer) -> None:
    page.resize(360, 740, mobile=True)
    try:
        look(page, server)
        page.until("document.querySelectorAll('.timeline .bar').length > 0")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0
        small = (
            "[...document.querySelectorAll('button, select')].filter((e) => "
            "e.checkVisibility() && e.getBoundingClientRect().height < 34)"
            ".map((e) => e.textContent)"
        )
        assert page.evaluate(small) == []
        keep(page, "monitor-phone")
    finally:
        page.resize(1280, 900)


def test_the_theme_can_be_chosen_and_is_remembered(page: Page, server: MonitorServer) -> None:
    look(page, server)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate(ground) != light
    look(page, server)
    assert page.evaluate(ground) != light
    page.evaluate("document.getElementById('theme').click()")


def test_a_pause_holds_the_page_still(page: Page, watched: Watched, server: MonitorServer) -> None:
    look(page, server)
    page.evaluate("document.getElementById('pause').click()")
    shown = number(page, "watermark")
    watched.steps(5)
    server.watch.look()
    time.sleep(2)  # that long the page would have asked twice
    assert number(page, "watermark") == shown
    page.evaluate("document.getElementById('pause').click()")
    page.until("document.querySelector('.numbers-row').innerText.includes('00:00:41')")


def test_a_job_that_has_ended_and_a_damaged_checkpoint_are_told(
    page: Page, watched: Watched, server: MonitorServer
) -> None:
    look(page, server)
    page.until("document.querySelector('.badge').textContent === 'running'")
    watched.job.writer = replace(watched.job.writer, pid=2**22 + 1)
    watched.steps(1)
    page.until("document.querySelector('.badge').textContent.includes('has ended')")
    manifests = watched.job.checkpoint / "tidegate" / "manifests"
    (manifests / f"{watched.job.epoch + 1}.json").write_text("{")
    page.until("document.querySelector('[role=alert]').textContent.includes('not a valid')")
    assert number(page, "watermark") == "00:00:37"
    keep(page, "monitor-damaged")


def test_one_of_many_transforms_is_found_by_its_name(page: Page, tmp_path: Path) -> None:
    for number in range(14):
        Watched(tmp_path / "checkpoint", f"transform {number}").steps(1)
    with MonitorServer([str(tmp_path / "checkpoint")], port=0) as server:
        look(page, server)
        page.until("document.querySelectorAll('#transforms li').length === 14")
        page.evaluate("document.getElementById('find').focus()")
        page.call("Input.insertText", text="form 13")
        shown = "[...document.querySelectorAll('#transforms li')].filter((e) => !e.hidden)"
        page.until(f"{shown}.length === 1 && {shown}[0].innerText.startsWith('transform 13')")


def test_a_page_that_waits_shows_the_first_step(page: Page, tmp_path: Path) -> None:
    with MonitorServer([str(tmp_path / "later")], port=0) as server:
        page.open(server.url)
        page.until("document.body?.innerText.includes('No transform has begun yet')")
        Watched(tmp_path / "later").steps(2)
        page.until(CARD)


def test_a_million_open_windows_are_shown_at_once(page: Page, tmp_path: Path) -> None:
    checkpoint = tmp_path / "per_page"
    folder = checkpoint / "tidegate" / "segments" / "0-aa-batch"
    folder.mkdir(parents=True)
    starts = range(0, 10_000_000 * SECOND, 10 * SECOND)
    pages = ["/"] * len(starts)
    counts = [1] * len(starts)
    file = folder / "part-0.parquet"
    columns = {"_pane": list(starts), "_k0": pages, "count_1": counts}
    parquet.write_table(pyarrow.table(columns), file)
    segment = Segment(
        name=folder.name,
        first_us=0,
        last_us=starts[-1],
        rows=len(starts),
        files=(StateFile(name=file.name, bytes=file.stat().st_size),),
    )
    schema = {"_pane": "bigint", "_k0": "string", "count_1": "bigint"}
    watermark = WatermarkState(watermark_us=0)
    tables = Tables(windows=(segment,))
    put_state(checkpoint, PLAN, tables, schema=schema, watermark=watermark, clock_us=0)
    with MonitorServer([str(checkpoint)], port=0) as server:
        look(page, server)
        page.until("document.querySelector('.numbers-row').innerText.includes('1,000,000')")
        page.until("document.body.innerText.includes('the first 100 of 1,000,000')")
        assert page.evaluate("document.querySelectorAll('.timeline .bar').length") < 60
        keep(page, "monitor-million")


PIPELINE = """
[pipeline]
checkpoint = "checkpoint"
trigger = "200ms"

[sources.clicks]
format = "rate"
options = { rowsPerSecond = 50 }

[transforms.per_second]
sql = '''
SELECT value % 3 AS shop, count(*) AS n FROM clicks
GROUP BY tumblingwindow('ss', 1), value % 3 ON timestamp
'''

[sinks.out]
from = "per_second"
format = "parquet"
path = "out"
"""


def test_run_serves_the_page_of_its_pipeline(page: Page, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    command = [sys.executable, "-m", "tidegate", "run", str(tmp_path / "pipeline.toml")]
    process = subprocess.Popen(
        [*command, "--monitor-port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("monitor at http://127.0.0.1:")
        page.open(line.removeprefix("monitor at ").strip())
        page.until(CARD, seconds=120)
        page.until("document.querySelector('.badge').textContent === 'running'")
        page.until("document.querySelectorAll('.timeline .bar.closed').length > 2", seconds=60)
        page.until("document.body.innerText.includes('A sample of the newest results')")
        assert "tumblingwindow('ss', 1)" in page.text()
        keep(page, "monitor-run")
    finally:
        process.terminate()
        process.wait(timeout=60)
    assert process.returncode == 0
