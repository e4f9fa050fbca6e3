"""A checkpoint that was damaged in any way is shown as far as possible, or its damage is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from monitor.jobs import PretendedJob
from state.manifests import SECOND
from tidegate.monitor.app import make_app
from tidegate.monitor.top import Top
from tidegate.monitor.watch import Watch

NOW = 1_000 * SECOND
WRONG = (None, "x", -1, 2**80, [], {})


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in JSON where something else could stand."""
    if path:
        yield path
    if isinstance(data, dict | list):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in items:
            yield from places(value, (*path, key))


def with_value(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def shown(watch: Watch) -> list[dict[str, Any]]:
    """What is answered to both questions of the page."""
    app = make_app(watch)
    answers = []
    for route, query in (("/api/transforms", b""), ("/api/transform", b"id=per_page")):
        endpoint = next(each.endpoint for each in app.routes if each.path == route)
        scope = {"type": "http", "headers": [], "query_string": query, "path_params": {}}
        answers.append(json.loads(endpoint(Request(scope)).body))
    return answers


@pytest.mark.parametrize("each", [7, pytest.param(1, marks=pytest.mark.whole)])
@pytest.mark.parametrize("file", ["manifests/1.json", "plan.json", "plans/1.json"])
def test_a_value_that_cannot_be_there_breaks_nothing(file: str, each: int, tmp_path: Path) -> None:
    from rich.console import Console

    job = PretendedJob(checkpoint=tmp_path / "per_page")
    job.step(NOW, [(NOW - 20 * SECOND, "/home"), (NOW, "/cart")])
    job.step(NOW + SECOND, [(NOW, "/home"), (NOW - 60 * SECOND, "/late"), (NOW, "/error")])
    path = job.checkpoint / "tidegate" / file
    right = json.loads(path.read_text())
    for number, place in islice(enumerate(places(right)), 0, None, each):
        wrong = WRONG[number % len(WRONG)]
        path.write_text(json.dumps(with_value(right, place, wrong)))
        watch = Watch([str(tmp_path)])
        watch.look()
        watch.ask("per_page")
        watch.read()
        listed, one = shown(watch)
        assert listed["transforms"][0]["id"] == one["id"] == "per_page", (place, wrong)
        Console(width=80, quiet=True).print(Top(watch.followers))


def test_a_file_that_is_no_text_breaks_nothing(tmp_path: Path) -> None:
    job = PretendedJob(checkpoint=tmp_path / "per_page")
    job.step(NOW, [(NOW, "/home")])
    (job.checkpoint / "tidegate" / "manifests" / "1.json").write_bytes(b"\xff\xfe\x00")
    watch = Watch([str(tmp_path)])
    watch.look()
    _, one = shown(watch)
    assert one["epoch"] == 0
    assert "1.json" in one["problem"] or "decode" in one["problem"]
