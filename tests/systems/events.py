"""What the event log of a Spark application tells: the tasks of its jobs, and where they ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Options of ``spark-submit`` for such a log.
LOGGED = {"spark_eventLog_enabled": "true", "spark_eventLog_compress": "false"}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of Spark.

    Attributes:
        batch: the number of its micro-batch, None outside of one.
        description: what the program says of it.
        tasks: for each stage that ran, the executor of each task.
    """

    batch: int | None
    description: str | None
    tasks: dict[int, list[str]] = field(default_factory=dict)

    @property
    def widest(self) -> list[str]:
        """The executors of the tasks of the stage with the most."""
        return max(self.tasks.values(), key=len, default=[])


def jobs_of(folder: Path) -> list[Job]:
    """Return the jobs of the one application whose log is in a folder, in their order."""
    jobs, by_stage = [], {}
    for event in _events(folder):
        match event["Event"]:
            case "SparkListenerJobStart":
                told = event.get("Properties", {})
                batch = told.get("streaming.sql.batchId")
                jobs.append(
                    Job(
                        batch=None if batch is None else int(batch),
                        description=told.get("spark.job.description"),
                    )
                )
                by_stage |= dict.fromkeys(event["Stage IDs"], jobs[-1])
            case "SparkListenerTaskEnd":
                stage = event["Stage ID"]
                ran = by_stage[stage].tasks.setdefault(stage, [])
                ran.append(event["Task Info"]["Executor ID"])
    return jobs


def _events(folder: Path) -> Iterator[dict]:
    for file in sorted(folder.rglob("events_*")):
        for line in file.read_text().splitlines():
            yield json.loads(line)
