"""Starting Spark on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError
from tidegate.spark.java import ensure_java, quiet_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Classes that Spark keeps compiled. A query has up to 100, and Spark keeps four parts of 25,
    # chosen by hash: where one is too small, its classes are compiled again in every batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(cores: str | int = "*", options: Mapping[str, str] | None = None) -> SparkSession:
    """Return a Spark session on this machine, the one that runs or a new one.

    Args:
        cores: how many cores, ``*`` for all.
        options: Spark options that go before ours.

    Raises:
        ConfigError: an argument is wrong.
        ExecutionError: there is no Java 17 or newer.
    """
    _check(cores, options)
    # Otherwise drivers and workers may find different Pythons.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("tidegate")
    settings = {**_DEFAULTS, **(options or {})}
    # Java takes the last of two equal options, so one of the user's goes before ours.
    ours = f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"'
    settings[JAVA_OPTIONS] = f"{ours} {settings.get(JAVA_OPTIONS, '')}".strip()
    for name, value in settings.items():
        # A bool is ``true`` or ``false`` to Spark, in small letters.
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else value)
    with quiet_java():
        session = builder.getOrCreate()
    _load_generator(session)
    return session


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
    """Let Spark read how many classes it keeps, here, where it finds the session's options.

    It reads that once in a JVM, where code is first generated. That may be after a task has ended
    (``collect_list`` in an observation), where no session is known and Spark's default is taken.
    """
    jvm: Any = session._jvm
    generator = jvm.org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
    generator.DEFAULT_JVM_HUGE_METHOD_LIMIT()


def current_session() -> SparkSession:
    """Return the session that is active in this thread, else the default one; Spark is running."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    context = SparkContext._active_spark_context
    assert context is not None, "Spark is running"
    return SparkSession(context)
