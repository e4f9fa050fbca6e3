"""``plan.json``: what the state means, written once beside the manifests.

With it a reader can name the columns of the state, merge partials and show values, without the
query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from tidegate.plan.columns import DEDUP_KEY, ORDER, TIME
from tidegate.plan.stages import IngestPartials
from tidegate.state.manifest import MANIFEST_VERSION, check_version, reading

if TYPE_CHECKING:
    from tidegate.plan.physical import PhysicalPlan

NAME = "plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """The meaning of the state.

    Attributes:
        plan_id: the identity of the plan.
        fingerprint: what ``plan_id`` is a hash of; ``window`` has kind and parameters.
        keys: the group keys: column to its text in the statement.
        columns: other columns that come from the statement: column to its text.
        merges: how to merge the partials of one window and group: column to aggregate (Spark SQL);
            empty if the state keeps whole rows.
        values: the aggregates of the statement: text of the call to an expression (Spark SQL) over
            merged columns.
    """

    plan_id: str
    fingerprint: Mapping[str, str]
    keys: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    merges: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> Mapping[str, str]:
        """Each column with its text in the statement."""
        return {**self.columns, **self.keys}

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str, *, path: str) -> PlanFile:
        """Read the text of a file; ``path`` is for the message.

        Raises:
            StateError: the text is not a valid plan file, or has another version.
        """
        with reading(path, "plan"):
            data = json.loads(text)
            check_version(data.pop("version"), path)
            return PlanFile(**data)


def plan_file(plan: PhysicalPlan) -> PlanFile:
    """Return what the state of a plan means."""
    ingest = plan.ingest
    columns = {TIME: "the event time", ORDER: "the order of arrival"}
    columns |= {argument.name: argument.expression.sql for argument in ingest.arguments}
    columns |= plan.close.window.partition_keys
    if plan.settings.dedup_key is not None:
        columns[DEDUP_KEY] = plan.settings.dedup_key
    merges: dict[str, str] = {}
    values: dict[str, str] = {}
    if isinstance(ingest, IngestPartials):
        for planned in ingest.accumulators:
            values[planned.aggregate.text] = planned.evaluate
            for column in planned.columns:
                merges[column.name] = column.merge
                columns.setdefault(column.name, planned.aggregate.text)
    return PlanFile(
        plan_id=plan.plan_id,
        fingerprint=plan.fingerprint,
        keys={key.name: key.expression.sql for key in ingest.keys},
        columns=columns,
        merges=merges,
        values=values,
    )
