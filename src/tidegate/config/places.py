"""Finds paths in a pipeline file that cannot be read or written on this machine.

``check`` and ``run`` do this before Spark starts. It creates nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tidegate.config.problems import Problem, render_in_file
from tidegate.environment import missing_variables
from tidegate.errors import ConfigError
from tidegate.paths import local_path, misspelt_scheme, obstacle, scheme_of
from tidegate.plan.pipeline import PipelineConfig, SourceConfig
from tidegate.spark.connect import MEND, WHY, remote_option

_WILDCARDS = "*?[{"
_MASTER = re.compile(r"local(\[.+\])?|yarn|(spark|k8s|mesos)://.+")


def check_places(config: PipelineConfig) -> None:
    """Refuse a pipeline whose sources are not there, or whose folders cannot be written.

    Raises:
        ConfigError: lists all of them, by line of the file.
    """
    problems = list(_problems(config))
    if problems:
        raise ConfigError(render_in_file(problems, config.file.name, config.text))


def missing_input(path: str) -> tuple[str, str] | None:
    """Return what is wrong with a path to read, and the mend; None if nothing is.

    Paths on other file systems and paths with wildcards are left to Spark.
    """
    place = local_path(path)
    if place is None:
        return misspelt_scheme(path)
    if any(character in path for character in _WILDCARDS):
        return None
    if not place.exists():
        return "there is no such file or folder", "Make the folder, or correct the path."
    if not os.access(place, os.R_OK):
        return "it cannot be read", "Allow reading it, or correct the path."
    return None


def _problems(config: PipelineConfig) -> Iterator[Problem]:
    remote = remote_option(config.spark_options)
    if remote is not None:
        yield Problem(
            path=("pipeline", *remote.partition(" ")[0].split(".")),
            what=f"{remote} asks for Spark Connect; {WHY}",
            mend=f"Leave it out. {MEND}",
        )
    elif not _MASTER.fullmatch(config.spark_options.get("spark.master", "local")):
        yield Problem(
            path=("pipeline", "spark", "master"),
            what=f'master = "{config.spark_options["spark.master"]}": Spark has no such master',
            mend='Write e.g. "local[4]", "yarn" or "spark://host:7077".',
        )
    for name in config.transforms:
        if "/" in name or name in ("", ".", ".."):
            yield Problem(
                path=("transforms", name, ""),
                what=f'"{name}" cannot be its name: its checkpoint is a folder of that name',
                mend="Name it in letters, digits, - and _.",
            )
    yield from _unset(config)
    yield from _unusable(config, ("pipeline", "checkpoint"), config.checkpoint)
    for sink in config.sinks.values():
        if sink.path is not None:
            yield from _unusable(config, ("sinks", sink.name, "path"), sink.path)
    for source in config.sources.values():
        yield from _unreadable(config, source)


def _unset(config: PipelineConfig) -> Iterator[Problem]:
    """Yield the variables that options name and the environment lacks."""
    sections = {
        **{
            ("sources" if each.streaming else "tables", name): each.options
            for name, each in config.sources.items()
        },
        **{("sinks", name): each.options for name, each in config.sinks.items()},
    }
    for path, options in sections.items():
        for option, text in options.items():
            for name in missing_variables(text):
                yield Problem(
                    path=(*path, "options", option),
                    what=f"{option}: the environment has no variable {name}",
                    mend=f"Set it where the pipeline runs, e.g. export {name}=..",
                )


def _unreadable(config: PipelineConfig, source: SourceConfig) -> Iterator[Problem]:
    if source.path is None or not _is_here(config, source.path):
        return
    wrong = missing_input(source.path)
    if wrong is not None:
        section = "sources" if source.streaming else "tables"
        yield _problem((section, source.name, "path"), source.path, wrong)


def _unusable(config: PipelineConfig, key: tuple[str, ...], path: str) -> Iterator[Problem]:
    if not _is_here(config, path):
        return
    folder = local_path(path)
    wrong = misspelt_scheme(path) if folder is None else obstacle(folder)
    if wrong is not None:
        yield _problem(key, path, wrong)


def _problem(key: tuple[str, ...], path: str, wrong: tuple[str, str]) -> Problem:
    what, mend = wrong
    written = "" if str(path) in what else f'{key[-1]} = "{path}": '
    return Problem(path=key, what=f"{written}{what}", mend=mend)


def _is_here(config: PipelineConfig, path: str) -> bool:
    """Whether a path is on this machine, or a URL; others depend on the settings of Hadoop."""
    if scheme_of(path) is not None:
        return True
    default = config.spark_options.get("spark.hadoop.fs.defaultFS", "file:")
    return default.startswith("file:") and not os.environ.get("HADOOP_CONF_DIR")
