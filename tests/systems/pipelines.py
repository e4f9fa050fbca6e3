"""Pipeline files of these tests: from topic to topic, run in the shared session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from click.testing import CliRunner

from systems.topics import Topics
from tidegate.cli import main

# Options with which what cannot be reached is given up after seconds, not after a minute.
IMPATIENT = {
    "kafka.request.timeout.ms": "1500",
    "kafka.default.api.timeout.ms": "2000",
    "kafka.max.block.ms": "2000",
}

JSON = 'value = "json"\nschema = "user STRING, n INT"'
SUMS = """
SELECT user, sum(n) AS n, window_start() AS start
FROM clicks GROUP BY tumblingwindow('mi', 1), user
"""

FILE = """\
[pipeline]
checkpoint = "checkpoint"
{pipeline}

[sources.clicks]
format = "kafka"
{source}
[sources.clicks.options]
{reader}

[transforms.sums]
sql = '''{sql}'''
{error}
side_output.late.sink = "bad"
{transform}

[sinks.out]
from = "sums"
format = "kafka"
{sink}
[sinks.out.options]
{writer}

[sinks.bad]
format = "kafka"
[sinks.bad.options]
{bad}
"""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline from a topic to two others: ``<topic>-out`` and, for side output, ``<topic>-bad``.

    ``reader`` and ``writer`` are more options; ``source``, ``sink``, ``transform`` and ``pipeline``
    more lines of their sections.
    """

    topic: str
    servers: str
    source: str = JSON
    sql: str = SUMS
    reader: dict[str, str] | None = None
    writer: dict[str, str] | None = None
    sink: str = ""
    transform: str = ""
    error: str = 'side_output.error.sink = "bad"'
    pipeline: str = ""

    def text(self) -> str:
        servers = {"kafka.bootstrap.servers": self.servers}
        first = {**servers, "subscribe": self.topic, "startingOffsets": "earliest"}
        out = {**servers, "topic": f"{self.topic}-out"}
        bad = {**servers, "topic": f"{self.topic}-bad"}
        return FILE.format(
            pipeline=self.pipeline,
            source=self.source,
            reader=_lines({**first, **(self.reader or {})}),
            sql=self.sql,
            transform=self.transform,
            error=self.error,
            sink=self.sink,
            writer=_lines({**out, **(self.writer or {})}),
            bad=_lines({**bad, **(self.writer or {}), "topic": f"{self.topic}-bad"}),
        )

    def but(self, **changes: object) -> Pipeline:
        return replace(self, **changes)


@dataclass(frozen=True)
class Ended:
    """How a command ended: what it printed, and its exit code."""

    code: int
    text: str


def from_topic(topics: Topics, topic: str, partitions: int = 1, **more: object) -> Pipeline:
    """Return a pipeline whose topics are there."""
    topics.create(topic, partitions)
    topics.create(f"{topic}-out")
    topics.create(f"{topic}-bad")
    return Pipeline(topic=topic, servers=topics.broker.servers, **more)


def run(folder: Path, pipeline: Pipeline) -> Ended:
    """Run a pipeline over what its topic has now; its checkpoint is in the folder."""
    folder.mkdir(exist_ok=True)
    file = folder / "pipeline.toml"
    file.write_text(pipeline.text())
    result = CliRunner().invoke(main, ["run", str(file), "--once"])
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return Ended(code=result.exit_code, text=result.output)


def _lines(options: dict[str, str]) -> str:
    return "\n".join(f"\"{name}\" = '{value}'" for name, value in options.items())
