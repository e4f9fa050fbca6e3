"""What the page shows of a transform, as data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from heapq import nsmallest
from typing import Any

from tidegate.metrics.table import METRICS
from tidegate.monitor.follower import Follower
from tidegate.monitor.history import Point
from tidegate.monitor.plan_tree import plan_tree
from tidegate.plan.side_output import KINDS, SideOutputKind
from tidegate.state.manifest import Manifest
from tidegate.state.shard_map import Shard

# The numbers on top of the page, by the metrics that they are.
_METRICS = {metric.name: metric for metric in METRICS}
HELP = {
    shown: f"{_METRICS[name].help} Metric: {name}"
    for shown, name in {
        "rows read": "tidegate_rows_read_total",
        "watermark": "tidegate_watermark_timestamp_seconds",
        "watermark lag": "tidegate_watermark_lag_seconds",
        "late rows": "tidegate_rows_total",
        "open windows": "tidegate_open_windows",
        "results": "tidegate_result_rows_total",
        "state": "tidegate_state_bytes",
        "last step": "tidegate_last_step_timestamp_seconds",
    }.items()
}

# Shards that are listed: those furthest behind.
MOST_SHARDS = 20

# Points from which the rate of the overview is made.
_RECENT = 10


def overview_of(id: str, follower: Follower) -> dict[str, Any]:
    """Return what the list of transforms shows of one."""
    manifest = follower.manifest
    facts: dict[str, Any] = {
        "id": id,
        "name": follower.name,
        "checkpoint": str(follower.reader.checkpoint),
        "status": follower.status.value,
        "problem": follower.problem,
        "committed_s": follower.committed_s,
    }
    if manifest is None:
        return facts
    recent = follower.points()[-_RECENT:]
    return facts | {
        "epoch": manifest.epoch,
        "window": manifest.fingerprint.get("window"),
        "watermark_us": manifest.watermark.watermark_us,
        "lag_us": _lag_us(manifest),
        "rows_in": manifest.totals.rows_in,
        "rate": rate_of(recent),
        "late": manifest.totals.late,
        "rows_out": manifest.emitted.rows_out,
        "open_windows": open_windows_of(follower),
    }


def facts_of(id: str, follower: Follower, after: int = -1) -> dict[str, Any]:
    """Return what the page shows of a transform.

    Args:
        id: its id.
        follower: the transform.
        after: the last epoch whose point the page has.
    """
    facts = overview_of(id, follower)
    manifest = follower.manifest
    if manifest is None:
        return facts
    state, points = follower.state, follower.points()
    explained = follower.explained or {}
    plan = follower.plan
    return facts | {
        "since_s": follower.since_s,
        "state_problem": state.problem,
        "statement": explained.get("statement"),
        "closes": explained.get("closes"),
        "keys": [] if plan is None else list(plan.keys.values()),
        "plan_id": manifest.plan_id,
        "batch_id": manifest.batch_id,
        "writer": None if manifest.writer is None else str(manifest.writer),
        "clock_us": manifest.clock_us,
        "bound_us": manifest.bound_us,
        "totals": asdict(manifest.totals),
        "emitted": asdict(manifest.emitted),
        "tables": _tables(manifest),
        "step": None if manifest.step is None else asdict(manifest.step),
        "shards": _shards(manifest, state.shards),
        "windows": {
            "epoch": state.epoch,
            "total": open_windows_of(follower),
            "note": state.windows.note,
            "timeline": [window.to_json() for window in follower.windows()],
        },
        "side_output": _side_output(manifest, explained),
        "dropped": asdict(manifest.dropped),
        "results": [row.to_json() for row in follower.results()],
        "side_sample": [row.to_json() for row in follower.side_output()],
        "help": HELP,
        "first_epoch": points[0].epoch if points else None,
        "points": [point.to_json() for point in points if point.epoch > after],
        "plan": plan_tree(follower.explained, plan),
    }


def damaged(id: str, follower: Follower, error: Exception) -> dict[str, Any]:
    """Return what is shown of a transform whose manifest makes no sense."""
    return {
        "id": id,
        "name": follower.name,
        "checkpoint": str(follower.reader.checkpoint),
        "status": follower.status.value,
        "problem": f"The newest manifest of {follower.reader.checkpoint} makes no sense: {error}",
        "committed_s": follower.committed_s,
    }


def rate_of(points: list[Point]) -> float | None:
    """Return the rows read per second over some points; None if their time is unknown."""
    timed = [point for point in points if point.seconds is not None]
    seconds = sum(point.seconds or 0 for point in timed)
    return sum(point.counts.rows_in for point in timed) / seconds if seconds else None


def open_windows_of(follower: Follower) -> int | None:
    """Return how many windows are open: counted, else as the manifest says."""
    manifest, state = follower.manifest, follower.state
    if manifest is None:
        return None
    if state.epoch == manifest.epoch and state.windows.total is not None:
        return state.windows.total
    return None if manifest.step is None else manifest.step.open_windows


def _lag_us(manifest: Manifest) -> int | None:
    watermark_us = manifest.watermark.watermark_us
    if manifest.clock_us is None or watermark_us is None:
        return None
    return manifest.clock_us - watermark_us


def _tables(manifest: Manifest) -> dict[str, Any]:
    segments = manifest.tables.of_rows
    return {
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "bytes": sum(segment.bytes for segment in manifest.segments),
    }


def _shards(manifest: Manifest, shards: Mapping[str, Shard]) -> dict[str, Any]:
    behind = nsmallest(MOST_SHARDS, shards.values(), key=lambda shard: shard.event_time_us)
    return {
        "by": manifest.watermark.by,
        "total": len(shards),
        "behind": [asdict(shard) for shard in behind],
    }


def _reasons(kind: SideOutputKind, rows: int, written: Mapping[str, int]) -> dict[str, int]:
    """Records of a kind by reason; of a kind with several reasons, those that were written."""
    if len(kind.reasons) == 1:
        return {kind.reasons[0]: rows} if rows else {}
    return {reason: written[reason] for reason in kind.reasons if reason in written}


def _side_output(manifest: Manifest, explained: Mapping[str, Any]) -> list[dict[str, Any]]:
    routes = explained.get("side_output")
    found = []
    for kind in KINDS:
        rows = getattr(manifest.totals, kind.name)
        if kind.has_results:
            rows += manifest.emitted.result_errors
        route = routes.get(kind.name) if isinstance(routes, Mapping) else None
        found.append(
            {
                "kind": kind.name,
                "records": rows,
                "sink": route.get("sink") if isinstance(route, Mapping) else None,
                "reasons": _reasons(kind, rows, manifest.reasons),
            }
        )
    return found
