"""What a manifest says, in a form that can be printed as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from tidegate.inspection.shown import time_text
from tidegate.state.manifest import Manifest, Segment, Tables
from tidegate.state.plan_file import PlanFile
from tidegate.state.shard_map import SHARD_COUNTS, Shard

TABLES = tuple(each.name for each in fields(Tables))


def summary(manifest: Manifest, plan: PlanFile, epochs: Sequence[int]) -> dict[str, Any]:
    """Return the facts of a manifest.

    Args:
        manifest: the manifest.
        plan: what its columns mean.
        epochs: the epochs of all kept manifests, ascending.
    """
    return {
        "checkpoint_id": manifest.checkpoint_id,
        "plan_id": manifest.plan_id,
        "window": manifest.fingerprint.get("window"),
        "keys": list(plan.keys.values()),
        "epoch": manifest.epoch,
        "epochs": list(epochs),
        "batch_id": manifest.batch_id,
        "query_id": manifest.query_id,
        "clock": time_text(manifest.clock_us),
        "watermark": time_text(manifest.watermark.watermark_us),
        "closed_up_to": time_text(manifest.bound_us),
        "shards": len(manifest.watermark.shards),
        "writer": None if manifest.writer is None else asdict(manifest.writer),
        "rows": asdict(manifest.totals),
        "tables": {name: _sizes(getattr(manifest.tables, name)) for name in TABLES},
    }


def _sizes(segments: Sequence[Segment]) -> dict[str, int]:
    return {
        "segments": len(segments),
        "files": sum(len(segment.files) for segment in segments),
        "rows": sum(segment.rows for segment in segments),
        "bytes": sum(segment.bytes for segment in segments),
    }


def segment_facts(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the facts of each segment, table by table."""
    return [
        {
            "table": name,
            "segment": segment.name,
            "level": segment.level,
            "files": len(segment.files),
            "rows": segment.rows,
            "bytes": segment.bytes,
            "first": time_text(segment.first_us),
            "last": time_text(segment.last_us),
        }
        for name in TABLES
        for segment in getattr(manifest.tables, name)
    ]


def shard_facts(manifest: Manifest, idle_timeout_us: int | None) -> list[dict[str, Any]]:
    """Return the facts of each shard, the one with the least event time first.

    Args:
        manifest: the manifest.
        idle_timeout_us: after this much silence a shard counts as idle; None: none does.
    """
    shards = manifest.watermark.shards
    by_time = sorted(shards.items(), key=lambda item: item[1].event_time_us)
    return [
        {
            "shard": shard.name,
            "id": id,
            "event_time": time_text(shard.event_time_us),
            "clock": time_text(shard.clock_us),
            "silent_us": _silent_us(manifest, shard),
            "rows": shard.rows,
            **{name: shard.counts.get(name, 0) for name in SHARD_COUNTS},
            "idle": idle_timeout_us is not None and _silent_us(manifest, shard) >= idle_timeout_us,
        }
        for id, shard in by_time
    ]


def _silent_us(manifest: Manifest, shard: Shard) -> int:
    return 0 if manifest.clock_us is None else manifest.clock_us - shard.clock_us
