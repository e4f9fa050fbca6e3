"""Checks of the arguments of public calls, made before anything starts or is written.

Each function returns the checked argument, or raises a ``ConfigError`` that names the argument, the
value and how to fix it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.api.chain import Attached, ResultsOf
from tidegate.api.unions import united
from tidegate.config import read_settings
from tidegate.connectors.sinks import FOLDER_SINKS, SINK_MEND, CallbackSink, Sink, as_sink
from tidegate.errors import ConfigError
from tidegate.names import listed, suggestion
from tidegate.paths import StrPath, local_path, misspelt_scheme, obstacle, path_text, scheme_of
from tidegate.plan.settings import Settings
from tidegate.spark.connect import refuse_remote
from tidegate.spark.files import unreachable
from tidegate.time import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Function = TypeVar("Function", bound="Callable[..., object]")

_MEND_CHECKPOINT = (
    "Give the folder that keeps the query's progress and state, e.g. "
    'checkpoint="checkpoint/flights".'
)
_MEND_FRAMES = 'Write e.g. clicks=spark.readStream..., or a schema: clicks="ts TIMESTAMP, v INT".'
# An interval in Spark's notation, which is also allowed for a trigger.
_SPARK_PART = re.compile(
    r"(\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?\s*", re.IGNORECASE
)
_SPARK_INTERVAL = re.compile(rf"\s*({_SPARK_PART.pattern})+", re.IGNORECASE)
_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def statement_text(value: object) -> str:
    """Return the text of a statement."""
    if isinstance(value, PathLike):
        raise ConfigError(
            "the statement is a path, it must be text\n\nWrite tidegate.sql(path.read_text(), ..)."
        )
    return text(value, "the statement", 'Write tidegate.sql("SELECT ..", ..).')


def text(value: object, name: str, mend: str) -> str:
    """Return an argument that must be text."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {shown(value)}, it must be text\n\n{mend}")
    return value


def flag(value: object, name: str, of: str = "") -> bool:
    """Return an argument that must be True or False; ``of`` is the one that it is part of."""
    if not isinstance(value, bool):
        place = f"{of}: {name}" if of else name
        raise ConfigError(f"{place} is {shown(value)}\n\nGive {name}=True or {name}=False.")
    return value


def one_of(value: object, name: str, words: Iterable[str]) -> None:
    """Refuse an argument that is not one of the given words."""
    known = tuple(words)
    if value not in known:
        choices = " or ".join(f'{name}="{word}"' for word in known)
        raise ConfigError(f"{name} is {shown(value)}\n\nGive {choices}.")


def settings_of(value: object) -> Settings:
    """Return the settings that a user gave."""
    if isinstance(value, Settings):
        return value
    if value is None:
        return Settings()
    example = 'Write e.g. settings={"watermark_lag": "5s"}.'
    if not isinstance(value, Mapping):
        raise ConfigError(f"settings is {shown(value)}, it must be a dict\n\n{example}")
    for key in value:
        text(key, f"the key {key!r} of settings", example)
    return read_settings(value)


def session(value: object) -> SparkSession | None:
    """Return the session that the user gave, if any."""
    if value is None:
        return None
    refuse_remote(value, "spark")
    from pyspark.sql import SparkSession

    if not isinstance(value, SparkSession):
        raise ConfigError(
            f"spark is {shown(value)}, it must be a SparkSession\n\n"
            "Leave it out, or write spark=tidegate.local_session()."
        )
    return value


def streams(value: object, name: str = "streams") -> dict[str, DataFrame | str | ResultsOf]:
    """Return streams by name: DataFrames, schemas, or the results of queries."""
    return {key: _stream(key, each) for key, each in _by_name(value, name).items()}


def tables(value: object, name: str = "tables") -> dict[str, DataFrame]:
    """Return tables by name."""
    return {key: frame(key, each) for key, each in _by_name(value, name).items()}


def each_once(*groups: Iterable[str]) -> None:
    """Refuse a name that is given twice."""
    seen: set[str] = set()
    for name in (name for group in groups for name in group):
        if name in seen:
            raise ConfigError(f"{name} is given twice\n\nGive each stream and table once.")
        seen.add(name)


def tables_of(value: Mapping[str, object], known: Iterable[str]) -> dict[str, DataFrame]:
    """Return the tables given to ``batch``; the statement must know each name."""
    names = tuple(known)
    for name in value:
        if name not in names:
            mend = suggestion(name, names, otherwise=f"The statement reads {listed(names)}.")
            raise ConfigError(f"the statement does not read {name}\n\n{mend}")
    return {
        name: united(name, tables(each, name)) if isinstance(each, Mapping) else frame(name, each)
        for name, each in value.items()
    }


def frame(name: str, value: object) -> DataFrame:
    """Return an argument that must be a Spark DataFrame."""
    mend = f"Write {name}=spark.read..., or {name}=spark.createDataFrame(..)."
    if value is None or isinstance(value, str):
        raise ConfigError(f"{name} is {shown(value)}, it must be a DataFrame of Spark\n\n{mend}")
    refuse_remote(value, name)
    from pyspark.sql import DataFrame

    if not isinstance(value, DataFrame):
        raise ConfigError(f"{name} is {shown(value)}, it must be a DataFrame of Spark\n\n{mend}")
    return value


def sink(value: Any, name: str, *, local: bool = True) -> Sink:  # noqa: ANN401 - whatever is given
    """Return the sink that a user gave; ``local``: paths without a scheme are on this machine."""
    if value is None:
        raise ConfigError(f"{name} is missing\n\n{SINK_MEND}")
    if isinstance(value, (str, PathLike)):
        path_text(value, name, SINK_MEND)
    try:
        found = as_sink(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    if isinstance(found, FOLDER_SINKS):
        _check_folder(str(found.path), name, local=local)
    elif isinstance(found, CallbackSink):
        function(found.function, name, "frame, epoch")
    else:
        function(found.write, f"{name}: write", "frame, epoch")
    return found


def results_sinks(value: object, *, local: bool = True) -> dict[str, Sink]:
    """Return the sinks of the results by their names in messages: ``sink``, or ``sink[0]`` .."""
    if not isinstance(value, (list, tuple)):
        return {"sink": sink(value, "sink", local=local)}
    if not value:
        raise ConfigError(f"sink is an empty list\n\n{SINK_MEND}")
    names = ["sink"] if len(value) == 1 else [f"sink[{place}]" for place in range(len(value))]
    return {name: sink(each, name, local=local) for name, each in zip(names, value, strict=True)}


def attached(value: object, name: str) -> tuple[Attached, ...]:
    """Return the queries that are to be started with another one."""
    given = value if isinstance(value, (list, tuple)) else (value,)
    for each in given:
        if not isinstance(each, Attached):
            raise ConfigError(
                f"{name} is {shown(each)}, it must be a query that is attached\n\n"
                f"Write {name}=[query.attach(sink=.., checkpoint=..)]."
            )
    return tuple(given)


def checkpoint(value: StrPath | None, *, local: bool = True) -> str:
    """Return the checkpoint folder; ``local``: paths without a scheme are on this machine."""
    folder = path_text(value, "checkpoint", _MEND_CHECKPOINT)
    _check_folder(folder, "checkpoint", local=local)
    return folder


def trigger(value: object) -> int:
    """Return the interval of batches in microseconds; 0: as fast as possible."""
    if value is None:
        return 0
    example = 'Give a duration, e.g. trigger="1s"; without trigger, batches follow at once.'
    if not isinstance(value, str):
        raise ConfigError(f"trigger is {shown(value)}, it must be text with a unit\n\n{example}")
    if _SPARK_INTERVAL.fullmatch(value):
        parts = _SPARK_PART.findall(value)
        return sum(int(number) * _MICROS[unit.lower()] for number, unit in parts)
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ConfigError(f"trigger: {error}\n\n{example}") from None


def query_name(value: object) -> str | None:
    """Return the name of a query in Spark."""
    if value is None:
        return None
    example = 'Give e.g. name="flights", or leave it out.'
    if not text(value, "name", example).strip():
        raise ConfigError(f"name is empty\n\n{example}")
    return str(value)


def function(value: Function | None, name: str, takes: str) -> Function | None:
    """Return a function that can be called with the parameters ``takes``, or None.

    Args:
        value: what the user gave.
        name: the argument.
        takes: the parameters with which it will be called, e.g. ``frame, epoch``.
    """
    if value is None:
        return None
    mend = f"Give a function of ({takes})."
    if not callable(value):
        raise ConfigError(f"{name} is {shown(value)}, it must be a function\n\n{mend}")
    try:
        inspect.signature(value).bind(*takes.split(", "))
    except TypeError:
        raise ConfigError(
            f"{name} is called with ({takes}), but {shown(value)} does not take these\n\n{mend}"
        ) from None
    except ValueError:
        pass  # the signature of a C function is unknown
    return value


def shown(value: object) -> str:
    """Return a value for a message: its repr if that is short, else its type."""
    if value is None or isinstance(value, (str, int, float, bytes)):
        return f"{value!r:.60}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    of = "" if package in ("builtins", "__main__") else f" of {package}"
    article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
    return f"{article} {kind.__name__}{of}"


def _by_name(value: object, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{name} is {shown(value)}, it must be a dict\n\n"
            f'Write e.g. {name}={{"clicks": spark.readStream...}}.'
        )
    for key in value:
        text(key, f"the name {key!r} in {name}", "Use the name from the statement.")
    return value


def _stream(name: str, value: object) -> DataFrame | str | ResultsOf:
    if isinstance(value, str):
        return value
    from tidegate.api.query import Query

    if isinstance(value, Query):
        return ResultsOf(value)
    if isinstance(value, Mapping):
        return united(name, {key: frame(key, each) for key, each in _by_name(value, name).items()})
    if value is not None:
        refuse_remote(value, name)
        from pyspark.sql import DataFrame

        if isinstance(value, DataFrame):
            return value
    raise ConfigError(
        f"{name} is {shown(value)}, it must be a DataFrame of Spark, a schema or a query\n\n"
        f"{_MEND_FRAMES}"
    )


def _check_folder(path: str, name: str, *, local: bool) -> None:
    """Refuse a folder that cannot be created or written, as far as that can be checked here."""
    folder = local_path(path) if local or scheme_of(path) else None
    wrong = misspelt_scheme(path) if folder is None else obstacle(folder)
    if wrong is not None:
        what, mend = wrong
        raise ConfigError(f"{name}={path!r}: {what}\n\n{mend}")


def check_reachable(session: SparkSession, places: Mapping[str, Sink | str]) -> None:
    """Refuse a folder for which Spark has no file system; sinks other than folders are accepted."""
    for name, place in places.items():
        path = str(place.path) if isinstance(place, FOLDER_SINKS) else place
        if not isinstance(path, str) or scheme_of(path) in (None, "file"):
            continue
        reason = unreachable(session, path)
        if reason is not None:
            raise ConfigError(
                f"{name}={path!r}: Spark cannot reach it: {reason}\n\n"
                "Correct the scheme, or start Spark with the package that provides its file system "
                "(spark.jars.packages)."
            )
