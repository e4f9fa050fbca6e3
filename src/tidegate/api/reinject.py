"""The sinks by which rows of side output go back to their input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.connectors.kafka_reinject import KafkaReinjectSink, record_parts
from tidegate.connectors.places import is_pattern
from tidegate.connectors.reinject import ReinjectSink
from tidegate.connectors.table import SOURCES
from tidegate.errors import ConfigError
from tidegate.names import listed
from tidegate.paths import local_path
from tidegate.plan.side_output import KINDS
from tidegate.planner.reinject import refused_route
from tidegate.spark.folders import open_folder
from tidegate.spark.inputs import FilesInput, files_input, kafka_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.connectors.protocol import Sink
    from tidegate.plan.physical import PhysicalPlan

_MEND = "Name a sink instead of reinject."


def reinject_sinks(plan: PhysicalPlan, stream: DataFrame | None) -> Mapping[str, Sink]:
    """Return the sinks of the kinds that go back to their input, by the argument of ``start``.

    Args:
        plan: the plan, with its routes.
        stream: the stream; None if it is none, but the results of another query.

    Raises:
        ConfigError: rows cannot go back to what the stream reads.
    """
    if not plan.side_output.reinjects:
        return {}
    refused = refused_route(plan)
    if refused is not None:
        (argument,) = (kind.argument for kind in KINDS if kind.name == refused.kind)
        raise ConfigError(f"{argument}: {refused.what}\n\n{refused.mend}")
    assert stream is not None, "rows of results are refused above"
    sink = _sink(plan.prepare.source.name, stream)
    return {kind.argument: sink for kind in KINDS if plan.side_output.route(kind.name).reinjects}


def _sink(name: str, stream: DataFrame) -> Sink:
    options = kafka_options(stream)
    if options is not None:
        if record_parts(stream.columns) is None:
            raise ConfigError(
                f"rows cannot go back to {name}: it lacks columns of its records\n\n"
                'Read it with .option("includeHeaders", "true"), and keep key, value, topic, '
                "partition and headers."
            )
        return KafkaReinjectSink(options=options)
    return _files_sink(name, stream)


def _files_sink(name: str, stream: DataFrame) -> ReinjectSink:
    found = files_input(stream)
    takers = [name for name, kind in SOURCES.items() if kind.takes_back and kind.has_path]
    if found is None or found.format not in takers:
        raise ConfigError(
            f"rows cannot go back to {name}: it does not read files of {listed(takers)} as they "
            f"are\n\n{_MEND}"
        )
    reason = _unfit(found, stream)
    if reason is not None:
        raise ConfigError(f"rows cannot go back to {name}: {reason}\n\n{_MEND}")
    return ReinjectSink(
        format=found.format, path=found.path, columns=found.columns, options=found.options
    )


def _unfit(found: FilesInput, stream: DataFrame) -> str | None:
    """Return why a further file in the folder would not be read like the others."""
    options = {name.lower(): value for name, value in found.options.items()}
    if is_pattern(found.path):
        return f"its path is a pattern, {found.path}, and not one folder"
    local = local_path(found.path)
    if local is not None and local.is_file():
        return f"it reads one file, {found.path}"
    if "pathglobfilter" in options:
        return "pathGlobFilter chooses among its files"
    if found.format == "json" and options.get("multiline", "").lower() == "true":
        return "with multiLine a file holds one document"
    names = open_folder(stream.sparkSession, found.path).names()
    if any("=" in each for each in names):
        return "its folders have values of columns in their names"
    return None
