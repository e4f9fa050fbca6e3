"""Checks of the targets of a query that starts: formats, owners, and folders that overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

from pyspark.sql.types import StructType

from tidegate.connectors.delta import DeltaSink
from tidegate.connectors.files import FileSink
from tidegate.connectors.jdbc import JdbcSink
from tidegate.connectors.memory import MemorySink
from tidegate.connectors.places import Place, Role, clashes
from tidegate.connectors.protocol import Results, Start
from tidegate.connectors.sinks import FOLDER_SINKS
from tidegate.errors import ConfigError
from tidegate.plan.columns import FINAL, RESULT_ID, RESULT_KEYS, WINDOW_ID
from tidegate.plan.stages import IngestRows
from tidegate.spark.inputs import folders_of
from tidegate.state.hadoop_files import files_of
from tidegate.state.manifest_log import numbers
from tidegate.state.writers import claimed_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.protocol import CheckingSink, ReplacingSink, Sink
    from tidegate.plan.physical import PhysicalPlan


def checked_targets(
    sinks: Mapping[str, Sink], checkpoint: str, inputs: Mapping[str, DataFrame]
) -> dict[str, Sink]:
    """Return the sinks of a query, checked and given its checkpoint; nothing is written.

    Args:
        sinks: by their argument in ``Query.start``; see ``is_of_results``.
        checkpoint: the folder of the checkpoint.
        inputs: the stream and the tables, by name.

    Raises:
        ConfigError: two folders overlap that must not, or a sink cannot take side output.
    """
    _refuse_flat(sinks)
    _refuse_shared(sinks)
    _refuse_meeting(sinks, checkpoint, inputs)
    owned: dict[str, Sink] = {}
    for argument, sink in sinks.items():
        # Equal sinks become one object: kinds that share a sink are written at once.
        same = next((each for each in owned.values() if each == sink), None)
        # A sink knows its query, so each query has one of its own.
        if same is None and isinstance(sink, (FileSink, JdbcSink)):
            same = replace(sink, checkpoint=checkpoint)
        if same is None and isinstance(sink, DeltaSink):
            same = replace(sink)
        owned[argument] = sink if same is None else same
    return owned


def check_start(
    sinks: Mapping[str, Sink],
    checkpoint: str,
    spark: SparkSession,
    results: Callable[[Sink], Results],
) -> None:
    """Let each sink that wants to (``CheckingSink``) refuse the start; nothing is written.

    Args:
        sinks: by their argument in ``Query.start``.
        checkpoint: the folder of the checkpoint.
        spark: the session.
        results: returns what is known of the results that a sink of theirs will get.

    Raises:
        ConfigError: a sink refuses it.
    """
    checking = {argument: sink for argument, sink in sinks.items() if _is_checking(sink)}
    if not checking:
        return
    files = files_of(spark, f"{checkpoint.rstrip('/')}/tidegate")
    owner = claimed_id(files)
    # A checkpoint with state but no claim gets its id, and becomes the owner, at the start.
    is_new = owner is None and not numbers(files, "manifests")
    for argument, sink in checking.items():
        told = partial(results, sink) if is_of_results(argument) else None
        start = Start(place=argument, spark=spark, owner=owner, is_new=is_new, results=told)
        sink.check_start(start)


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


def results_of(plan: PhysicalPlan, found: StructType) -> Results:
    """Return what a sink is told of the results of a query.

    Args:
        plan: the plan.
        found: the columns of the frames that the sink will get.
    """
    by_expression = {item.expression.sql: item.name for item in plan.finish.items}
    keys = plan.side_output.group_key
    types = found[RESULT_KEYS].dataType if RESULT_KEYS in found.names else StructType()
    assert isinstance(types, StructType), "keys are a struct"
    return Results(
        columns=StructType([f for f in found if f.name not in (RESULT_ID, RESULT_KEYS)]),
        keys=tuple((text, by_expression.get(column)) for text, column in keys),
        key_types=tuple(field.dataType for field in types),
        grouped=not (isinstance(plan.ingest, IngestRows) and plan.ingest.is_row_query),
        window_id=by_expression.get(WINDOW_ID),
        final=by_expression.get(FINAL),
    )


def record_keys_of(sinks: Iterable[Sink]) -> list[str]:
    """Return the expressions that sinks want as the keys of records, each once."""
    keys = (getattr(sink, "record_key", None) for sink in sinks)
    return list(dict.fromkeys(key for key in keys if key is not None))


def _is_checking(sink: Sink) -> TypeGuard[CheckingSink]:
    return callable(getattr(sink, "check_start", None))


def replaces_results(sink: Sink) -> TypeGuard[ReplacingSink]:
    """Return whether a sink says that it replaces results."""
    return getattr(sink, "replaces_results", False) is True


def _refuse_flat(sinks: Mapping[str, Sink]) -> None:
    for argument, sink in sinks.items():
        if is_of_results(argument):
            continue
        if isinstance(sink, (FileSink, JdbcSink)) and not sink.nested:
            raise ConfigError(
                f"{argument}: format {sink.format} cannot hold the records of side output\n\n"
                'They contain structs, e.g. the original row: use "json", "parquet" or "orc".'
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
