"""The JSON schema of the pipeline file, for editors."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from docs.pages import ROOT

SCHEMA = json.loads((ROOT / "docs" / "pipeline.schema.json").read_text())
EXAMPLE = (ROOT / "examples" / "flights" / "pipeline.toml").read_text()
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
TYPES |= {"number": (int, float)}


def test_the_schema_is_that_of_the_model() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_schema.py"))
    told = "run python scripts/write_schema.py"
    assert (ROOT / "docs" / "pipeline.schema.json").read_text() == script["text"](), told


def faults(value: Any, schema: Any, place: str = "") -> Iterator[str]:
    """What a JSON schema finds wrong, as far as ours goes."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not isinstance(value, tuple(TYPES[kind] for kind in kinds)):
        yield f"{place}: {value!r} is not {' or '.join(kinds)}"
        return
    if value not in schema.get("enum", [value]):
        yield f"{place}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{place}: {value!r} does not match"
    if isinstance(value, dict):
        yield from (
            f"{place}: lacks {name}" for name in schema.get("required", ()) if name not in value
        )
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, each in value.items():
            if name not in known and others is False:
                yield f"{place}: unknown {name}"
            elif name in known or isinstance(others, dict):
                yield from faults(each, known.get(name, others), f"{place}.{name}")


def test_the_example_is_valid() -> None:
    assert list(faults(tomllib.loads(EXAMPLE), SCHEMA)) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("watermark_lag", "watermark_lags", ".transforms.delays: unknown watermark_lags"),
        ('"1h"', '"1 hour"', ".transforms.delays.watermark_lag: '1 hour' does not match"),
        ("side_output.late.", "side_output.later.", ".delays.side_output: unknown later"),
        ('checkpoint = "checkpoint"\n', "", ".pipeline: lacks checkpoint"),
        (
            '"scheduled"',
            '"scheduled"\non_idle = "stop"',
            "'stop' is not one of ['hold', 'advance']",
        ),
        ("max_files_per_trigger = 3", 'max_files_per_trigger = "3"', "'3' is not integer"),
    ],
)
def test_a_mistake_is_found(old: str, new: str, fault: str) -> None:
    assert old in EXAMPLE
    (found,) = faults(tomllib.loads(EXAMPLE.replace(old, new, 1)), SCHEMA)
    assert fault in found
