"""Which packages a pipeline needs, found without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.environment import with_values
from tidegate.paths import scheme_of
from tidegate.plan.pipeline import PipelineConfig, SinkConfig, SourceConfig
from tidegate.spark.packages import PACKAGES


def needed_packages(config: PipelineConfig) -> tuple[str, ...]:
    """Return the keys of ``PACKAGES`` for the formats and the paths that a pipeline names."""
    return tuple(dict.fromkeys(name for name in _named(config) if name in PACKAGES))


def package_of(format: str, options: Mapping[str, str]) -> str:
    """Return the name of the package of a format; for JDBC that of the driver of its ``url``."""
    if format != "jdbc":
        return format
    url = next((value for name, value in options.items() if name.lower() == "url"), "")
    return url.removeprefix("jdbc:").partition(":")[0]


def with_driver(format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a reader or writer; for JDBC with the class of a driver that we fetch.

    Java does not find the driver by its URL if its jar came after Java had started.
    """
    package = PACKAGES.get(package_of(format, options)) if format == "jdbc" else None
    if package is None or any(name.lower() == "driver" for name in options):
        return dict(options)
    return {**options, "driver": package.provides}


def _named(config: PipelineConfig) -> Iterator[str]:
    sections: list[SourceConfig | SinkConfig] = [*config.sources.values(), *config.sinks.values()]
    for section in sections:
        yield package_of(section.format, with_values(section.options))
        yield scheme_of(section.path or "") or ""
        if isinstance(section, SourceConfig) and section.value is not None:
            yield section.value
    yield scheme_of(config.checkpoint) or ""
