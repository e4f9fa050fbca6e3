"""The plan of a transform as a tree of nodes, the sink first.

It is the physical plan as EXPLAIN has it, if the checkpoint has the file of the process; older
releases wrote none, and then the tree says what the state is made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.state.plan_file import PlanFile

_STRUCTURE = ("id", "parameters", "children")

# A text may be as long as a statement.
MOST_CHARACTERS = 2_000


def plan_tree(explained: Mapping[str, Any] | None, plan: PlanFile | None) -> dict[str, Any] | None:
    """Return the root: its ``name``, ``parameters``, ``facts`` (label and text), ``children``."""
    if explained is not None and isinstance(explained.get("physical"), Mapping):
        return _node(explained["physical"])
    return None if plan is None else _of_state(plan)


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    name = str(node.get("id", "?")).removeprefix("Physical").partition("#")[0]
    parameters = node.get("parameters")
    facts = {label: value for label, value in node.items() if label not in _STRUCTURE}
    return {
        "name": name,
        "parameters": _texts(parameters if isinstance(parameters, Mapping) else {}),
        "facts": _texts(facts),
        "children": [_node(each) for each in node.get("children", ()) if isinstance(each, Mapping)],
    }


def _of_state(plan: PlanFile) -> dict[str, Any]:
    texts = plan.fingerprint
    source = _made("DataSource", {})
    timed = _made("Watermark", {"event time": texts.get("event_time", "?")}, source)
    kind, _, parameters = texts.get("window", "").partition(" ")
    window = _made("Window", {"kind": kind, "parameters": parameters}, timed)
    groups = {"keys": ", ".join(plan.keys.values()), "aggregates": ", ".join(plan.values)}
    return _made("Aggregation", groups, window)


def _made(name: str, facts: Mapping[str, Any], *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "parameters": [], "facts": _texts(facts), "children": list(children)}


def _texts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [(label.replace("_", " "), _text(value)) for label, value in facts.items()]
    # A sink that was given in Python has no name, which EXPLAIN writes as ?.
    return [(label, text) for label, text in found if text not in ("", "?")]


def _text(value: Any) -> str:  # noqa: ANN401 - a value of JSON
    match value:
        case None | [] | {}:
            text = ""
        case str():
            text = value
        case {"micros": _}:
            text = ", ".join(f"{name} {each}" for name, each in value.items())
        case list() if all(isinstance(each, str) for each in value):
            text = ", ".join(value)
        case list() if all(isinstance(each, Mapping) and "name" in each for each in value):
            text = "\n".join(_pair(each) for each in value)
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} .."


def _pair(pair: Mapping[str, Any]) -> str:
    """A key, an argument, an aggregate or a column with what it stands for."""
    meaning = pair.get("aggregate", pair.get("expression", ""))
    name = str(pair["name"])
    return name if name == meaning else f"{name} = {meaning}"
