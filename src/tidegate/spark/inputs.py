"""The folders that a DataFrame reads, found in its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from tidegate.plan.columns import MALFORMED

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesInput:
    """The files that a stream reads.

    Attributes:
        format: the format of Spark.
        path: the folder or pattern, as it was given.
        options: options of the reader.
        columns: the columns of the files, in their order.
    """

    format: str
    path: str
    options: Mapping[str, str]
    columns: StructType


def files_input(frame: DataFrame) -> FilesInput | None:
    """Return what a stream reads, None unless its rows are those of files as they are.

    Columns may be left out, and a column of ours may be added.
    """
    node: Any = frame._jdf.queryExecution().analyzed()
    while node.getClass().getSimpleName() in ("Project", "SubqueryAlias"):
        if node.getClass().getSimpleName() == "Project" and not _only_selects(node):
            return None
        node = node.child()
    if node.getClass().getSimpleName() != "StreamingRelation":
        return None
    source = node.dataSource()
    path, schema = source.options().get("path"), source.userSpecifiedSchema()
    if not path.isDefined() or not schema.isDefined():
        return None
    jvm: Any = frame.sparkSession._jvm
    options = jvm.scala.jdk.javaapi.CollectionConverters.asJava(source.options())
    columns = StructType.fromJson(json.loads(schema.get().json()))
    return FilesInput(
        format=str(source.className()).lower(),
        path=str(path.get()),
        options={str(name): str(options[name]) for name in options if name != "path"},
        columns=StructType([field for field in columns if field.name != MALFORMED]),
    )


def kafka_options(frame: DataFrame) -> dict[str, str] | None:
    """Return the options of the reader of a stream of Kafka records, None if it is another one."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    leaf = leaves.apply(0)
    is_source = leaf.getClass().getSimpleName() == "StreamingRelationV2"
    if leaves.size() != 1 or not is_source or str(leaf.sourceName()) != "kafka":
        return None
    options = leaf.extraOptions().asCaseSensitiveMap()
    return {str(name): str(options[name]) for name in options}


def _only_selects(project: Any) -> bool:  # noqa: ANN401 - a JVM object
    """Whether a projection takes columns as they are, but for the hidden one."""
    expressions = project.projectList()
    for position in range(expressions.size()):
        each = expressions.apply(position)
        is_column = each.getClass().getSimpleName() == "AttributeReference"
        if not is_column and str(each.name()) != MALFORMED:
            return False
    return True
