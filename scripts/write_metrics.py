"""Writes the table of docs/metrics.md, and the dashboard of examples/monitoring.

Run it when the table changes:

    python scripts/write_metrics.py
"""

from __future__ import annotations

import json
from pathlib import Path

from tidegate.metrics.table import ALL, SHARD_METRIC, Kind, Metric

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics.md"
DASHBOARD = ROOT / "examples" / "monitoring" / "dashboard.json"

START = "<!-- The table is written by scripts/write_metrics.py from metrics/table.py. -->\n\n"
END = "\n<!-- end of the table -->"


def main() -> None:
    """Write both files."""
    PAGE.write_text(page(), encoding="utf-8")
    DASHBOARD.parent.mkdir(exist_ok=True)
    DASHBOARD.write_text(dashboard(), encoding="utf-8")
    print(f"{len(ALL)} metrics")


def page() -> str:
    """Return the text of docs/metrics.md with the table as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    rows = (
        f"| `{each.name}` | {each.kind.value} | {', '.join(each.labels)} | {each.help} |\n"
        for each in ALL
    )
    header = "| metric | type | label | meaning |\n|---|---|---|---|\n"
    return "".join([before, START, header, *rows, END, after])


def dashboard() -> str:
    """Return the dashboard of Grafana: a panel for each metric."""
    panels = [_panel(place, metric) for place, metric in enumerate(ALL)]
    variable = {
        "name": "transform",
        "type": "query",
        "query": "label_values(tidegate_batches_total, transform)",
        "includeAll": True,
        "multi": True,
        "refresh": 2,
    }
    found = {
        "uid": "tidegate",
        "title": "Tidegate",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [variable]},
        "panels": panels,
    }
    return json.dumps(found, indent=1) + "\n"


def _panel(place: int, metric: Metric) -> dict[str, object]:
    width, height = 8, 7
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": metric.name.removeprefix("tidegate_"),
        "description": metric.help,
        "gridPos": {
            "x": place % 3 * width,
            "y": place // 3 * height,
            "w": width,
            "h": height,
        },
        "fieldConfig": {"defaults": {"unit": _unit(metric)}, "overrides": []},
        "targets": [{"refId": "A", "expr": _expression(metric), "legendFormat": _legend(metric)}],
    }


def _expression(metric: Metric) -> str:
    chosen = '{transform=~"$transform"}'
    match metric.kind:
        case Kind.COUNTER:
            return f"rate({metric.name}{chosen}[$__rate_interval])"
        case Kind.GAUGE:
            return f"{metric.name}{chosen}"
        case Kind.HISTOGRAM:
            by = ", ".join(["transform", "le", *metric.labels])
            rate = f"rate({metric.name}_bucket{chosen}[$__rate_interval])"
            return f"histogram_quantile(0.95, sum by ({by}) ({rate}))"


def _unit(metric: Metric) -> str:
    if metric.kind is Kind.COUNTER:
        return "ops"
    if metric.name.endswith("_timestamp_seconds") or metric is SHARD_METRIC:
        return "dateTimeFromNow"
    if metric.name.endswith("_seconds"):
        return "s"
    return "bytes" if metric.name.endswith("_bytes") else "short"


def _legend(metric: Metric) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in ("transform", *metric.labels))


if __name__ == "__main__":
    main()
