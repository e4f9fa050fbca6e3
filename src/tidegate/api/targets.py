"""Checks of the targets of a query that starts: formats, owners, and folders that overlap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from tidegate.connectors.delta import DeltaSink
from tidegate.connectors.files import FileSink
from tidegate.connectors.jdbc import JdbcSink
from tidegate.connectors.memory import MemorySink
from tidegate.connectors.ownership import check_owner
from tidegate.connectors.places import Place, Role, clashes
from tidegate.connectors.protocol import Results
from tidegate.connectors.sinks import FOLDER_SINKS
from tidegate.connectors.table import SinkKind, sink_kind
from tidegate.errors import ConfigError
from tidegate.plan.columns import FINAL, RESULT_ID, RESULT_KEYS, WINDOW_ID
from tidegate.plan.stages import IngestRows
from tidegate.spark.folders import open_folder
from tidegate.spark.inputs import folders_of
from tidegate.state.hadoop_files import HadoopFiles
from tidegate.state.manifest_log import numbers
from tidegate.state.writers import claimed_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.connectors.protocol import InformedSink, ReplacingSink, Sink
    from tidegate.plan.physical import PhysicalPlan


def checked_targets(
    sinks: Mapping[str, Sink],
    checkpoint: str,
    inputs: Mapping[str, DataFrame],
    spark: SparkSession,
) -> dict[str, Sink]:
    """Return the sinks of a query, checked and given its checkpoint; nothing is written.

    Args:
        sinks: by their argument in ``Query.start``; see ``is_of_results``.
        checkpoint: the folder of the checkpoint.
        inputs: the stream and the tables, by name.
        spark: the session.

    Raises:
        ConfigError: two folders overlap that must not, a sink cannot take side output, or a folder
            belongs to another checkpoint.
    """
    _refuse_flat(sinks)
    _refuse_shared(sinks)
    _refuse_meeting(sinks, checkpoint, inputs)
    files = HadoopFiles(spark, f"{checkpoint.rstrip('/')}/tidegate")
    checkpoint_id = claimed_id(files)
    # A checkpoint with state but no claim gets its id, and becomes the owner, at the start.
    is_known = checkpoint_id is not None or not numbers(files, "manifests")
    owned: dict[str, Sink] = {}
    for argument, sink in sinks.items():
        # Equal sinks become one object: kinds that share a sink are written at once.
        same = next((each for each in owned.values() if each == sink), None)
        if same is None and isinstance(sink, FileSink):
            if is_known:
                check_owner(open_folder(spark, str(sink.path)), str(sink.path), checkpoint_id)
            same = replace(sink, checkpoint=checkpoint)
        if same is None and isinstance(sink, (DeltaSink, JdbcSink)):
            # A sink knows its query, so each query has one of its own.
            same = replace(sink)
        owned[argument] = sink if same is None else same
    return owned


def is_of_results(argument: str) -> bool:
    """Return whether a sink takes results: it is ``sink``, or one of several, e.g. ``sink[0]``."""
    return argument.partition("[")[0] == "sink"


def tell_result_key(sink: Sink, plan: PhysicalPlan, argument: str) -> None:
    """Tell a sink of the results which columns identify a result.

    Raises:
        ConfigError: the query has EMIT EARLY, and the sink cannot replace results.
    """
    if replaces_results(sink):
        sink.replace_by(plan.finish.result_key)
    elif plan.close.early_us is not None:
        raise ConfigError(
            f"{argument}: {sink!r:.80} cannot take the provisional results of EMIT EARLY: it does "
            "not replace a result by a later one of the same window and keys\n\nLeave EMIT EARLY "
            "out, or give a sink that does: tidegate.MemorySink(), tidegate.JdbcSink(..), or "
            "tidegate.CallbackSink(function, replaces_results=True) for a function that does."
        )


def tell_results(sink: Sink, plan: PhysicalPlan, columns: Callable[[], StructType]) -> None:
    """Tell a sink that wants to know of the results (``take_results``) what it will get.

    Args:
        sink: the sink of the results.
        plan: the plan.
        columns: gives the columns of the frames that the sink will get; called only if needed.

    Raises:
        ConfigError: the sink cannot take the results.
    """
    if not _is_informed(sink):
        return
    found = columns()
    by_expression = {item.expression.sql: item.name for item in plan.finish.items}
    keys = plan.side_output.group_key
    types = found[RESULT_KEYS].dataType if RESULT_KEYS in found.names else StructType()
    assert isinstance(types, StructType), "keys are a struct"
    sink.take_results(
        Results(
            columns=StructType([f for f in found if f.name not in (RESULT_ID, RESULT_KEYS)]),
            keys=tuple((text, by_expression.get(column)) for text, column in keys),
            key_types=tuple(field.dataType for field in types),
            grouped=not (isinstance(plan.ingest, IngestRows) and plan.ingest.is_row_query),
            window_id=by_expression.get(WINDOW_ID),
            final=by_expression.get(FINAL),
        )
    )


def _is_informed(sink: Sink) -> TypeGuard[InformedSink]:
    return callable(getattr(sink, "take_results", None))


def replaces_results(sink: Sink) -> TypeGuard[ReplacingSink]:
    """Return whether a sink says that it replaces results."""
    return getattr(sink, "replaces_results", False) is True


def check_results(sink: object, schema: Callable[[], StructType], spark: SparkSession) -> None:
    """Let a sink that wants to (``check_results``) refuse the columns of the results.

    Finding them takes a while, so a sink is given a function that does.

    Raises:
        ConfigError: it does.
    """
    check = getattr(sink, "check_results", None)
    if callable(check):
        check(schema, spark)


def _refuse_flat(sinks: Mapping[str, Sink]) -> None:
    for argument, sink in sinks.items():
        if is_of_results(argument):
            continue
        if isinstance(sink, (FileSink, JdbcSink)) and not sink.nested:
            raise ConfigError(
                f"{argument}: format {sink.format} cannot hold the records of side output\n\n"
                'They contain structs, e.g. the original row: use "json", "parquet" or "orc".'
            )


def refuse_nested(sink: Sink, columns: Callable[[], StructType], argument: str) -> None:
    """Refuse a sink that cannot hold nested columns for results that have one.

    Args:
        sink: a sink of the results.
        columns: gives the columns of the results; called only if the sink is such a one.
        argument: the sink's argument in ``Query.start``.

    Raises:
        ConfigError: a column of the results is nested.
    """
    if not isinstance(sink, FileSink) or sink.nested:
        return
    column = nested_column(columns(), sink_kind(sink.format))
    if column is not None:
        raise ConfigError(f"{argument}: {cannot_hold(sink.format, column)}")


def nested_column(columns: StructType, kind: SinkKind) -> str | None:
    """Return the first column that a kind of flat sink cannot hold, with its type, or None."""
    nested = (MapType, StructType, VariantType, *(() if kind.arrays else (ArrayType,)))
    return next(
        (
            f"{field.name} {field.dataType.simpleString().upper():.80}"
            for field in columns
            if isinstance(field.dataType, nested)
        ),
        None,
    )


def cannot_hold(file_format: str, column: str) -> str:
    """Return why a format cannot hold results with a nested column, and what to do."""
    return (
        f"format {file_format} cannot hold the column {column} of the results\n\n"
        f'Choose "json", "parquet" or "orc", or make it text in the statement, e.g. with to_json.'
    )


def _refuse_shared(sinks: Mapping[str, Sink]) -> None:
    """Refuse one sink for the results twice, and one MemorySink for them and side output.

    One would replace what the other has written.
    """
    results = [argument for argument in sinks if is_of_results(argument)]
    for argument, sink in sinks.items():
        for other in results:
            if other == argument:
                break
            if argument in results and sink == sinks[other]:
                raise ConfigError(
                    f"{other} and {argument} are the same sink: {sink!r:.80}\n\n"
                    "Give each sink once: it gets all results."
                )
            if sink is sinks[other] and isinstance(sink, MemorySink):
                raise ConfigError(
                    f"{other} and {argument} are the same MemorySink\n\n"
                    "Give each its own: results and side output have different columns."
                )


def _refuse_meeting(
    sinks: Mapping[str, Sink], checkpoint: str, inputs: Mapping[str, DataFrame]
) -> None:
    places = [
        Place(role=Role.SOURCE, name=name, path=path)
        for name, frame in inputs.items()
        for path in folders_of(frame)
    ]
    places.append(Place(role=Role.CHECKPOINT, name="the checkpoint", path=checkpoint))
    seen: list[Sink] = []
    for argument, sink in sinks.items():
        # Kinds of side output may share a sink; results share with none.
        if isinstance(sink, FOLDER_SINKS) and sink not in seen:
            places.append(Place(role=Role.SINK, name=argument, path=sink.path))
            seen += [] if is_of_results(argument) else [sink]
    for clash in clashes(places):
        raise ConfigError(f"{clash.what}\n\n{clash.mend}")
