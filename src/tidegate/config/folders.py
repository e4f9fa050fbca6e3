"""The folders of a pipeline file: where they are, and which overlap but must not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tidegate.config.model import PipelineFile
from tidegate.config.problems import Problem
from tidegate.connectors.places import Place, Role, clashes

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def resolve(path: str, folder: Path) -> str:
    """Return a path of a pipeline file in ``folder``, made absolute unless it is a URL."""
    return path if _SCHEME.match(path) else str(folder / path)


def folder_problems(sections: PipelineFile, folder: Path) -> Iterator[Problem]:
    """Yield the folders of a pipeline file that overlap but must not."""
    checkpoint = ("pipeline", "checkpoint")
    found = {checkpoint: (Role.CHECKPOINT, "the checkpoint", sections.pipeline.checkpoint)}
    for role, kind, tables in (
        (Role.SOURCE, "sources", sections.sources),
        (Role.SOURCE, "tables", sections.tables),
        (Role.SINK, "sinks", sections.sinks),
    ):
        for name, section in tables.items():
            if section.path is not None:
                found[kind, name] = (role, f"{kind}.{name}", section.path)
    places = {
        path: Place(role=role, name=name, path=resolve(text, folder))
        for path, (role, name, text) in found.items()
    }
    keys = {place.name: path for path, place in places.items()}
    for clash in clashes(list(places.values())):
        path = keys[clash.one.name]
        yield Problem(
            path=path if path == checkpoint else (*path, "path"), what=clash.what, mend=clash.mend
        )
