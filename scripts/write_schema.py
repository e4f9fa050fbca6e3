"""Writes docs/pipeline.schema.json, the JSON schema of the pipeline file, from config/model.py.

Run it when the model changes:

    python scripts/write_schema.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.config.model import PipelineFile
from tidegate.time import format_duration

FILE = Path(__file__).parents[1] / "docs" / "pipeline.schema.json"


def schema() -> dict[str, Any]:
    """Return the schema."""
    made = _cleaned(PipelineFile.model_json_schema(by_alias=True))
    made["$schema"] = "http://json-schema.org/draft-07/schema#"
    made["title"] = "A pipeline of Tidegate"
    return made


def text() -> str:
    """Return the text of the file."""
    return json.dumps(schema(), indent=2) + "\n"


def _cleaned(node: Any) -> Any:  # noqa: ANN401 - a part of a schema
    """A part without what says nothing in TOML: titles, null, and defaults that stand for it."""
    if isinstance(node, list):
        return [_cleaned(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = dict(node)
    options = [each for each in node.pop("anyOf", ()) if each.get("type") != "null"]
    for option in options:
        node = {**option, **node}
    if not isinstance(node.get("title"), dict):
        node.pop("title", None)
    if isinstance(node.get("properties"), dict):
        node["properties"] = {name: _cleaned(each) for name, each in node["properties"].items()}
    default = node.get("default")
    if default in (None, {}) or isinstance(default, dict):
        node.pop("default", None)
    elif node.get("type") == "string" and isinstance(default, int):
        node["default"] = format_duration(default)
    if isinstance(node.get("description"), str):
        node["description"] = " ".join(node["description"].split())
    return {
        name: each if name in ("properties", "default") else _cleaned(each)
        for name, each in node.items()
    }


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
