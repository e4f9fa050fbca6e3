"""What each process runs: its plan as EXPLAIN has it, for those who look at a checkpoint.

    tidegate/plans/2.json    what the process with the second claim runs

``plan.json`` says what the state means and never changes; this says all of the query, and a restart
may change it (HAVING, sinks, settings). The state does not depend on it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from tidegate.environment import without_values
from tidegate.state.files import Files
from tidegate.state.manifest import Writer, reading
from tidegate.state.manifest_log import reason

FOLDER = "plans"

_LOG = logging.getLogger("tidegate")


def put_plan(files: Files, writer: Writer, explained: Mapping[str, Any]) -> None:
    """Write what a process runs; a failure is logged, since only onlookers lack it.

    Args:
        files: the checkpoint.
        writer: the process.
        explained: ``explain_json`` of its query.
    """
    text = without_values(json.dumps(explained, indent=1))
    try:
        files.make_folder(FOLDER)
        files.put_if_absent(plan_name(writer.term), text)
    except OSError as error:
        path = files.where(plan_name(writer.term))
        _LOG.warning("%s, which only shows the plan, cannot be written: %s", path, reason(error))


def plan_of(files: Files, writer: Writer | None) -> Mapping[str, Any] | None:
    """Return what a process runs; None if it is not known.

    Raises:
        StateError: the file cannot be parsed.
    """
    if writer is None:
        return None
    name = plan_name(writer.term)
    try:
        text = files.read(name)
    except OSError:
        return None
    with reading(files.where(name), "plan"):
        found: Mapping[str, Any] = dict(json.loads(text))
        return found


def plan_name(term: int) -> str:
    """Return the name of the file for the process with a term."""
    return f"{FOLDER}/{term}.json"
