"""Metrics: what is served, and that the page, the dashboard and the alerts follow the table."""

from __future__ import annotations

import re
import runpy
import socket
import urllib.request
from dataclasses import fields
from pathlib import Path
from urllib.error import URLError

import pytest

import tidegate as tg
from tidegate.metrics.recorder import Recorder
from tidegate.metrics.report import PHASES, BatchReport, Counts, Dropped
from tidegate.metrics.server import serve_metrics
from tidegate.metrics.shards import MOST_SHARDS, UNUSED, StepShards
from tidegate.metrics.table import ALL, CAUSES, FATES
from tidegate.state.shard_map import Shard

ROOT = Path(__file__).parents[2]


def report(**others: object) -> BatchReport:
    facts: dict[str, object] = {
        "batch_id": 3,
        "epoch": 4,
        "clock_us": 90_000_000,
        "watermark_us": 60_500_000,
        "rows_in": 7,
        "accumulated": 5,
        "late": 2,
        "closed_windows": 1,
        "state_bytes": 2048,
        "phases_ms": {"ingest": 40, "close": 260},
        "duration_ms": 310,
    }
    return BatchReport(**{**facts, **others})  # type: ignore[arg-type]


def served(recorder: Recorder) -> dict[str, float]:
    """The samples that Prometheus would read, by name and labels."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(recorder)
    lines = generate_latest(registry).decode().splitlines()
    return {
        name: float(value)
        for line in lines
        if not line.startswith("#")
        for name, value in [line.rsplit(" ", 1)]
    }


def test_counters_add_up_gauges_are_the_last_ones_and_histograms_have_buckets() -> None:
    recorder = Recorder()
    recorder.record("delays", report())
    recorder.record("delays", report(late=1, rows_in=6, state_bytes=10, duration_ms=60))
    recorder.record("other", report(watermark_us=None))
    found = served(recorder)
    assert found['tidegate_rows_read_total{transform="delays"}'] == 13
    assert found['tidegate_rows_total{fate="late",transform="delays"}'] == 3
    assert found['tidegate_state_bytes{transform="delays"}'] == 10
    assert found['tidegate_watermark_lag_seconds{transform="delays"}'] == 29.5
    assert 'tidegate_watermark_lag_seconds{transform="other"}' not in found
    assert found['tidegate_step_seconds_bucket{le="0.1",transform="delays"}'] == 1
    assert found['tidegate_step_seconds_bucket{le="0.5",transform="delays"}'] == 2
    assert found['tidegate_step_seconds_count{transform="delays"}'] == 2
    assert found['tidegate_step_seconds_sum{transform="delays"}'] == pytest.approx(0.37)
    assert found['tidegate_phase_seconds_sum{phase="close",transform="delays"}'] == 0.52


def test_restarts_are_counted_from_zero_by_their_cause() -> None:
    recorder = Recorder()
    for times in (0, 1, 1):
        recorder.restarted("delays", "kafka", times=times)
    recorder.restarted("delays", "database", times=0)
    found = served(recorder)
    assert found['tidegate_restarts_total{cause="kafka",transform="delays"}'] == 2
    assert found['tidegate_restarts_total{cause="database",transform="delays"}'] == 0


def test_written_records_are_counted_by_reason() -> None:
    recorder = Recorder()
    recorder.record("delays", report(reasons={"late": 2, "invalid_cast": 1}))
    recorder.record("delays", report(reasons={"late": 1}))
    found = served(recorder)
    name = 'tidegate_side_output_written_total{{reason="{}",transform="delays"}}'
    assert (found[name.format("late")], found[name.format("invalid_cast")]) == (3, 1)


def test_of_many_shards_those_furthest_behind_are_shown_and_all_are_counted() -> None:
    recorder = Recorder()
    after = {
        str(n): Shard(event_time_us=n * 1_000_000, clock_us=0, name=f"s{n}") for n in range(1000)
    }
    recorder.record("delays", report(), StepShards(before={}, after=after))
    found = served(recorder)
    shown = [name for name in found if name.startswith("tidegate_shard_event_time_seconds")]
    assert len(shown) == MOST_SHARDS
    assert found['tidegate_shard_event_time_seconds{shard="s99",transform="delays"}'] == 99
    assert found['tidegate_shards{transform="delays"}'] == 1000


def test_a_shard_that_has_a_series_keeps_it_and_the_rest_are_others() -> None:
    def shards(*rows: tuple[int, int], late: int = 0) -> dict[str, Shard]:
        counts = {"late": late} if late else {}
        return {
            f"id{n}": Shard(event_time_us=0, clock_us=0, name=f"s{n}", rows=number, counts=counts)
            for n, number in rows
        }

    recorder = Recorder()
    first = shards(*((n, n) for n in range(1, MOST_SHARDS + 3)))
    total = sum(shard.rows for shard in first.values())
    recorder.record("t", report(rows_in=total + 5, late=1), StepShards(before={}, after=first))
    then = {**first, **shards((1, 1_001), (9, 12), late=2)}
    recorder.record("t", report(rows_in=1_003, late=4), StepShards(before=first, after=then))
    found = served(recorder)
    rows = {name: n for name, n in found.items() if name.startswith("tidegate_shard_rows_read")}
    name = 'tidegate_shard_rows_read_total{{shard="{}",transform="t"}}'
    # At first the two shards with the fewest rows are left over, and so are rows of no known shard.
    assert (rows[name.format("s9")], rows[name.format("other")]) == (12, 1 + 2 + 5 + 1_000)
    assert name.format("s1") not in rows
    assert len(rows) == MOST_SHARDS + 1
    assert sum(rows.values()) == total + 5 + 1_003
    late = 'tidegate_shard_rows_total{{fate="late",shard="{}",transform="t"}}'
    assert (found[late.format("s9")], found[late.format("other")]) == (2, 1 + 2)


def test_a_shard_that_was_forgotten_and_came_back_counts_on() -> None:
    recorder = Recorder()

    def record(before: int, after: int, rows_in: int) -> None:
        shards = [
            {"x": Shard(event_time_us=1, clock_us=clock, name="x", rows=rows)} if rows else {}
            for clock, rows in enumerate((before, after))
        ]
        recorder.record("t", report(rows_in=rows_in), StepShards(before=shards[0], after=shards[1]))

    record(0, 1_000, rows_in=1_000)
    record(1_000, 10, rows_in=10)
    read = 'tidegate_shard_rows_read_total{{shard="{}",transform="t"}}'
    found = served(recorder)
    assert found[read.format("x")] == 1_010
    assert read.format("other") not in found


def test_every_fate_cause_and_phase_is_one_of_the_report() -> None:
    summed = {each.name for each in fields(Counts)} - {
        "rows_in",
        "partial",
        "processing_time_fallback",
    }
    assert set(FATES) == summed
    assert set(UNUSED) <= summed
    assert set(CAUSES) == {each.name for each in fields(Dropped)}
    recorder = Recorder()
    shard = Shard(event_time_us=1, clock_us=1, name="s", rows=2, counts={"late": 1, "partial": 1})
    told = report(phases_ms=dict.fromkeys(PHASES, 1), reasons={"late": 1}, partial=1)
    recorder.record("t", told, StepShards(before={}, after={"id": shard}))
    recorder.restarted("t", "kafka")
    found = served(recorder)
    for metric in ALL:
        label = metric.label or 'transform="t"'
        assert any(name.startswith(metric.name) and label in name for name in found), metric.name


def test_metrics_are_served_on_loopback_until_the_server_is_closed() -> None:
    with serve_metrics(port=0) as server:
        assert server.host == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            assert "# TYPE tidegate_rows_total counter" in answer.read().decode()
    # What is closed listens no more.
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics")


def test_a_port_that_is_wrong_or_in_use_is_refused_with_the_mend() -> None:
    for port in (-1, 70000, "9464", None, True):
        with pytest.raises(tg.ConfigError, match="whole number from 0 to 65535"):
            serve_metrics(port=port)  # type: ignore[arg-type]
    with pytest.raises(tg.ConfigError, match="it must be an address"):
        serve_metrics(port=0, host="")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(tg.ConfigError, match=f"127.0.0.1:{port}: Address already in use"):
            serve_metrics(port=port)


def test_the_page_and_the_dashboard_are_those_of_the_table() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_metrics.py"))
    told = "run python scripts/write_metrics.py"
    assert (ROOT / "docs/metrics.md").read_text() == script["page"](), told
    assert (ROOT / "examples/monitoring/dashboard.json").read_text() == script["dashboard"](), told


def test_the_alerts_use_metrics_that_exist_and_are_on_the_page() -> None:
    alerts = (ROOT / "examples/monitoring/alerts.yml").read_text()
    used = set(re.findall(r"\btidegate_\w+", alerts))
    names = {each.name for each in ALL}
    assert used
    assert {name.removesuffix("_bucket") for name in used} <= names
    page = (ROOT / "docs/metrics.md").read_text()
    named = re.findall(r"alert: (\w+)", alerts)
    assert all(f"| `{name}` |" in page for name in named)
    tested = (ROOT / "examples/monitoring/alerts_test.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", tested)) == set(named)
    night = (ROOT / "docs/operations.md").read_text()
    assert re.findall(r"^### (Tidegate\w+)$", night, re.MULTILINE) == named
