"""The folders that a DataFrame reads, found in its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def folders_of(frame: DataFrame) -> list[str]:
    """Return the paths of the file sources of a frame; a stream's path is as it was given."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    found: list[str] = []
    for position in range(leaves.size()):
        leaf = leaves.apply(position)
        match leaf.getClass().getSimpleName():
            case "StreamingRelation":
                path = leaf.dataSource().options().get("path")
                found += [str(path.get())] if path.isDefined() else []
            case "LogicalRelation":
                relation = leaf.relation()
                if relation.getClass().getSimpleName() == "HadoopFsRelation":
                    roots = relation.location().rootPaths()
                    found += [str(roots.apply(i).toString()) for i in range(roots.size())]
    return found
