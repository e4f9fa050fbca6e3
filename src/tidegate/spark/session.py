"""Starting Spark on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, ExecutionError
from tidegate.names import suggestion
from tidegate.spark.connect import refuse_connect
from tidegate.spark.jars import SETTING as PACKAGES_SETTING
from tidegate.spark.jars import with_jars
from tidegate.spark.java import ensure_java, quiet_java, uninterrupted
from tidegate.spark.packages import PACKAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where we start Spark, and where spark-submit does, unless it was given others.
_ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # How many generated classes Spark keeps compiled. A query has up to 100; Spark's default is
    # four parts of 25, chosen by hash, and classes that do not fit are compiled in every batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Queries of one session share the cores evenly, see ``pools.py``.
    "spark.scheduler.mode": "FAIR",
}

_OURS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Only without a cluster, whose workers must reach the driver.
_LOOPBACK = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(
    cores: str | int = "*",
    options: Mapping[str, str] | None = None,
    formats: Iterable[str] = (),
) -> SparkSession:
    """Return a Spark session: the running one, or a new one on this machine.

    A script that ``spark-submit`` runs gets a session in the Spark that this has started, with its
    master and its options; the option ``spark.master`` names another master. A session that is
    running gets no options but those given here.

    Args:
        cores: how many cores of this machine, ``*`` for all.
        options: Spark options, which take precedence over ours.
        formats: what a new session reads and writes beyond Spark's own formats: ``kafka``,
            ``avro``, ``delta``, ``postgresql``, ``s3a``. Their packages are fetched unless Spark
            has them.

    Raises:
        ConfigError: an argument is wrong, a package cannot be fetched, or the session would be one
            of Spark Connect.
        ExecutionError: there is no Java 17 or later, or it ended at once.
    """
    _check(cores, options)
    formats = _checked_formats(formats)
    settings = {name: _as_spark_spells(value) for name, value in (options or {}).items()}
    refuse_connect(settings)
    if not _is_running():
        settings = with_jars(_with_java(settings, cores), formats)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("tidegate")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _load_generator(session)
    return session


def start_java(options: Mapping[str, str]) -> None:
    """Start Java for ``local_session`` with the same options, unless Spark is running.

    Spark's launcher must not be interrupted: it would leave a Java behind that never ends. Once
    this has returned, Java ends with the process.

    Raises:
        ConfigError, ExecutionError: as ``local_session``.
    """
    _check("*", options)
    settings = {name: _as_spark_spells(value) for name, value in options.items()}
    refuse_connect(settings)
    if not _is_running():
        _with_java(settings, "*")


def _with_java(given: Mapping[str, str], cores: str | int) -> dict[str, str]:
    """Start Java, unless it is there already; return the settings of the session to come."""
    # Otherwise the driver and the workers may find different Pythons.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _is_submitted():
        return _submitted(given)
    ensure_java()
    from pyspark import SparkConf, SparkContext

    settings = _local(given, cores)
    conf = SparkConf(loadDefaults=False)
    conf.setAll([(name, value) for name, value in settings.items() if name != PACKAGES_SETTING])
    with uninterrupted(), quiet_java(), _telling_when_java_ends():
        SparkContext._ensure_initialized(conf=conf)
    return settings


def _local(given: Mapping[str, str], cores: str | int) -> dict[str, str]:
    """Return the settings with which we start Spark; those of the user take precedence."""
    master = given.get("spark.master", f"local[{cores}]")
    # Java uses the last of two equal options, so the user's options come after ours.
    ours = f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"'
    java = f"{ours} {given.get(JAVA_OPTIONS, '')}".strip()
    loopback = _LOOPBACK if master.startswith("local") else {}
    return {**_ANYWHERE, **_OURS, **loopback, **given, "spark.master": master, JAVA_OPTIONS: java}


def _submitted(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a session gets beside the settings that ``spark-submit`` was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    theirs = SparkConf()
    ours = {name: value for name, value in _ANYWHERE.items() if not theirs.contains(name)}
    return {**ours, **given}


def _is_submitted() -> bool:
    """Whether ``spark-submit`` runs this process: Java, with its options, is there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _as_spark_spells(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_running() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


@contextmanager
def _telling_when_java_ends() -> Iterator[None]:
    """Say in a sentence that Java ended while Spark was starting; it prints the reason itself.

    Raises:
        ExecutionError: it did.
    """
    from pyspark.errors import PySparkRuntimeError

    try:
        yield
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ExecutionError(
            "Java ended while Spark was starting; what it printed above says why\n\n"
            "Correct the options of Spark: [pipeline] spark in a pipeline file, options of "
            "tidegate.local_session(..), or spark-defaults.conf."
        ) from None


def _checked_formats(formats: object) -> tuple[str, ...]:
    mend = 'Give e.g. formats=["kafka", "delta"].'
    if isinstance(formats, str) or not isinstance(formats, Iterable):
        raise ConfigError(f"formats is {formats!r:.80}, it must be a list\n\n{mend}")
    names = tuple(formats)
    for name in names:
        if name not in PACKAGES:
            known = f"These need a package: {', '.join(PACKAGES)}."
            raise ConfigError(
                f"formats: {name!r:.80} needs no package that Tidegate knows\n\n"
                f"{suggestion(str(name), PACKAGES, otherwise=known)}"
            )
    return names


def _check(cores: object, options: object) -> None:
    is_number = isinstance(cores, int) and not isinstance(cores, bool)
    if not (is_number or isinstance(cores, str)) or not re.fullmatch(r"\*|[1-9]\d*", str(cores)):
        raise ConfigError(
            f"cores is {cores!r:.80}, it must be a whole number greater than 0, or *\n\n"
            'Give e.g. cores=4, or cores="*" for all.'
        )
    example = 'Give e.g. options={"spark.sql.shuffle.partitions": "4"}.'
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"options is {options!r:.80}, it must be a dict\n\n{example}")
    for name, value in (options or {}).items():
        if not isinstance(name, str) or not name.startswith("spark."):
            raise ConfigError(f"{name!r:.80} is not an option of Spark\n\n{example}")
        if not isinstance(value, (str, int, float)):
            raise ConfigError(
                f"options: {name} is {value!r:.80}, it must be text or a number\n\n{example}"
            )


def _load_generator(session: SparkSession) -> None:
    """Make Spark read the size of its class cache now, while the session's options are visible.

    Spark reads it once per JVM, when code is first generated. That could be on a thread without a
    session (``collect_list`` in an observation, after a task), where Spark would use its default.
    """
    jvm: Any = session._jvm
    generator = jvm.org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
    generator.DEFAULT_JVM_HUGE_METHOD_LIMIT()


def current_session() -> SparkSession:
    """Return the active session of this thread, else the default one; Spark must be running."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    context = SparkContext._active_spark_context
    assert context is not None, "Spark is running"
    return SparkSession(context)
